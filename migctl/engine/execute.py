"""Runs chains of steps: intent on disk, effect, read back, record; jobs in parallel, each GPU's NVML calls one after another."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import assert_never

from migctl.core.gpu.company import held_by_others, is_whole, mate
from migctl.core.gpu.mig import Gpu, Instance
from migctl.core.others.holders import Purpose
from migctl.core.runs.events import Event, Moment, StepEvent
from migctl.core.runs.record import Action, JobState, Ownership, Record
from migctl.core.runs.steps import Chain
from migctl.engine.halt import Halt
from migctl.engine.holders.holding import Patience, makes_nothing
from migctl.engine.particulars import known, owned_by, profile_of, unit_of
from migctl.errors import HostError, Interrupted, MigctlError, PlanError
from migctl.nvml.driver import Driver
from migctl.nvml.errors import WrongPlacement
from migctl.nvml.refusals import Creation, is_no_to, says_in_use
from migctl.runtimes.api import Runtime
from migctl.runtimes.launch import Launch
from migctl.store.failure import is_unwritable
from migctl.store.ledger import Ledger

_MOST_THREADS = 16
_CREATE = {
    Action.CREATE_GPU_INSTANCE: Creation.GPU_INSTANCE,
    Action.CREATE_COMPUTE_INSTANCE: Creation.COMPUTE_INSTANCE,
}
_MAKE = (Action.CREATE_GPU_INSTANCE, Action.CREATE_COMPUTE_INSTANCE, Action.JOIN_INSTANCE)
_DESTROY = (Action.DESTROY_COMPUTE_INSTANCE, Action.DESTROY_GPU_INSTANCE, Action.LEAVE_INSTANCE)
"""They end a chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the chains: the records as they stand, and the errors by job."""

    records: Mapping[str, Record]
    errors: Mapping[str, MigctlError]


@dataclass(kw_only=True)
class Executor:
    """The one place where a run's effects happen.

    A signal, and a failing chain, let every chain finish its present step and begin no other; waits end at once.
    """

    driver: Driver
    runtime: Runtime
    ledger: Ledger
    report: Callable[[Event], None]
    launch: Callable[[Record], Launch]
    log_path: Callable[[Record], str]
    grace_s: Callable[[Record], float]
    boot_id: str
    gpus: Mapping[str, Gpu]
    """By UUID, as they were observed when the steps were decided."""
    patience: Patience
    unrecorded: Callable[[MigctlError], None] | None = None
    """For removals: told why a record could not be written, after which they go on. What is on the disk then still names everything
    that is left, and what is gone from the machine is seen to be gone; only something new needs its intent first."""
    destroying: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered around the removal of an instance; nothing where the command holds the machine anyway."""
    before_destroying: Callable[[Ownership], None] = lambda _: None
    """Called before an instance goes: what serves its jobs has to end first."""
    others: Mapping[str, Record] = field(default_factory=dict)
    """The run's other records, as they are: an instance that one of them names stays."""
    stop_all_on_error: bool = True
    cancel: threading.Event = field(default_factory=threading.Event)
    """Set by a signal; never from in here: what comes after must be able to tell a failure from a signal."""
    hurry: threading.Event = field(default_factory=threading.Event)
    """Set from outside: skip the rest of every grace period."""
    _halt: Halt = field(init=False)
    _records: dict[str, Record] = field(default_factory=dict, init=False)
    _errors: dict[str, MigctlError] = field(default_factory=dict, init=False)
    _bugs: list[Exception] = field(default_factory=list, init=False)
    _save: threading.Lock = field(default_factory=threading.Lock, init=False)
    _gpus: dict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock), init=False)

    def __post_init__(self) -> None:
        self._halt = Halt(self.cancel)

    def run(self, chains: Sequence[Chain], records: Mapping[str, Record]) -> Outcome:
        """Run all chains; returns, or raises what only a bug explains, when none is running any more.

        The first intent of every chain is flushed to the disk before any effect: after a power loss the containers that an engine
        restarts are still known. Later ones need only survive the process: instances do not survive a power loss anyway.
        """
        self._records.update(records)
        first = [replace(self._records[c.job], intent=c.steps[0].action) for c in chains if c.steps]
        self._write(first, durable=True)
        busy = [c for c in chains if c.steps]
        if len(busy) == 1:
            self._chain(busy[0])
        elif busy:
            with ThreadPoolExecutor(min(len(busy), _MOST_THREADS)) as pool:
                list(pool.map(self._chain, busy))
        if self._bugs:
            raise self._bugs[0]
        return Outcome(records=dict(self._records), errors=dict(self._errors))

    def _write(self, records: Sequence[Record], *, durable: bool = False) -> None:
        fresh = [replace(r, revision=r.revision + 1) for r in records]
        with self._save:
            try:
                self.ledger.save(fresh, durable=durable)
            except MigctlError as error:
                if self.unrecorded is None or not is_unwritable(error):
                    raise
                self.unrecorded(error)
                fresh = list(records)  # no revision that the disk does not have
            self._records.update({r.job: r for r in fresh})

    def _chain(self, chain: Chain) -> None:
        steps = [step.action for step in chain.steps]
        try:
            while steps and not self._halt.is_set():
                if steps[0] in _MAKE and self._needs_gpu(chain.job):
                    # Both creations under one hold: a half-made instance is never left while another waits for its turn.
                    with self._gpus[self._records[chain.job].gpu_uuid or ""]:
                        if self._halt.is_set():
                            break
                        self._make(chain.job, [steps.pop(0) for step in tuple(steps) if step in _MAKE])
                elif steps[0] in _DESTROY:
                    self._give_up(chain.job, steps)
                    steps = []
                else:
                    self._step_or_go_on(chain.job, steps.pop(0))
        except MigctlError as error:
            if isinstance(error, Interrupted) and self.cancel.is_set():
                return  # as between two steps: no failure of this job
            self._errors[chain.job] = error
            if self.stop_all_on_error:
                self._halt.fail()
        except Exception as error:  # noqa: BLE001 -- whatever it is, the other jobs' steps come to an orderly end first
            self._bugs.append(error)
            if self.stop_all_on_error:
                self._halt.fail()

    def _make(self, job: str, steps: Sequence[Action]) -> None:
        """Make the instance, or what is missing of it; where a job that shares it was quicker, use that one's."""
        record = self._records[job]
        if not is_whole(record.instance) and self._mate(record) is not None:
            self._step(job, Action.JOIN_INSTANCE)
        elif Action.CREATE_GPU_INSTANCE in steps or record.instance is None:
            self._step(job, Action.CREATE_GPU_INSTANCE)
        if not is_whole(self._records[job].instance):
            self._step(job, Action.CREATE_COMPUTE_INSTANCE)

    def _mate(self, record: Record) -> Record | None:
        """One of this call, also if it has ended: nobody else has its instance meanwhile."""
        return mate(record, tuple(self._records.values()), ended=True)

    def _give_up(self, job: str, steps: Sequence[Action]) -> None:
        """Destroy the instance, or leave it to those that share it: the last one destroys."""
        with self._gpus[self._records[job].gpu_uuid or ""]:
            record = self._records[job]
            others = (other for name, other in self.others.items() if name not in self._records)
            if held_by_others(record, (*self._records.values(), *others)):
                self._step(job, Action.LEAVE_INSTANCE)
                return
        if Action.LEAVE_INSTANCE in steps:
            whole = (Action.DESTROY_COMPUTE_INSTANCE,) if is_whole(record.instance) else ()
            steps = (*whole, Action.DESTROY_GPU_INSTANCE)
        with self.destroying():
            if record.instance is not None:
                self.before_destroying(record.instance)
            for step in steps:
                self._step(job, step)

    def _step_or_go_on(self, job: str, action: Action) -> None:
        """Where an ended container's log cannot be saved the container stays, but it keeps no instance from being removed."""
        try:
            self._step(job, action)
        except MigctlError as error:
            unsaved = self.unrecorded is not None and action is Action.REMOVE_CONTAINER and error.id == "log-not-saved"
            if not unsaved:
                raise
            self._errors[job] = error

    def _needs_gpu(self, job: str) -> bool:
        return self._records[job].gpu_uuid is not None

    def _step(self, job: str, action: Action) -> None:
        record = self._records[job]
        if record.intent is not action:
            self._write([replace(record, intent=action)])
            record = self._records[job]
        self.report(StepEvent(job, action, Moment.INTENT))
        try:
            record = self._act(record, action)
        except MigctlError as error:
            if self._nothing_made(record, action, error):
                # What comes to lie there is somebody else's, and an open intent would claim it.
                self._write([replace(self._records[job], intent=None)])
            raise
        self.report(StepEvent(job, action, Moment.ACTED))
        self._write([replace(record, intent=None)])
        self.report(StepEvent(job, action, Moment.RECORDED))

    def _nothing_made(self, record: Record, action: Action, error: MigctlError) -> bool:
        """Whether a creation was refused for certain: what fails after it may have made the instance."""
        creation, owned = _CREATE.get(action), record.instance
        if creation is not None and makes_nothing(error):
            return True
        if creation is None or not is_no_to(error, creation):
            return False
        if not says_in_use(error):
            return True
        # That has been seen beside an instance that was made nevertheless.
        if action is Action.CREATE_GPU_INSTANCE:
            return not self._there(record.gpu_uuid or "", lambda i: i.placement == record.placement)
        return owned is not None and not self._there(
            owned.gpu_uuid, lambda i: i.gi_id == owned.gi_id and bool(i.compute_instances)
        )

    def _act(self, record: Record, action: Action) -> Record:
        match action:
            case Action.CREATE_GPU_INSTANCE:
                return self._create_gpu_instance(record)
            case Action.CREATE_COMPUTE_INSTANCE:
                return self._create_compute_instance(record)
            case Action.JOIN_INSTANCE:
                return self._join(record)
            case Action.CREATE_CONTAINER:
                launch = self.launch(record)
                handle = self.runtime.create(launch)
                return replace(record, container_id=handle, container_name=launch.name, state=JobState.STARTING)
            case Action.START:
                return self._start(record)
            case Action.STOP:
                self.runtime.stop(unit_of(record), self.grace_s(record), hurry=self.hurry)
                return replace(record, state=JobState.STOPPED, reason="stopped by migctl")
            case Action.REMOVE_CONTAINER:
                self.runtime.save_log(unit_of(record), self.log_path(record))
                self.runtime.remove(unit_of(record))
                return replace(record, container_id=None)
            case Action.LEAVE_INSTANCE:
                return replace(record, instance=None)
            case Action.DESTROY_COMPUTE_INSTANCE:
                owned = owned_by(record)
                if owned.ci_id is not None:
                    self._patiently(
                        owned,
                        lambda: self.driver.destroy_compute_instance(
                            owned.gpu_uuid, owned.gi_id, known(owned.ci_id), mig_uuid=owned.mig_uuid
                        ),
                    )
                return replace(record, instance=replace(owned, ci_id=None, mig_uuid=None))
            case Action.DESTROY_GPU_INSTANCE:
                owned = owned_by(record)
                self._patiently(
                    owned,
                    lambda: self.driver.destroy_gpu_instance(
                        owned.gpu_uuid, owned.gi_id, profile_id=owned.profile_id, placement=owned.placement
                    ),
                )
                return replace(record, instance=None)
            case _:
                assert_never(action)

    def _create_gpu_instance(self, record: Record) -> Record:
        gpu = self.gpus[record.gpu_uuid or ""]
        profile = profile_of(gpu, record)
        placement = record.placement
        if placement is None:
            raise PlanError("no-placement", f"no placement was decided for {record.job}", where=f"job {record.job}")
        try:
            gi_id = self.patience.through(
                lambda: self.driver.create_gpu_instance(gpu.uuid, profile, placement),
                self._halt,
                gpu_uuid=gpu.uuid,
                gi_id=None,
                purpose=Purpose.CREATE,
                made=lambda: self._there(gpu.uuid, lambda i: i.placement == placement),
            )
        except WrongPlacement as error:
            if error.left is not None:
                # Not what was wanted, but of our making: it is removed like everything else of ours.
                left = error.left
                misplaced = Ownership(
                    gpu_uuid=gpu.uuid,
                    gi_id=left.gi_id,
                    profile_id=left.profile_id,
                    placement=left.placement,
                    boot_id=self.boot_id,
                )
                self._write([replace(record, instance=misplaced, intent=None)])
            raise
        owned = Ownership(
            gpu_uuid=gpu.uuid, gi_id=gi_id, profile_id=profile.id, placement=placement, boot_id=self.boot_id
        )
        return replace(record, instance=owned, state=JobState.STARTING)

    def _create_compute_instance(self, record: Record) -> Record:
        owned = owned_by(record)
        made = self.patience.through(
            lambda: self.driver.create_compute_instance(owned.gpu_uuid, owned.gi_id),
            self._halt,
            gpu_uuid=owned.gpu_uuid,
            gi_id=owned.gi_id,
            purpose=Purpose.CREATE,
            made=lambda: self._there(owned.gpu_uuid, lambda i: i.gi_id == owned.gi_id and bool(i.compute_instances)),
        )
        return replace(record, instance=replace(owned, ci_id=made.ci_id, mig_uuid=made.mig_uuid))

    def _join(self, record: Record) -> Record:
        found = self._mate(record)
        if found is None:
            raise HostError(
                "no-instance", f"nobody has the instance that {record.job} is to share", where=f"job {record.job}"
            )
        return replace(record, instance=found.instance, state=JobState.STARTING)

    def _there(self, gpu_uuid: str, wanted: Callable[[Instance], bool]) -> bool:
        """Whether the GPU has such an instance now; one that cannot be read may have it."""
        try:
            gpu = self.driver.gpu(gpu_uuid)
        except MigctlError:
            return True
        return gpu.instances_reason is not None or any(wanted(instance) for instance in gpu.instances)

    def _start(self, record: Record) -> Record:
        unit = self.runtime.start(unit_of(record))
        return replace(
            record,
            state=unit.state,
            pid=unit.pid,
            pid_start=unit.pid_start,
            exit_code=unit.exit_code,
            reason=unit.reason,
            started_at=unit.started_at,
            finished_at=unit.finished_at,
        )

    def _patiently(self, owned: Ownership, effect: Callable[[], None]) -> None:
        """Right after a stop the driver still says "in use"; that passes by itself."""
        self.patience.through(effect, self._halt, gpu_uuid=owned.gpu_uuid, gi_id=owned.gi_id, purpose=Purpose.DESTROY)
