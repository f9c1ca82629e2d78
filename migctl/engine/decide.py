"""From a plan and one look at the machine to what to do: allocation, difference and chains; still nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from migctl.core.allocation import Allocation, Assignment
from migctl.core.choices import Strategy
from migctl.core.gpu.administered import device
from migctl.core.gpu.company import beside, company_of
from migctl.core.gpu.mig import Gpu, Placement
from migctl.core.machine import Machine
from migctl.core.plan import Plan
from migctl.core.queueing.entries import Queue, requeued
from migctl.core.queueing.handing import Handing, handings
from migctl.core.queueing.progress import Progress
from migctl.core.queueing.run_layout import lay_out_run
from migctl.core.runs.ownership import Standing, standing
from migctl.core.runs.reconcile import Difference, Wanted, difference, steps_down, steps_up
from migctl.core.runs.record import JobState, Ownership, Record
from migctl.core.runs.sameness import digest, spec
from migctl.core.runs.settle import lost_by_restart
from migctl.core.runs.steps import Chain
from migctl.engine.apply import Workshop
from migctl.engine.datadevices import data_devices
from migctl.engine.failed_gpus import failure_notices, real_failure
from migctl.engine.observe import Look
from migctl.engine.ruling import refuse, ruling
from migctl.engine.surroundings import surroundings
from migctl.engine.unrecorded import refuse_second_copies
from migctl.engine.upoptions import UpOptions
from migctl.errors import Busy, MigctlError

if TYPE_CHECKING:
    from migctl.core.queueing.wave import Wave

_UNBORN = (JobState.QUEUED, JobState.STARTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What `up` will do."""

    allocation: Allocation
    difference: Difference
    undo: tuple[Chain, ...]
    """Jobs to be replaced or taken out: undone before anything else."""
    chains: tuple[Chain, ...]
    """Jobs that are not yet where they should be."""
    records: Mapping[str, Record]
    """The records that `chains` begin with."""
    leaving: Mapping[str, Record] = field(default_factory=dict)
    """The records that `undo` begins with."""
    handing: Handing = Handing()
    """Instances of ended jobs that are passed on, or destroyed to make room."""
    wave: Wave | None = None
    """The queue's answer, where not all jobs run at once."""
    queue: Queue = Queue()
    """The run's queue when this is carried out."""

    @property
    def waits(self) -> Mapping[str, str]:
        """The jobs that wait, and why."""
        return {job: reason.words for job, reason in self.wave.waits.items()} if self.wave is not None else {}

    @property
    def starting(self) -> tuple[str, ...]:
        """The jobs that will be started."""
        return tuple(c.job for c in self.chains)

    @property
    def kept(self) -> tuple[str, ...]:
        """The jobs of the plan that are left as they are."""
        touched = {chain.job for chain in (*self.undo, *self.chains)}
        return tuple(name for name in self.difference.kept if name not in touched)

    @property
    def replaced(self) -> tuple[str, ...]:
        """The jobs that have begun and are removed because the plan has changed: with them something is lost."""
        other = {*self.difference.changed, *self.difference.removed}
        return tuple(name for name, r in sorted(self.leaving.items()) if name in other and r.state not in _UNBORN)

    @property
    def taken_out(self) -> tuple[str, ...]:
        """The jobs that are ended and removed for good."""
        stay = {*self.starting, *self.allocation.waiting}
        return tuple(chain.job for chain in self.undo if chain.job not in stay)


def decide(
    plan: Plan,
    machine: Machine,
    seen: Look,
    *,
    key: bytes,
    now: float,
    last_attempt: Callable[[str], int],
    replacing: bool,
    again: Collection[JobState],
    named: Collection[str] = (),
    queue: Queue | None = None,
) -> Decision:
    """Compare the plan with the run, place what has no place yet, and list the steps.

    Args:
        key: secret of the store, for the digests.
        now: Unix seconds.
        last_attempt: number of a job's latest attempt, 0 = none; each attempt has its own folder.
        replacing: undo changed and removed jobs instead of keeping them.
        again: ended jobs to run once more, by how they ended; those that a restart of the machine took always run again.
        named: ended jobs to run once more, however they ended.
        queue: the run's queue as it was left.

    Raises:
        MigctlError: as `allocate`; nothing has been changed.
    """
    digests = {job.name: digest(job, key) for job in plan.jobs}
    queue = requeued(queue, plan, now, again=JobState.STOPPED in again)
    diff = difference([Wanted(job=name, digest=d) for name, d in digests.items()], seen.records)
    once_more = {name for name in diff.kept if seen.records[name].state in again or lost_by_restart(seen.records[name])}
    once_more |= {name for name in diff.kept if name in named and seen.records[name].state.ended}
    other = {*diff.changed, *diff.removed}
    # What never ran has nothing worth keeping: an `up` that was cut short does not bind the plan that comes after it.
    unborn = {name for name in other if seen.records[name].state in _UNBORN}
    stranded = {name for name in diff.unfinished if is_stranded(seen.records[name], seen)}
    leaving = once_more | unborn | stranded | (other if replacing else set())
    staying = {name: record for name, record in seen.records.items() if name not in leaving}
    there = replace(
        machine,
        gpus=_without(machine.gpus, [seen.records[name] for name in leaving], staying.values()),
        held={name: record for name, record in staying.items() if _has_place(record)},
    )
    progress = Progress(records={n: r for n, r in staying.items() if _has_place(r)}, queue=queue)
    layout = lay_out_run(plan, there, progress, now=now)
    allocation, wave = layout.allocation, layout.wave
    if isinstance(allocation.blocked, Busy) and wave is not None and not wave.starts and not _any_going_on(staying):
        raise allocation.blocked  # others have all of it: whoever wants to wait says for how long
    placed = {assignment.job.name for assignment in allocation.assignments}
    # What an `up` that was cut short had only written down, and what waits now, is queued like everything else that waits.
    leaving |= {n for n in diff.unfinished if n in staying and n not in placed and not _has_place(staying[n])}
    handing = handings(wave.starts if wave is not None else (), staying)
    records: dict[str, Record] = {}
    chains: list[Chain] = []
    mates = [record for name, record in staying.items() if name not in handing.cleared]
    makers: set[tuple[str | None, Placement | None]] = set()
    for assignment in allocation.assignments:
        name = assignment.job.name
        if name in staying and name not in diff.unfinished:
            continue
        old = seen.records.get(name)
        record = fresh_record(plan, assignment, allocation.strategy, digests[name], seen, now)
        if name in staying and old is not None and _has_place(old):
            record = replace(old, boot_id=seen.observed.boot_id)
        else:
            record = replace(record, attempt=last_attempt(name) + 1, revision=old.revision if old is not None else 0)
        record = beside(replace(record, instance=handing.taken.get(name, record.instance)), mates)
        # A job with a whole GPU beside others with instances has none to be made.
        needs_instance = record.profile_id is not None or assignment.instance_uuid is not None
        place = (record.gpu_uuid, record.placement)
        joins = company_of(record) is not None and place in makers
        makers.add(place)
        steps = steps_up(name, record, seen.observed, needs_instance=needs_instance, joins=joins)
        records[name] = record
        chains.append(steps)
    return Decision(
        allocation=allocation,
        difference=diff,
        undo=tuple(_undoing(sorted(leaving), seen)),
        chains=tuple(chains),
        records=records,
        leaving={name: seen.records[name] for name in leaving},
        handing=handing,
        wave=wave,
        queue=replace(queue, wave=queue.wave or (wave.weights if wave is not None else allocation.weights)),
    )


def _undoing(leaving: Sequence[str], seen: Look) -> Iterator[Chain]:
    """What is undone of each; of those that share an instance the last one takes it along."""
    for n, name in enumerate(leaving):
        gone = frozenset(leaving[:n])
        others = (record for other, record in seen.records.items() if other not in gone)
        yield steps_down(seen.records[name], seen.observed, others)


def _any_going_on(records: Mapping[str, Record]) -> bool:
    return any(_has_place(record) and not record.state.ended for record in records.values())


def _recognised(seen: Look, plan: Plan, key: bytes) -> Look:
    """Adopted jobs have lost their digest with its key: theirs is the plan's where the spec is the same."""
    adopted = [job for job in plan.jobs if job.name in seen.records and not seen.records[job.name].digest]
    same = [job for job in adopted if seen.records[job.name].spec == spec(job)]
    fresh = {job.name: replace(seen.records[job.name], digest=digest(job, key)) for job in same}
    return replace(seen, records={**seen.records, **fresh}) if fresh else seen


def _has_place(record: Record) -> bool:
    """Whether the job's place is fixed: it runs, has ended there, or something of it exists already."""
    return record.state not in _UNBORN or record.instance is not None or record.container_id is not None


def is_stranded(record: Record, seen: Look) -> bool:
    """Whether a job was created, but not started, for an instance that is gone (a reboot, or somebody's hand), or misplaced.

    Its place may be another's by now, so it is undone and placed anew.
    """
    owned = record.instance
    if owned is None:
        return record.container_id is not None and record.profile_id is not None
    if owned.foreign:
        return standing(owned, seen.observed) is Standing.GONE
    return (owned.placement, owned.profile_id) != (record.placement, record.profile_id)


def _without(gpus: tuple[Gpu, ...], leaving: Sequence[Record], staying: Iterable[Record]) -> tuple[Gpu, ...]:
    """The GPUs as they will be when the leaving jobs' instances are gone, but those that others share."""
    gone = {(r.instance.gpu_uuid, r.instance.gi_id) for r in leaving if r.instance and not r.instance.foreign}
    gone -= {(r.instance.gpu_uuid, r.instance.gi_id) for r in staying if r.instance}
    return tuple(
        replace(gpu, instances=tuple(i for i in gpu.instances if (gpu.uuid, i.gi_id) not in gone)) for gpu in gpus
    )


def fresh_record(
    plan: Plan, assignment: Assignment, strategy: Strategy, job_digest: str, seen: Look, now: float
) -> Record:
    """The first record of an attempt that is about to be made."""
    return Record(
        run=plan.name,
        job=assignment.job.name,
        token=os.urandom(8).hex(),
        runtime=plan.runtime.value,
        strategy=strategy.value,
        state=JobState.STARTING,
        digest=job_digest,
        spec=spec(assignment.job),
        gpu_uuid=assignment.gpu_uuid,
        profile=assignment.profile.name if assignment.profile else None,
        profile_id=assignment.profile.id if assignment.profile else None,
        placement=assignment.placement,
        memory_mib=assignment.memory_mib,
        cpus=assignment.cpu.cpus,
        mems=assignment.cpu.mems,
        cores=assignment.cpu.cores,
        num_workers=assignment.cpu.num_workers,
        grace_s=assignment.job.stop_grace_period_s,
        boot_id=seen.observed.boot_id,
        created_at=now,
        instance=_lent(assignment, seen),
    )


def _lent(assignment: Assignment, seen: Look) -> Ownership | None:
    """The administrator's instance that the job is to use."""
    found = device(assignment.instance_uuid or "", seen.observed.gpus)
    if found is None:
        return None
    return Ownership(
        gpu_uuid=found.gpu.uuid,
        gi_id=found.instance.gi_id,
        profile_id=found.instance.profile_id,
        placement=found.instance.placement,
        boot_id=seen.observed.boot_id,
        ci_id=found.compute.ci_id,
        mig_uuid=found.compute.mig_uuid,
        foreign=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """A decision, and what it was taken on."""

    decision: Decision
    seen: Look
    machine: Machine
    broken: tuple[MigctlError, ...] = ()
    """The administrator's rules that starting these jobs would break."""


def consider(
    shop: Workshop, plan: Plan, options: UpOptions, adjust: Callable[[Machine], Machine] = lambda machine: machine
) -> Considered:
    """Look at the machine and decide; `adjust` puts another machine's cores in place of this one's."""
    key = shop.ledger.key()
    seen = _recognised(shop.look(plan.name), plan, key)
    refuse_second_copies(shop.session, shop.ledger, plan, seen.records)
    here = surroundings(shop.session, shop.runtime, shop.ledger, seen.observed, plan.name)
    there = adjust(replace(here, storage=data_devices(plan, shop.runtime)))
    held = ruling(shop.session)
    with real_failure(there.failures, plan):
        if held is not None:
            refuse(held.on_gpus(plan, there.gpus))
        decision = decide(
            plan,
            there,
            seen,
            key=key,
            now=shop.session.now(),
            last_attempt=lambda job: shop.ledger.last_attempt(plan.name, job),
            replacing=options.replacing,
            again=options.again,
            named=options.jobs,
            queue=shop.ledger.submissions.queue(plan.name),
        )
    notices = (*failure_notices(there.failures), *decision.allocation.notices)
    decision = replace(decision, allocation=replace(decision.allocation, notices=notices))
    # What runs already is left alone whatever the rules say now: they are asked only where something would be started.
    broken = held.on_plan(plan, decision.allocation, there) if held is not None and decision.chains else ()
    return Considered(decision=decision, seen=seen, machine=there, broken=broken)
