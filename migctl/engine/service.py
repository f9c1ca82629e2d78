"""The systemd service that goes on with a user's runs after a restart of the machine: installed, removed, looked at."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from migctl.core.unitfile import Service, unit_name, unit_text
from migctl.core.words import counted
from migctl.engine.queueing.supervisor import is_supervised
from migctl.engine.session import Session
from migctl.errors import Busy, HostError, Notice, PlanError
from migctl.host.paths import make_private
from migctl.host.unitfiles import UnitFiles
from migctl.runtimes.reload_victims import reload_victims


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """What there is of the service."""

    kind: str | None
    """`user` or `system`; nothing where it is not installed."""
    unit: str = ""
    path: str = ""
    enabled: str = ""
    """systemd's word."""
    active: str = ""
    starts_without_login: bool | None = None
    supervised: bool = False
    """Whether a supervisor is at work now, however it was started."""
    notices: tuple[Notice, ...] = ()


def install(session: Session, *, system: bool, reload: bool, folder: Path | None = None) -> ServiceState:
    """Write the unit, enable it, and have systemd read it.

    Args:
        system: started by root with the machine, for the user who calls sudo; else by the user's own manager.
        reload: without it systemd knows the unit from the next start of the machine on, and nobody's container is in danger.
        folder: another place than systemd's, for tests.

    Raises:
        Busy: a reload would take GPUs away; nothing was changed.
        HostError: not permitted, or systemd refuses; nothing was changed.
    """
    if system and os.geteuid() != 0 and folder is None:
        raise HostError(
            "no-permission",
            "a service of the machine takes root; nothing was changed",
            hint="migctl service install --user is yours alone",
            data={"needs_root": True},
        )
    if not system and session.caller.sudo:
        raise PlanError(
            "usage", "a user's service is installed by the user, without sudo", hint="migctl service install --user"
        )
    if reload:
        _refuse_reload(session, system=system)
    make_private(session.paths.state, session.caller)
    units = _units(session, system=system, folder=folder)
    name = unit_name(session.caller.name, system=system)
    units.install(name, unit_text(_service(session, system=system)))
    notices = []
    later = f"systemd knows {name} from the next start of the machine on"
    if not reload:
        notices.append(Notice("not-reloaded", later))
    else:
        try:
            units.reload()
        except HostError as error:
            notices.append(Notice("not-reloaded", f"{error.message}; {later}", hint=error.hint))
    if not units.starts_without_login:
        notices.append(
            Notice(
                "needs-linger",
                f"without lingering the service starts when {session.caller.name} logs in, not with the machine",
                hint=f"loginctl enable-linger {session.caller.name}",
            )
        )
    return _state(session, units, name, kind="system" if system else "user", notices=tuple(notices))


def uninstall(session: Session, *, system: bool, folder: Path | None = None) -> bool:
    """Disable and remove the unit; a supervisor that runs goes on until nothing is left. Whether there was one.

    Raises:
        HostError: it is still there.
    """
    units = _units(session, system=system, folder=folder)
    return units.remove(unit_name(session.caller.name, system=system))


def state(session: Session, *, folder: Path | None = None) -> ServiceState:
    """What is installed; changes nothing."""
    for system in (False, True):
        units = _units(session, system=system, folder=folder)
        name = unit_name(session.caller.name, system=system)
        if units.path(name).is_file():
            return _state(session, units, name, kind="system" if system else "user")
    return ServiceState(kind=None, supervised=is_supervised(session))


def _state(
    session: Session, units: UnitFiles, name: str, *, kind: str, notices: tuple[Notice, ...] = ()
) -> ServiceState:
    return ServiceState(
        kind=kind,
        unit=name,
        path=str(units.path(name)),
        enabled=units.state("is-enabled", name),
        active=units.state("is-active", name),
        starts_without_login=units.starts_without_login,
        supervised=is_supervised(session),
        notices=notices,
    )


def _units(session: Session, *, system: bool, folder: Path | None) -> UnitFiles:
    return UnitFiles(session.environ, session.caller, user=not system, folder=folder)


def _refuse_reload(session: Session, *, system: bool) -> None:
    names = reload_victims(session.environ, user=not system)
    if names:
        raise Busy(
            "reload-takes-gpus",
            f"systemctl daemon-reload would take the GPU away from {counted(len(names), 'running container')} that got it "
            f"from a hook: {', '.join(names)}; nothing was changed",
            hint="when they have ended; or migctl service install --no-reload, which counts from the next start on",
            data={"containers": list(names)},
        )


def _service(session: Session, *, system: bool) -> Service:
    """With the same identity and places as the commands of this user."""
    paths = session.paths
    environment = {
        "MIGCTL_STATE_DIR": str(paths.state),
        "MIGCTL_RUN_DIR": str(paths.run),
        "MIGCTL_SIM_STATE": str(paths.sim_state),
    }
    package = Path(__file__).resolve().parents[2]
    if not package.is_relative_to(sys.prefix):
        environment["PYTHONPATH"] = str(package)  # a checkout, which the interpreter does not find by itself
    if system and session.caller.uid != os.geteuid():
        environment |= {"SUDO_UID": str(session.caller.uid), "SUDO_GID": str(session.caller.gid)}
    return Service(
        user=session.caller.name,
        command=(sys.executable, "-m", "migctl", "service", "run"),
        environment=environment,
        system=system,
    )
