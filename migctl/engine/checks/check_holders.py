"""The lines of `check` about who holds the GPUs, and what that would block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migctl.core.gpu.mig import Gpu
from migctl.core.others.holders import Purpose, Sighting, advice, held_by, service_commands, unseen
from migctl.core.others.services import start_order
from migctl.core.views.findings import Finding, Level
from migctl.engine.gpumode.services import left_stopped
from migctl.engine.holders.holding import sights
from migctl.engine.session import Session
from migctl.host.sudo import sudo_line


def holder_findings(session: Session, gpus: Sequence[Gpu], boot_id: str) -> Iterator[Finding]:
    """One line a GPU that somebody holds; one for services that were left stopped; one for what this user may not see."""
    stopped = left_stopped(session, boot_id)
    if stopped:
        words = " ".join(unit.removesuffix(".service") for unit in start_order(stopped))
        yield Finding(
            id="services-left-stopped",
            level=Level.WARNING,
            message=f"a migctl that was killed, or is at work, has stopped {', '.join(stopped)}",
            hint=f"sudo systemctl start {words}   (the next migctl up, down or mode does it, too)",
        )
    able = [gpu for gpu in gpus if gpu.mig is not None]
    if not able:
        return
    with session.ledger(write=False) as ledger:
        found = sights(session, ledger, able)
    changing = [gpu for gpu in able if gpu.mig is not None and not (gpu.mig.current and gpu.mig.settled)]
    for gpu in able:
        yield from _gpu(gpu, found[gpu.uuid], session.caller.uid, changing=gpu in changing)
    missing = next((unseen(found[gpu.uuid]) for gpu in changing), "")
    if missing:
        yield Finding(
            id="processes-unseen",
            level=Level.WARNING,
            message=f"{missing}: one of them could keep the MIG mode from being changed",
            hint=sudo_line(session.environ),
        )


def _gpu(gpu: Gpu, sighting: Sighting, uid: int, *, changing: bool) -> Iterator[Finding]:
    name = f"GPU {gpu.index} ({gpu.name})"
    if not changing:
        # With the mode on, whoever holds the GPU as a whole keeps no instance from being made.
        if sighting.holders:
            yield Finding(id="holders", level=Level.OK, message=f"{name}: {held_by(sighting, Purpose.CREATE)}")
        return
    units = [h.unit for h in sighting.holders if h.stoppable and h.unit is not None]
    if sighting.holders:
        hint = advice(sighting, Purpose.MODE, uid)
        if units and len(units) == len(sighting.holders):
            hint = f"migctl mode enable --gpu {gpu.index} --stop-services, or: {service_commands(units)}"
        yield Finding(
            id="gpu-held",
            level=Level.WARNING,
            message=f"{name}: {held_by(sighting, Purpose.MODE)}; that can keep its MIG mode from being changed",
            hint=hint,
        )
    elif sighting.modules and gpu.resetless_mig is False:
        yield Finding(
            id="kernel-module-holds",
            level=Level.WARNING,
            message=f"{name}: {held_by(sighting, Purpose.RESET)}; that can keep it from being reset",
            hint=advice(sighting, Purpose.RESET, uid),
        )
