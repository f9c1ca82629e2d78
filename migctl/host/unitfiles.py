"""Unit files of systemd: written, enabled, disabled and asked about through systemctl."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from migctl.errors import HostError
from migctl.host.caller import Caller
from migctl.programs import ask, find_program

SYSTEM: Final = Path("/etc/systemd/system")
"""Where an administrator's units lie (systemd.unit(5))."""
_LINGER: Final = Path("/var/lib/systemd/linger")
_ASK_S: Final = 20.0


class UnitFiles:
    """The units of the machine's manager, or of the user's own.

    Args:
        environ: the caller's environment.
        user: the user's own manager.
        folder: another place than the manager's own, for tests.
    """

    def __init__(self, environ: Mapping[str, str], caller: Caller, *, user: bool, folder: Path | None = None) -> None:
        self._environ = environ
        self._caller = caller
        self._user = user
        config = Path(environ.get("XDG_CONFIG_HOME") or caller.home / ".config")
        self.folder = folder or (config / "systemd/user" if user else SYSTEM)

    def path(self, name: str) -> Path:
        """Where the unit of this name lies."""
        return self.folder / name

    def install(self, name: str, text: str) -> None:
        """Write the unit and have it started with the machine; nothing is loaded anew.

        Raises:
            HostError: nothing was changed.
        """
        path = self.path(name)
        before = path.read_bytes() if path.is_file() else None
        self._write(path, text.encode())
        try:
            self._systemctl("enable", "--no-reload", name)
        except HostError:
            if before is None:
                path.unlink(missing_ok=True)
            else:
                self._write(path, before)
            raise

    def remove(self, name: str) -> bool:
        """Undo `install`; whether there was anything. What runs of it goes on.

        Raises:
            HostError: it is still there.
        """
        path = self.path(name)
        if not path.is_file():
            return False
        self._systemctl("disable", "--no-reload", name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _not_written(path, error) from error
        return True

    def reload(self) -> None:
        """Have the manager read all units anew.

        Raises:
            HostError: it does not.
        """
        self._systemctl("daemon-reload")

    def state(self, verb: str, name: str) -> str:
        """One word of `is-enabled` or `is-active`; `unknown` where nobody can be asked."""
        if find_program("systemctl", self._environ) is None:
            return "unknown"
        answer = ask(["systemctl", *self._manager, verb, name], self._environ, _ASK_S)
        words = answer.output.split()
        return words[0] if words else "unknown"

    @property
    def starts_without_login(self) -> bool:
        """Whether the manager is there from the machine's start (loginctl(1), enable-linger)."""
        return not self._user or (_LINGER / self._caller.name).exists()

    @property
    def _manager(self) -> tuple[str, ...]:
        return ("--user",) if self._user else ()

    def _systemctl(self, *words: str) -> None:
        if find_program("systemctl", self._environ) is None:
            raise HostError(
                "no-systemctl",
                "there is no systemctl on PATH: this machine's services are not systemd's",
                hint="run `migctl service run` at the start of the machine by other means, e.g. @reboot in crontab(5)",
            )
        answer = ask(["systemctl", *self._manager, *words], self._environ, _ASK_S)
        if not answer.ok:
            raise HostError(
                "systemctl-failed",
                f"systemctl {' '.join((*self._manager, *words))} failed: {answer.text or f'exit code {answer.code}'}",
                where=words[-1],
                hint="systemctl --user needs a login session of the user" if self._user else "systemctl status",
            )

    def _write(self, path: Path, data: bytes) -> None:
        """Whole or not at all: a half unit would be started with the machine."""
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(data)
            draft.chmod(0o644)
            draft.replace(path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            raise _not_written(path, error) from error


def _not_written(path: Path, error: OSError) -> HostError:
    return HostError(
        "unit-not-written",
        f"{path} cannot be changed: {error.strerror}",
        where=str(path),
        data={"needs_root": isinstance(error, PermissionError)},
    )
