"""The real program as other users of one simulated machine: each with a uid and a state directory, all with one run folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

import pytest

from tests.support.other_user import NOBODY
from tests.support.program import BOARD, ROOT, Program

needs_setpriv = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can run commands as another user (setpriv)"
)


_PROBE = """\
import subprocess, sys, migctl.cli.app, pydantic, yaml
assert sys.version.startswith("VERSION")
subprocess.run([sys.executable, "-c", ""], check=True)
"""
"""It must be able to start itself too: setpriv still has root's capabilities when it starts the first."""


@cache
def open_python() -> tuple[str, str]:
    """An interpreter that every user may start, and the PYTHONPATH with which it finds what the program needs.

    One under somebody's home (pyenv, uv) is closed to others; the system's of the same version runs the same packages.
    """
    path = os.pathsep.join((str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}", "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [*as_uid(NOBODY), python, "-c", _PROBE.replace("VERSION", version)],
                env={"PYTHONPATH": path},
                cwd="/",
                capture_output=True,
                check=False,
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python, path
    pytest.skip("no Python interpreter with the packages is open to other users")


def as_uid(uid: int) -> tuple[str, ...]:
    """The words that make a command another user's, with none of root's capabilities."""
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all")


class User(Program):
    """One user of the machine in `machine`."""

    def __init__(self, machine: Path, uid: int, name: str, boards: str = BOARD, **environ: str) -> None:
        python, path = open_python()
        folder = machine / name
        folder.mkdir(mode=0o700)
        os.chown(folder, uid, uid)
        super().__init__(
            folder,
            PYTHONPATH=path,
            HOME=str(folder),
            MIGCTL_NVML=f"sim:{boards}" if not boards.startswith("sim:") else boards,
            MIGCTL_RUN_DIR=str(machine / "run"),
            MIGCTL_SIM_STATE=str(machine / "simulator.json"),
            DOCKER_HOST=f"unix://{machine}/no-engine.sock",
            PYTHONDONTWRITEBYTECODE="1",
            **environ,
        )
        self.uid = uid
        self.claims = machine / "run"
        self.simulator = machine / "simulator.json"
        self.python = python
        self.prefix = as_uid(uid)

    def owned(self, path: Path) -> Path:
        """The path, given to this user."""
        os.chown(path, self.uid, self.uid)
        return path


def shared_machine(folder: Path) -> Path:
    """A folder with what all users of one simulated machine share; a real driver's state is everybody's to change too."""
    folder.chmod(0o777)
    lock = folder / "simulator.json.lock"
    lock.touch()
    lock.chmod(0o666)
    return folder
