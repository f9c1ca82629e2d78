"""MIG mode as `up` and `down` may change it: on only when asked and on an idle GPU, off only where this run turned it on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from migctl.core.administered import chosen_gpus
from migctl.core.choices import Strategy
from migctl.core.events import NoteEvent
from migctl.core.holders import Purpose, Sighting
from migctl.core.mig import Gpu
from migctl.core.plan import Plan
from migctl.core.run import Run
from migctl.engine.apply import Workshop
from migctl.engine.holding import explained, is_in_use
from migctl.engine.idleness import PASSING_S, refuse_instances, wait_until_idle
from migctl.engine.observe import boot
from migctl.errors import HostError, MigctlError, Notice


def to_enable(plan: Plan, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The selected GPUs whose mode has to be turned on first; none unless the plan allows it."""
    if not plan.enable_mig or plan.strategy is Strategy.SHARED:
        return ()
    selected = chosen_gpus(plan, gpus)
    return tuple(gpu for gpu in selected if gpu.mig is not None and not gpu.mig.current and gpu.mig.settled)


def enable(shop: Workshop, run: Run, gpus: Sequence[Gpu]) -> Run:
    """Turn the mode on; recorded before it is done. Returns the run with these GPUs noted.

    Raises:
        Busy: somebody uses one of them; nothing was changed.
        HostError: the change stays outstanding (`mig-mode-pending`); it is taken back.
    """
    for gpu in gpus:
        refuse_instances(gpu, shop.ledger, shop.session, boot(shop.session, shop.driver), own_run=run.name)
        wait_until_idle(
            shop.session,
            shop.driver,
            gpu.uuid,
            wait_s=shop.wait_for_s,
            passing_s=PASSING_S,
            cancel=shop.cancel,
            report=shop.report,
        )
    run = shop.ledger.save_run(replace(run, mig_enabled=(*run.mig_enabled, *(gpu.uuid for gpu in gpus))))
    for gpu in gpus:
        try:
            shop.driver.set_mig_mode(gpu.uuid, enabled=True)
        except HostError as error:
            sighting = shop.who_holds(gpu.uuid) if is_in_use(error) else Sighting()
            # Left pending it would surprise the next reboot: the wish is taken back.
            restore(shop, run, ())
            raise _not_enabled(explained(error, sighting, Purpose.MODE, shop.session.caller.uid), gpu) from error
        shop.report(NoteEvent(f"GPU {gpu.index}: MIG mode is on"))
    return run


def _not_enabled(error: MigctlError, gpu: Gpu) -> MigctlError:
    """What `up` could not turn on: `mode` can, as it may reset the GPU and stop services."""
    if error.id != "mig-mode-pending":
        return error
    hint = (error.hint or "").replace(
        "add --stop-services, or: ", f"migctl mode enable --gpu {gpu.index} --stop-services, or: "
    )
    message = f"{error.message}. Nothing is left outstanding: the wish is taken back"
    return HostError(error.id, message, where=error.where, hint=hint, data=error.data)


def restore(shop: Workshop, run: Run, used: Collection[str | None]) -> tuple[Notice, ...]:
    """Turn the mode off again where this run turned it on, nothing uses the GPU, and no reset is needed for it.

    Args:
        used: UUIDs of the GPUs that the run used.

    Returns:
        What is left in MIG mode without an instance, and what that means (no CUDA program runs there).
    """
    notices: list[Notice] = []
    for gpu in shop.driver.gpus():
        if gpu.mig is None or gpu.instances or gpu.processes:
            continue
        ours = gpu.uuid in run.mig_enabled
        undoable = gpu.resetless_mig or not gpu.mig.current
        if ours and undoable and (gpu.mig.pending or gpu.mig.current):
            try:
                shop.driver.set_mig_mode(gpu.uuid, enabled=False)
            except MigctlError as error:
                notices.append(Notice(error.id, error.message, hint=error.hint, where=f"GPU {gpu.index}"))
            continue
        # Nobody else wants a simulated GPU, least of all with sudo.
        if gpu.mig.current and gpu.uuid in used and not shop.driver.simulated:
            how = "since turning it off needs a GPU reset" if ours else "as it was found"
            notices.append(
                Notice(
                    "empty-mig-gpu",
                    f"GPU {gpu.index} stays in MIG mode, {how}, with no instance: no CUDA program and no slurmd can use it until "
                    "an instance is made or the mode is turned off",
                    hint=f"sudo migctl mode disable --gpu {gpu.index}{' --reset' if gpu.resetless_mig is False else ''}   "
                    "gives the whole GPU back",
                )
            )
    return tuple(notices)
