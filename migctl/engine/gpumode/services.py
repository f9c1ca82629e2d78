"""Monitoring services, stopped while a GPU changes and started again, also by the next migctl where this one was killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from migctl.core.others.services import monitoring_units, start_order
from migctl.core.runs.events import Event, NoteEvent
from migctl.engine.session import Session
from migctl.errors import Busy, MigctlError, PartlyApplied
from migctl.host.pauses import Pause, read_pause, write_pause
from migctl.host.systemd import Systemd
from migctl.nvml.open import simulated_devices


def service_manager(session: Session) -> Systemd:
    """This machine's systemd; a simulated machine has none but the one in its own folder, so that no real service is touched."""
    if not session.simulated:
        return Systemd(session.environ)
    folder = simulated_devices(session.paths.sim_state)
    return Systemd({**session.environ, "PATH": str(folder / "bin") if folder is not None else ""})


def running_services(session: Session) -> tuple[str, ...]:
    """The monitoring services that run now, in the order of stopping; none where there is no systemd."""
    systemd = service_manager(session)
    return systemd.active(monitoring_units()) if systemd.there else ()


@contextmanager
def services_stopped(
    session: Session, units: Sequence[str], *, gpu: str, boot_id: str, report: Callable[[Event], None]
) -> Iterator[None]:
    """Stop these services, and start them again whatever happens inside. The `machine` lock must be held.

    That they are stopped is on disk before the first one is; from then on every end of this process leaves it to be read.

    Raises:
        HostError: one cannot be stopped; those stopped before it run again.
        PartlyApplied: one cannot be started again; the hint says how.
    """
    if not units:
        yield
        return
    systemd = service_manager(session)
    folder = session.paths.run
    pause = Pause(boot_id=boot_id, gpu=gpu, since=session.now(), units=tuple(units))
    write_pause(folder, pause)
    try:
        for unit in units:
            systemd.stop(unit)
            pause = pause.now_stopped(unit)
            write_pause(folder, pause)
            report(NoteEvent(f"{unit} is stopped"))
        yield
    finally:
        _start_again(systemd, folder, pause, report)


def recover_services(session: Session, boot_id: str, report: Callable[[Event], None]) -> None:
    """Start what a migctl that was killed has left stopped; nothing to do in nearly all calls, which then costs one open().

    Where another migctl is at work it is left to that one. Where this user may not, it is said how, and the command goes on.
    """
    folder = session.paths.run
    if read_pause(folder, boot_id) is None:
        return
    try:
        with session.lock("machine"):
            pause = read_pause(folder, boot_id)
            if pause is not None:
                _start_again(service_manager(session), folder, pause, report)
    except Busy:
        pass  # that one starts them, or leaves them to the next call
    except MigctlError as error:
        report(NoteEvent(f"{error.message}   try: {error.hint}"))


def left_stopped(session: Session, boot_id: str) -> tuple[str, ...]:
    """Services that a killed migctl has left stopped, or that one at work has stopped just now; reads only."""
    pause = read_pause(session.paths.run, boot_id)
    return pause.units if pause is not None else ()


def _start_again(systemd: Systemd, folder: Path, pause: Pause, report: Callable[[Event], None]) -> None:
    """In the opposite order; one that fails keeps no other from being started, and stays on disk."""
    problems: list[MigctlError] = []
    for unit in start_order(pause.units):
        try:
            if not systemd.active([unit]):
                systemd.start(unit)
                report(NoteEvent(f"{unit} runs again"))
        except MigctlError as error:
            problems.append(error)
        else:
            pause = pause.started(unit)
            write_pause(folder, pause)
    if problems:
        words = " ".join(unit.removesuffix(".service") for unit in start_order(pause.units))
        raise PartlyApplied(
            "services-left-stopped",
            "services that were stopped for the GPU could not be started again: "
            + "; ".join(error.message for error in problems),
            where=pause.gpu,
            hint=f"sudo systemctl start {words}   (the next migctl up, down or mode tries it, too)",
            data={"units": list(pause.units)},
        )
