"""systemd's services, asked and told through systemctl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from migctl.errors import HostError
from migctl.programs import ask, find_program

_ASK_S: Final = 10.0
_CHANGE_S: Final = 120.0
"""systemd itself gives a service 90 s to stop (DefaultTimeoutStopSec)."""


class Systemd:
    """The service manager of this machine.

    Raises:
        HostError: `no-systemctl`, from all methods that need it.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._program = find_program("systemctl", environ)

    @property
    def there(self) -> bool:
        """Whether there is a systemctl to ask."""
        return self._program is not None

    def active(self, units: Sequence[str]) -> tuple[str, ...]:
        """Those of the units that run now; names that this machine does not know do not."""
        if not units:
            return ()
        answer = ask([self._systemctl(), "is-active", *units], self._environ, _ASK_S)
        states = answer.output.split()
        return tuple(unit for unit, state in zip(units, states, strict=False) if state in ("active", "reloading"))

    def stop(self, unit: str) -> None:
        """Stop a service; returns when it has ended.

        Raises:
            HostError: `service-not-stopped`.
        """
        self._change("stop", unit, "service-not-stopped")

    def start(self, unit: str) -> None:
        """Start a service.

        Raises:
            HostError: `service-not-started`.
        """
        self._change("start", unit, "service-not-started")

    def _change(self, verb: str, unit: str, problem: str) -> None:
        answer = ask([self._systemctl(), verb, unit], self._environ, _CHANGE_S)
        if answer.code != 0:
            raise HostError(
                problem,
                f"systemctl could not {verb} {unit}: {answer.text or f'exit code {answer.code}'}",
                where=unit,
                hint=f"systemctl status {unit}; then sudo systemctl {verb} {unit.removesuffix('.service')}",
            )

    def _systemctl(self) -> str:
        if self._program is None:
            raise HostError(
                "no-systemctl",
                "there is no systemctl on PATH, so services can be neither stopped nor started again",
                hint="stop them by hand, repeat the command without --stop-services, and start them again",
            )
        return self._program
