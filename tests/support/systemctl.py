"""A machine with a stand-in for systemctl, which notes its words and answers as systemd 252 does."""

from __future__ import annotations

import os
from pathlib import Path

from migctl.engine.session import Session

SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$SYSTEMCTL_LOG"
[ "$1" = --user ] && shift
case $1 in
enable) [ -z "$SYSTEMCTL_REFUSES" ] || { echo "Failed to connect to bus: No medium found" >&2; exit 1; } ;;
daemon-reload) [ -z "$SYSTEMCTL_OFFLINE" ] || { echo "Running in chroot, ignoring command 'daemon-reload'" >&2; exit 1; } ;;
is-enabled) echo enabled ;;
is-active) echo inactive; exit 3 ;;
esac
"""


class Machine:
    """A session on a machine with a stand-in for systemctl."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.log = folder / "systemctl.log"
        self.units = folder / "units"
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "systemctl").write_text(SYSTEMCTL)
        (bin_folder / "systemctl").chmod(0o755)
        self.environ = {
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "home/.config"),
            "SYSTEMCTL_LOG": str(self.log),
            "MIGCTL_STATE_DIR": str(folder / "state"),
            "MIGCTL_RUN_DIR": str(folder / "run"),
            "MIGCTL_RECORDING": "off",
            "DOCKER_HOST": f"unix://{folder}/no-engine.sock",
            **environ,
        }

    @property
    def session(self) -> Session:
        return Session(environ=self.environ)

    def told(self) -> list[str]:
        """What systemctl was told to change."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if "is-" not in line]

    def files(self) -> list[str]:
        return sorted(path.name for path in self.units.glob("*")) if self.units.exists() else []
