"""Whether anything runs on a GPU: what must be so before its MIG mode is changed or it is reset."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from migctl.core.gpu.mig import Gpu
from migctl.core.others.holders import Holder, Purpose, Sighting, advice, held_by
from migctl.core.others.services import Role
from migctl.core.runs.events import Event, NoteEvent
from migctl.core.runs.observed import Observed
from migctl.core.words import counted
from migctl.engine.holders.heldmachine import HeldMachine, stepped_back
from migctl.engine.holders.holding import Vigil, holders_data, sight
from migctl.engine.observe import boot, owners
from migctl.engine.session import Session
from migctl.errors import Busy, Interrupted
from migctl.host.claims import read_claims
from migctl.nvml.driver import Driver
from migctl.nvml.open import released
from migctl.store.ledger import Ledger

PASSING_S: Final = 2.0
"""Somebody's `nvidia-smi` or `migctl status` that passes by is waited for without being asked to."""
_ONLY_LOOKING: Final = (Role.MONITORING, Role.FABRIC)


def at_work(sighting: Sighting) -> Sighting:
    """Those of the holders whose work would be lost; a monitoring service only makes the driver say "in use"."""
    return replace(sighting, holders=tuple(h for h in sighting.holders if not _only_looks(h)))


def _only_looks(holder: Holder) -> bool:
    return holder.service is not None and holder.service.role in _ONLY_LOOKING


def refuse_instances(gpu: Gpu, ledger: Ledger, session: Session, boot_id: str, *, own_run: str | None = None) -> None:
    """A change of the mode, and a reset, take every instance with them: whose ever it is.

    Args:
        own_run: a run of the caller's whose own claim is no obstacle.

    Raises:
        Busy: `gpu-has-instances`, `gpu-claimed`.
    """
    claims = list(read_claims(session.paths.run, boot_id))
    if gpu.instances:
        seen = Observed(boot_id=boot_id, gpus=(gpu,), units=())
        known = owners(ledger, seen, claims)
        named = [f"{i.profile} at {i.placement} ({known.get((gpu.uuid, i.gi_id), 'not ours')})" for i in gpu.instances]
        mine = sorted({owner.partition("/")[0] for owner in known.values()} & {run.name for run in ledger.runs()})
        raise Busy(
            "gpu-has-instances",
            f"GPU {gpu.index} has {counted(len(named), 'GPU instance')}, which would be destroyed: " + ", ".join(named),
            where=f"GPU {gpu.index}",
            hint=f"migctl down {mine[0]}" if mine else "their owners must remove them first; migctl status shows them",
        )
    own = (session.caller.uid, own_run)
    users = sorted({f"{c.user}/{c.run}" for c in claims if gpu.uuid in c.gpus and (c.uid, c.run) != own})
    if users:
        raise Busy(
            "gpu-claimed",
            f"GPU {gpu.index} is used by {' and '.join(users)}",
            where=f"GPU {gpu.index}",
            hint="when it has ended: migctl down (by its owner), then repeat the command",
        )


def wait_until_idle(
    session: Session,
    driver: Driver,
    gpu_uuid: str,
    *,
    wait_s: float,
    passing_s: float = 0.0,
    own_run: str | None = None,
    machine: HeldMachine,
    cancel: threading.Event,
    report: Callable[[Event], None],
) -> Gpu:
    """The GPU, once no instance is on it and nobody works on it; while waiting no GPU is open, and the machine is others'.

    Args:
        wait_s: what the user said.
        passing_s: how long is waited in any case.
        own_run: a run of the caller's whose own claim is no obstacle.

    Raises:
        Busy: `gpu-busy`, naming everybody who does; `gpu-has-instances`, `gpu-claimed`.
        Interrupted: a signal came while waiting.
    """
    vigil = Vigil(
        purpose=Purpose.MODE,
        wait_s=max(wait_s, passing_s),
        say=(lambda text: report(NoteEvent(text))) if wait_s > 0 else (lambda _: None),
        away=partial(stepped_back, driver, machine),
    )
    boot_id = boot(session, driver)
    while True:
        with session.ledger(write=False) as ledger:
            gpu = driver.gpu(gpu_uuid)
            refuse_instances(gpu, ledger, session, boot_id, own_run=own_run)
            working = at_work(sight(session, ledger, gpu))
        if not working.holders:
            return gpu
        if cancel.is_set():
            raise Interrupted("interrupted", f"interrupted while waiting for GPU {gpu.index}; nothing was changed")
        if vigil.left_s <= 0:
            raise Busy(
                "gpu-busy",
                f"GPU {gpu.index} is in use; {held_by(working, Purpose.MODE)}; its MIG mode can be changed only while it is idle",
                where=f"GPU {gpu.index}",
                hint=f"{advice(working, Purpose.MODE, session.caller.uid)}   (--wait-for S waits for it)",
                data=holders_data(working),
            )
        vigil.for_an_end(working, cancel)


def hold_machine(
    stack: ExitStack, session: Session, driver: Driver, wait_s: float, cancel: threading.Event
) -> HeldMachine:
    """Take the `machine` lock for the rest of the stack's block; no GPU is kept open while waiting for it.

    Raises:
        Busy: somebody else holds it.
        Interrupted: a signal came while waiting for it.
    """

    def take(seconds: float, heeding: bool) -> AbstractContextManager[None]:
        heeded = cancel if heeding or not cancel.is_set() else None
        return session.lock("machine", wait_s=seconds, cancel=heeded)

    machine = HeldMachine(take)
    stack.callback(machine.close)
    try:
        machine.take(0.0)
    except Busy:
        if wait_s <= 0:
            raise
        with released(driver):
            machine.take(wait_s)
    return machine
