"""Who holds a GPU: looked up for every refusal that says "in use", and waited for where the user asked for that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from migctl.core.gpu.mig import Gpu
from migctl.core.others.holders import STOP_SERVICES, DeviceNode, Purpose, Sighting, advice, held_by
from migctl.engine.halt import Halt
from migctl.engine.holders.heldmachine import HeldMachine
from migctl.engine.session import Session
from migctl.errors import Busy, HostError, Interrupted, MigctlError
from migctl.host.endings import Ending, wait_for_an_end
from migctl.host.holders import DevicePlaces, find_holders
from migctl.host.procfs import process_start_ticks
from migctl.nvml.open import simulated_devices
from migctl.nvml.refusals import is_in_use, is_still_there
from migctl.store.ledger import Ledger

R = TypeVar("R")

LOOK_AGAIN_S: Final = 2.0
"""A holder can let go without ending; so often it is tried again."""
_NOTHING_MADE: Final = "nothing_made"


def sight(session: Session, ledger: Ledger, gpu: Gpu) -> Sighting:
    """Everybody who holds this GPU or one of its instances."""
    return sights(session, ledger, (gpu,))[gpu.uuid]


def sights(session: Session, ledger: Ledger, gpus: Sequence[Gpu]) -> Mapping[str, Sighting]:
    """The same for several GPUs, by UUID, from one walk through /proc."""
    places = _places(session)
    named = {gpu.uuid: {process.pid: process.gi_id for process in gpu.processes} for gpu in gpus}
    nodes: tuple[DeviceNode, ...] = ()
    if places is not None:
        nodes = places.nodes(
            {gpu.minor: gpu.uuid for gpu in gpus if gpu.minor is not None},
            [(gpu.minor, i.gi_id) for gpu in gpus if gpu.minor is not None for i in gpu.instances],
        )
    jobs, job_pids = _own_jobs(session, ledger)
    found = find_holders(
        nodes,
        root=session.root,
        modules=places.modules if places is not None else None,
        named={pid for pids in named.values() for pid in pids},
        jobs=jobs,
        job_pids=job_pids,
    )
    return {gpu.uuid: found.of_gpu(gpu.uuid, named[gpu.uuid]) for gpu in gpus}


def _places(session: Session) -> DevicePlaces | None:
    if not session.simulated:
        return DevicePlaces.below(session.root)
    folder = simulated_devices(session.paths.sim_state)
    return DevicePlaces.of_simulator(folder) if folder is not None else None


def _own_jobs(session: Session, ledger: Ledger) -> tuple[Mapping[str, str], Mapping[int, str]]:
    """Containers and main processes of the caller's own jobs that still run."""
    containers: dict[str, str] = {}
    pids: dict[int, str] = {}
    for run in ledger.runs():
        for record in ledger.records(run.name):
            name = f"{record.run}/{record.job}"
            if record.container_id is not None:
                containers[record.container_id] = name
            if record.pid is not None and process_start_ticks(record.pid, session.root) == record.pid_start:
                pids[record.pid] = name
    return containers, pids


def explained(
    error: MigctlError, sighting: Sighting, purpose: Purpose, uid: int, *, stopping: str | None = STOP_SERVICES
) -> MigctlError:
    """The refusal with the holders' names in it, and with advice (`stopping`: as of `advice`) that fits them."""
    if not is_in_use(error):
        return error
    kind: type[Busy | HostError] = Busy if isinstance(error, Busy) else HostError
    return kind(
        error.id,
        f"{error.message}; {held_by(sighting, purpose)}",
        where=error.where,
        hint=advice(sighting, purpose, uid, stopping=stopping),
        data={**error.data, **holders_data(sighting)},
    )


def holders_data(sighting: Sighting) -> dict[str, object]:
    """The same for programs."""
    return {
        "holders": [
            {
                "pid": holder.pid,
                "user": holder.user,
                "command": holder.command,
                "container": holder.container.id if holder.container is not None else None,
                "service": holder.unit,
                "job": holder.job,
            }
            for holder in sighting.holders
        ],
        "unseen_processes": sighting.unseen,
        "kernel_modules": [module.name for module in sighting.modules],
    }


@dataclass(kw_only=True)
class Vigil:
    """One wait for whoever holds a GPU: why is said once, and meanwhile nothing is kept from others."""

    purpose: Purpose
    wait_s: float
    say: Callable[[str], None]
    away: Callable[[], AbstractContextManager[None]]
    """Entered while it waits: lets go of what others may need."""
    told: bool = field(default=False, init=False)
    """It has come to a wait."""
    _deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.wait_s

    @property
    def left_s(self) -> float:
        """Until it is over."""
        return self._deadline - time.monotonic()

    def for_an_end(self, sighting: Sighting, cancel: Ending) -> None:
        """Until one of them has ended, it is over, or it is time to try again: a holder can let go without ending."""
        if not self.told:
            self.say(f"waiting up to {self.left_s:.0f} s: {held_by(sighting, self.purpose)}")
            self.told = True
        ends = {holder.pid: holder.started for holder in sighting.holders}
        with self.away():
            wait_for_an_end(ends, min(LOOK_AGAIN_S, self.left_s), cancel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How a step meets "in use": for a moment it tries again by itself, then as long as the user said, then it names who it is."""

    look: Callable[[str], Sighting]
    """Who holds the GPU of this UUID."""
    uid: int
    moment_s: float
    wait_s: float = 0.0
    """How long to wait for holders, beyond the moment."""
    say: Callable[[str], None] = lambda _: None
    machine: HeldMachine = field(default_factory=HeldMachine)
    """Had for every attempt, and let go of while it waits."""

    def through(
        self,
        effect: Callable[[], R],
        halt: Halt,
        *,
        gpu_uuid: str,
        gi_id: int | None,
        purpose: Purpose,
        made: Callable[[], bool] = lambda: False,
    ) -> R:
        """Have the effect, once nobody is in its way.

        Args:
            halt: ends the waiting.
            made: whether a creation that was refused has happened nevertheless; then it is not tried again: to the second attempt
                what is there would look like somebody else's.

        Raises:
            Busy: somebody still is; the message names them.
            Interrupted: a signal came while they were waited for.
        """
        began = time.monotonic()
        vigil = Vigil(purpose=purpose, wait_s=self.moment_s + self.wait_s, say=self.say, away=self.machine.let_go)
        pause_s = 0.05
        while True:
            try:
                with self._at_it():
                    return effect()
            except MigctlError as error:
                if not is_in_use(error) and not is_still_there(error):
                    raise
                refusal = error
            if made():
                raise refusal
            _heed(halt, refusal)
            if time.monotonic() - began + pause_s <= self.moment_s and not halt.is_set():
                halt.wait(pause_s)
                pause_s = min(1.0, pause_s * 2)
                continue
            if not is_in_use(refusal):
                raise refusal
            sighting = self.look(gpu_uuid)
            sighting = sighting if gi_id is None else sighting.on(gi_id)
            if vigil.left_s <= pause_s or halt.is_set():
                raise explained(refusal, sighting, purpose, self.uid) from refusal
            with _making_nothing():
                vigil.for_an_end(sighting, halt)
            _heed(halt, refusal)

    @contextmanager
    def _at_it(self) -> Iterator[None]:
        with ExitStack() as stack:
            with _making_nothing():
                stack.enter_context(self.machine.at_it())
            yield


@contextmanager
def _making_nothing() -> Iterator[None]:
    """What fails in here has made nothing: whoever has written down what was to be made may rely on that."""
    try:
        yield
    except MigctlError as error:
        error.data = {**error.data, _NOTHING_MADE: True}
        raise


def makes_nothing(error: MigctlError) -> bool:
    """Whether a creation did not even come to its call of the driver, or was refused by it before."""
    return _NOTHING_MADE in error.data


def _heed(halt: Halt, refusal: MigctlError) -> None:
    """A signal ends it, with the refusal's data: they tell that nothing was made."""
    if halt.interrupted:
        raise Interrupted(
            "interrupted", "interrupted while somebody holds the GPU", where=refusal.where, data=refusal.data
        ) from refusal
