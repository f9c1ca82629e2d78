"""`mode`: change the MIG mode of one GPU on request, with what that needs, and never call it done before it is in force."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from migctl.core.gpu.mig import Gpu, MigMode
from migctl.core.gpu.selection import select_gpus
from migctl.core.others.holders import STOP_SERVICES, Purpose, Sighting, advice, held_by, service_commands
from migctl.core.plan import GpuSelector
from migctl.core.runs.events import Event, NoteEvent
from migctl.engine.gpumode.services import recover_services, running_services, services_stopped
from migctl.engine.holders.heldmachine import HeldMachine
from migctl.engine.holders.holding import explained, holders_data, sight
from migctl.engine.holders.idleness import PASSING_S, at_work, hold_machine, wait_until_idle
from migctl.engine.observe import boot
from migctl.engine.rights import require_mode
from migctl.engine.session import Session
from migctl.errors import HostError, MigctlError, PlanError
from migctl.host.reset import ResetAnswer, reset_command, reset_gpu, reset_words
from migctl.nvml.driver import Driver
from migctl.nvml.errors import no_mig
from migctl.nvml.open import released, simulated_reset
from migctl.nvml.refusals import is_in_use, is_outstanding, needs_a_reboot

_LETTING_GO_S = 5.0
"""How long a driver may take to notice that everybody has let go of the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRequest:
    """What the command line said."""

    enabled: bool
    gpu: GpuSelector | None = None
    """`None`: the only GPU that would do."""
    reset: bool = False
    stop_services: bool = False
    wait_for_s: float = 0.0

    @property
    def word(self) -> str:
        """`enable` or `disable`."""
        return "enable" if self.enabled else "disable"

    @property
    def stopping(self) -> str | None:
        """What to advise about services that hold the GPU: nothing where they are stopped already."""
        return None if self.stop_services else STOP_SERVICES


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeResult:
    """What was done, or what a dry run would do."""

    gpu: Gpu
    """As it was before."""
    mode: MigMode
    """As read back at the end; both values are what was asked for."""
    changed: bool
    reset: bool = False
    stopped: tuple[str, ...] = ()
    """Services that were stopped and run again."""
    steps: tuple[str, ...] = ()
    """Of a dry run: what would be done."""


def preview_mode(session: Session, request: ModeRequest) -> ModeResult:
    """What `mode` would do; reads only, and refuses what `mode` would refuse."""
    with session.driver() as driver:
        gpu = _chosen(driver, request)
        assert gpu.mig is not None, "checked when it was chosen"
        if gpu.mig == _wanted(request):
            return ModeResult(gpu=gpu, mode=gpu.mig, changed=False)
        wait_until_idle(
            session,
            driver,
            gpu.uuid,
            wait_s=0.0,
            machine=HeldMachine(),
            cancel=threading.Event(),
            report=lambda _: None,
        )
        services = running_services(session) if request.stop_services else ()
        return ModeResult(gpu=gpu, mode=gpu.mig, changed=False, steps=tuple(_steps(session, gpu, request, services)))


def change_mode(
    session: Session, request: ModeRequest, report: Callable[[Event], None], cancel: threading.Event
) -> ModeResult:
    """Change it, and verify.

    Raises:
        PlanError: no GPU, or several, are meant.
        Busy: something runs on the GPU, or is there; nothing was changed.
        HostError: `no-mig`, `no-permission`; or `mig-mode-pending`: accepted, but not in force, with what it still needs.
        PartlyApplied: a service that was stopped could not be started again.
    """
    with ExitStack() as stack:
        driver = stack.enter_context(session.driver())
        boot_id = boot(session, driver)
        recover_services(session, boot_id, report)
        machine = hold_machine(stack, session, driver, request.wait_for_s, cancel)
        gpu = _chosen(driver, request)
        assert gpu.mig is not None, "checked when it was chosen"
        wanted = _wanted(request)
        if gpu.mig == wanted:
            return ModeResult(gpu=gpu, mode=wanted, changed=False)
        _refuse_by_policy(session, gpu)
        require_mode(session, gpu)
        if gpu.mig.current == request.enabled:
            # A change that is outstanding is taken back: nothing of the GPU is touched by that.
            return ModeResult(gpu=gpu, mode=driver.set_mig_mode(gpu.uuid, request.enabled), changed=True)
        gpu = wait_until_idle(
            session,
            driver,
            gpu.uuid,
            wait_s=request.wait_for_s,
            passing_s=PASSING_S,
            machine=machine,
            cancel=cancel,
            report=report,
        )
        if gpu.mig == wanted:
            return ModeResult(gpu=gpu, mode=wanted, changed=False)  # somebody else changed it meanwhile
        units = running_services(session) if request.stop_services else ()
        with services_stopped(session, units, gpu=f"GPU {gpu.index}", boot_id=boot_id, report=report):
            was_reset = _change(session, driver, gpu, request, patient=bool(units), report=report)
        return ModeResult(gpu=gpu, mode=wanted, changed=True, reset=was_reset, stopped=units)


def _change(
    session: Session,
    driver: Driver,
    gpu: Gpu,
    request: ModeRequest,
    *,
    patient: bool,
    report: Callable[[Event], None],
) -> bool:
    """Set the mode, and reset the GPU where NVML says that this is what is missing; whether it was reset."""
    pending = _set(driver, gpu, request, patient=patient)
    if pending is None:
        return False
    with session.ledger(write=False) as ledger:
        sighting = sight(session, ledger, gpu)
    # What was refused outright is not wished for: a reset would bring nothing into force.
    if is_in_use(pending) and (sighting.holders or not request.reset or not is_outstanding(pending)):
        raise explained(pending, sighting, Purpose.MODE, session.caller.uid, stopping=request.stopping)
    if needs_a_reboot(pending) or not request.reset:
        raise pending
    _reset(session, driver, gpu, request, report)
    return True


def _set(driver: Driver, gpu: Gpu, request: ModeRequest, *, patient: bool) -> MigctlError | None:
    """The refusal of NVML where the change stays outstanding, or where somebody holds the GPU, as its driver puts it.

    Tried again while services that were stopped let go.
    """
    deadline = time.monotonic() + (_LETTING_GO_S if patient else 0.0)
    while True:
        try:
            driver.set_mig_mode(gpu.uuid, request.enabled)
        except MigctlError as error:
            if not is_outstanding(error) and not is_in_use(error):
                raise
            if not is_in_use(error) or time.monotonic() >= deadline:
                return error
            time.sleep(0.2)
        else:
            return None


def _reset(session: Session, driver: Driver, gpu: Gpu, request: ModeRequest, report: Callable[[Event], None]) -> None:
    """Reset this one GPU and read the mode back; NVML is closed meanwhile, else it is we who hold the GPU."""
    command = simulated_reset(session.paths.sim_state) if session.simulated else reset_command(session.environ)
    with released(driver):
        with session.ledger(write=False) as ledger:
            sighting = sight(session, ledger, gpu)
        if at_work(sighting).holders:
            raise _not_reset(gpu, request, "somebody has begun to use it", at_work(sighting), session)
        report(NoteEvent(f"resetting GPU {gpu.index}: {' '.join(reset_words(('nvidia-smi',), gpu.pci_bus_id))}"))
        answer, said = reset_gpu(command, gpu.pci_bus_id, session.environ)
    match answer:
        case ResetAnswer.DONE:
            pass
        case ResetAnswer.IN_USE:
            raise _not_reset(gpu, request, "its reset was refused (In use by another client)", sighting, session)
        case ResetAnswer.NOT_SUPPORTED:
            raise _not_reset(gpu, request, "this machine does not allow its reset (Not Supported)", None, session)
        case ResetAnswer.NO_PERMISSION:
            raise HostError(
                "no-permission",
                f"resetting GPU {gpu.index} needs root",
                where=f"GPU {gpu.index}",
                data={"needs_root": True},
            )
        case ResetAnswer.FAILED:
            raise _not_reset(gpu, request, f"its reset failed: {said.text or f'exit code {said.code}'}", None, session)
    after = driver.gpu(gpu.uuid).mig
    if after != _wanted(request):
        raise _not_reset(gpu, request, "nvidia-smi reset it, but reading back shows otherwise", None, session)


def _not_reset(gpu: Gpu, request: ModeRequest, why: str, sighting: Sighting | None, session: Session) -> HostError:
    """The mode stays pending, since the reset that it needs did not happen."""
    who = f"; {held_by(sighting, Purpose.RESET)}" if sighting is not None else ""
    hint = "reboot the machine"
    if sighting is not None:
        hint = advice(sighting, Purpose.RESET, session.caller.uid, stopping=request.stopping)
    now, then = ("off", "on") if request.enabled else ("on", "off")
    return HostError(
        "mig-mode-pending",
        f"MIG mode is not {request.word}d yet: GPU {gpu.index} must be reset first, and {why}{who}; "
        f"it is {now} now and {then} after a reset",
        where=f"GPU {gpu.index}",
        hint=f"{hint}; a reboot does it, too" if sighting is not None else f"{hint}; the change takes effect then",
        data={"gpu": gpu.uuid, **(holders_data(sighting) if sighting is not None else {})},
    )


def _chosen(driver: Driver, request: ModeRequest) -> Gpu:
    """The one GPU that is meant: the mode of another one is never touched."""
    if request.gpu is not None and request.gpu.all:
        raise PlanError("one-gpu", "the MIG mode is changed of one GPU at a time", hint="--gpu 0, or a UUID or PCI id")
    gpus = driver.gpus()
    if not gpus and driver.failures:
        raise driver.failures[0]
    try:
        chosen = select_gpus(() if request.gpu is None else (request.gpu,), gpus)
    except PlanError as error:
        if error.id == "which-gpu":
            error.hint = f"migctl mode {request.word} --gpu {next(gpu.index for gpu in gpus if gpu.mig is not None)}"
        raise
    if len(chosen) > 1:
        raise PlanError(
            "which-gpu",
            f"{len(chosen)} GPUs are meant: " + ", ".join(f"{g.index} ({g.name}, {g.uuid})" for g in chosen),
            hint=f"--gpu {chosen[0].index}",
        )
    if chosen[0].mig is None:
        raise no_mig(str(chosen[0].index), chosen[0].name)
    return chosen[0]


def _wanted(request: ModeRequest) -> MigMode:
    return MigMode(current=request.enabled, pending=request.enabled)


def _refuse_by_policy(session: Session, gpu: Gpu) -> None:
    from migctl.engine.ruling import refuse_mode

    refuse_mode(session, (gpu,))


def _steps(session: Session, gpu: Gpu, request: ModeRequest, services: Sequence[str]) -> Iterator[str]:
    name = f"GPU {gpu.index} ({gpu.name})"
    yield from (f"stop {unit}" for unit in services)
    yield f"{request.word} MIG mode of {name}"
    if request.reset and not gpu.resetless_mig:
        words = reset_words(("nvidia-smi",), gpu.pci_bus_id)
        yield f"reset {name} if its driver asks for that: {' '.join(words)}"
    yield from (f"start {unit}" for unit in reversed(services))
    if not request.stop_services and (running := running_services(session)):
        yield f"if the driver says that it is in use: {service_commands(running)}"
