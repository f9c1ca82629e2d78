"""MIG mode as `up` and `down` may change it: on only when asked and on an idle GPU, off only where this run turned it on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from migctl.core.choices import Strategy
from migctl.core.gpu.administered import chosen_gpus
from migctl.core.gpu.mig import Gpu
from migctl.core.others.holders import Purpose, Sighting
from migctl.core.plan import Plan
from migctl.core.runs.events import NoteEvent
from migctl.core.runs.run import Run
from migctl.engine.apply import Workshop
from migctl.engine.holders.holding import explained
from migctl.engine.holders.idleness import PASSING_S, wait_until_idle
from migctl.errors import HostError, Interrupted, MigctlError, Notice
from migctl.nvml.refusals import is_in_use, is_outstanding


@dataclass(frozen=True, slots=True, kw_only=True)
class StaysOn:
    """A GPU whose MIG mode a run turned on, or wished to, and that could not be put back."""

    uuid: str
    name: str
    """`GPU 0`, or its UUID where it does not answer any more."""
    why: str
    command: str
    """What puts it back."""


def to_enable(plan: Plan, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The selected GPUs whose mode has to be turned on first; none unless the plan allows it."""
    if not plan.enable_mig or plan.strategy is Strategy.SHARED:
        return ()
    selected = chosen_gpus(plan, gpus)
    return tuple(gpu for gpu in selected if gpu.mig is not None and not gpu.mig.current and gpu.mig.settled)


def turn_on(shop: Workshop, run: Run, gpus: Sequence[Gpu]) -> Run:
    """Turn the mode on, each GPU recorded before it is done; whoever calls it puts back (`put_back`) what a failure leaves.

    Returns:
        The run with these GPUs noted.

    Raises:
        Busy: somebody uses one of them.
        HostError: the change is refused, or stays outstanding (`mig-mode-pending`).
        Interrupted: a signal came.
    """
    for gpu in gpus:
        wait_until_idle(
            shop.session,
            shop.driver,
            gpu.uuid,
            wait_s=shop.wait_for_s,
            passing_s=PASSING_S,
            own_run=run.name,
            machine=shop.machine,
            cancel=shop.cancel,
            report=shop.report,
        )
    for gpu in [shop.driver.gpu(gpu.uuid) for gpu in gpus]:
        if gpu.mig is not None and gpu.mig.current:
            continue  # somebody else turned it on while another one was waited for: it is not ours to turn off
        if shop.cancel.is_set():
            raise Interrupted("interrupted", "interrupted; everything that this command had made is undone")
        noted = tuple(uuid for uuid in run.mig_enabled if uuid != gpu.uuid)
        run = shop.ledger.save_run(replace(run, mig_enabled=(*noted, gpu.uuid)))
        try:
            shop.driver.set_mig_mode(gpu.uuid, enabled=True)
        except MigctlError as error:
            raise _not_enabled(shop, gpu, error) from error
        shop.report(NoteEvent(f"GPU {gpu.index}: MIG mode is on{_lasts(gpu)}"))
    return run


def _lasts(gpu: Gpu) -> str:
    """How long, where that is longer or shorter than the run (NVIDIA MIG User Guide, "GPU Reset on Hopper+")."""
    if gpu.resetless_mig:
        return " (until the machine is restarted)"
    return "; it outlives this run and restarts of the machine, since turning it off takes a GPU reset"


def _not_enabled(shop: Workshop, gpu: Gpu, error: MigctlError) -> MigctlError:
    """What `up` could not turn on: `mode` can, as it may reset the GPU and stop services."""
    sighting = shop.who_holds(gpu.uuid) if is_in_use(error) else Sighting()
    stopping = f"migctl mode enable --gpu {gpu.index} --stop-services"
    told = explained(error, sighting, Purpose.MODE, shop.session.caller.uid, stopping=stopping)
    if not is_outstanding(told):
        return told
    message = f"{told.message}. Nothing is left outstanding: the wish is taken back"
    return HostError(told.id, message, where=told.where, hint=told.hint, data=told.data)


def put_back(shop: Workshop, run: Run, gpus: Collection[str]) -> tuple[Run, tuple[StaysOn, ...]]:
    """Turn the mode off again of those of these GPUs (UUIDs) that the run turned on; one that is off is noted no more.

    Returns:
        The run as it is recorded now, and the GPUs that keep their note.

    Raises:
        MigctlError: the record could not be written; it then notes too much, which `down` finds out.
    """
    meant = [uuid for uuid in run.mig_enabled if uuid in gpus]
    if not meant:
        return run, ()
    there: Mapping[str, Gpu] = {}
    with suppress(MigctlError):
        there = {gpu.uuid: gpu for gpu in shop.driver.gpus()}
    stays = [left for uuid in meant if (left := _stays(shop, uuid, there.get(uuid))) is not None]
    kept = {left.uuid for left in stays}
    noted = tuple(uuid for uuid in run.mig_enabled if uuid not in meant or uuid in kept)
    if noted != run.mig_enabled:
        run = shop.ledger.save_run(replace(run, mig_enabled=noted))
    return run, tuple(stays)


def _stays(shop: Workshop, uuid: str, gpu: Gpu | None) -> StaysOn | None:
    """The GPU, where its mode is still on, or is to be, after the attempt to turn it off."""
    why = "it does not answer" if gpu is None else _turn_off(shop, gpu)
    if why is None:
        return None
    return StaysOn(
        uuid=uuid,
        name=f"GPU {gpu.index}" if gpu is not None else f"GPU {uuid}",
        why=why,
        command=_disable(shop, uuid, gpu),
    )


def _turn_off(shop: Workshop, gpu: Gpu) -> str | None:
    """Why the mode is still on, or is to be, afterwards; nothing where it is off."""
    if gpu.mig is None or not (gpu.mig.current or gpu.mig.pending):
        return None
    if gpu.instances:
        return "there are instances on it"
    if gpu.mig.current and not gpu.resetless_mig:
        return "turning it off needs a GPU reset"
    try:
        shop.driver.set_mig_mode(gpu.uuid, enabled=False)
    except MigctlError as error:
        if gpu.mig.current:
            # Left pending it would surprise the next reboot, and keep everybody from using the GPU until then.
            with suppress(MigctlError):
                shop.driver.set_mig_mode(gpu.uuid, enabled=True)
        return error.message
    return None


def _disable(shop: Workshop, uuid: str, gpu: Gpu | None) -> str:
    """The command that turns the mode off by hand."""
    sudo = "" if shop.driver.simulated else "sudo "
    if gpu is None:
        return f"{sudo}migctl mode disable --gpu {uuid}"
    reset = " --reset" if gpu.resetless_mig is False and gpu.mig is not None and gpu.mig.current else ""
    return f"{sudo}migctl mode disable --gpu {gpu.index}{reset}"


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
        if ours and (gpu.resetless_mig or not gpu.mig.current):
            why = _turn_off(shop, gpu)
            if why is not None:
                notices.append(
                    Notice(
                        "mig-mode-left",
                        f"GPU {gpu.index} stays in MIG mode: {why}",
                        hint=_disable(shop, gpu.uuid, gpu),
                        where=f"GPU {gpu.index}",
                    )
                )
            continue
        if gpu.mig.current and (ours or gpu.uuid in used):
            how = "since turning it off needs a GPU reset" if ours else "as it was found"
            notices.append(
                Notice(
                    "empty-mig-gpu",
                    f"GPU {gpu.index} stays in MIG mode, {how}, with no instance: no CUDA program, no slurmd and no nvidia-ctk "
                    "works on it until an instance is made or the mode is turned off",
                    hint=f"{_disable(shop, gpu.uuid, gpu)}   gives the whole GPU back",
                )
            )
    return tuple(notices)
