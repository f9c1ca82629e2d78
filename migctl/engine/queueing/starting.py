"""Starts what the queue has chosen: makes room, passes instances on, and lets no job's failure touch another's start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from migctl.core.allocation import Assignment
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.company import beside
from migctl.core.plan import Plan
from migctl.core.queueing.handing import Handing, handings
from migctl.core.queueing.submission import Submission
from migctl.core.queueing.wave import Wave
from migctl.core.runs.ownership import in_doubt
from migctl.core.runs.reconcile import steps_down, steps_up
from migctl.core.runs.record import Action, JobState, Record
from migctl.core.runs.run import Run
from migctl.core.runs.sameness import digest
from migctl.core.runs.steps import Chain
from migctl.engine.apply import Workshop
from migctl.engine.claiming import claim
from migctl.engine.decide import fresh_record, is_stranded
from migctl.engine.launch import launch_pad
from migctl.engine.observe import Look
from migctl.engine.verification import unverified
from migctl.errors import MigctlError
from migctl.nvml.refusals import is_of_the_driver

_MAKING = (Action.CREATE_GPU_INSTANCE, Action.CREATE_COMPUTE_INSTANCE, Action.JOIN_INSTANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """What became of the jobs that were to start."""

    records: Mapping[str, Record]
    """All of the run's, as they stand now."""
    started: tuple[str, ...] = ()
    refused: Mapping[str, MigctlError] = field(default_factory=dict)
    """Jobs that wait on: their instance was not made, or what is in their way could not be removed."""
    blocked: Mapping[tuple[str, int], MigctlError] = field(default_factory=dict)
    """Instances that could not be destroyed, and why."""


def start_wave(
    shop: Workshop, run: Run, submission: Submission, wave: Wave, seen: Look, records: Mapping[str, Record]
) -> Starting:
    """Clear, take over or cut, start, and look that it is there.

    Args:
        records: the run's settled records, written down.
    """
    now = dict(records)
    handing = handings(wave.starts, records)
    unremoved = _clear(shop, handing, seen, now)
    blocked = _blocked(handing, unremoved, now)
    skipped: dict[str, MigctlError] = {}
    assignments = {a.job.name: a for a in wave.allocation.assignments}
    fresh: dict[str, Record] = {}
    chains: list[Chain] = []
    for start in wave.starts:
        in_the_way = [blocked[key] for s in start.destroys if (key := (s.gpu_uuid, s.gi_id)) in blocked]
        in_the_way += [unremoved[start.job]] if start.job in unremoved else []
        old = now.get(start.job)
        if in_the_way:
            skipped[start.job] = in_the_way[0]
            continue
        if old is not None and (not _is_over(old) or old.container_id is not None):
            continue  # whatever the queue says: never a second attempt beside one that may live
        record = _attempt(shop, submission.plan, assignments[start.job], wave, seen, old)
        record = beside(replace(record, instance=handing.taken.get(start.job, record.instance)), now.values())
        fresh[start.job] = record
        needs = record.profile_id is not None or start.instance_uuid is not None
        chains.append(steps_up(start.job, record, seen.observed, needs_instance=needs))
    for name, record in records.items():
        if record.state is JobState.STARTING and name not in fresh and name in assignments:
            _go_on(shop, name, record, seen, now, chains, fresh)
    if not chains:
        return Starting(records=now, refused=skipped, blocked=blocked)
    pad = launch_pad(
        shop.session,
        submission.plan,
        dict(submission.images),
        wave.allocation,
        seen.observed.gpus,
        copies=dict(submission.snapshots),
        codes=dict(submission.codes),
    )
    claim(shop.session, run, {**now, **fresh}.values(), seen.observed.boot_id)
    outcome = shop.bring_up(chains, fresh, seen, pad, stop_all_on_error=False)
    now.update(outcome.records)
    given = {name: replace(r, revision=r.revision + 1) for name, r in handing.given.items()}
    shop.ledger.save(list(given.values()), durable=False)
    now.update(given)
    made = [c.job for c in chains if c.job not in outcome.errors and any(step.action in _MAKING for step in c.steps)]
    errors = {**outcome.errors, **(unverified(shop, run.name, made, unseen=False) if made else {})}
    refused = _take_back(shop, run, errors, now)
    begun = tuple(c.job for c in chains if c.job not in errors and now[c.job].state is not JobState.STARTING)
    return Starting(records=now, started=begun, refused={**skipped, **refused}, blocked=blocked)


def _is_over(record: Record) -> bool:
    """Whether nothing of the attempt can be alive: it ended, or it never came to be."""
    return record.state.ended or record.state is JobState.QUEUED


def _clear(shop: Workshop, handing: Handing, seen: Look, now: dict[str, Record]) -> Mapping[str, MigctlError]:
    """Destroy what is in the way and remove the containers of earlier attempts; returns of which jobs that failed."""
    if not handing.clearing:
        return {}
    outcome = shop.clear(handing.clearing, handing.clearing_records, seen)
    now.update(outcome.records)
    return outcome.errors


def _blocked(
    handing: Handing, unremoved: Mapping[str, MigctlError], now: Mapping[str, Record]
) -> dict[tuple[str, int], MigctlError]:
    """The instances that stay although they should go."""
    found: dict[tuple[str, int], MigctlError] = {}
    for name, error in unremoved.items():
        owned = now[name].instance
        if owned is not None and name in handing.cleared:
            found[owned.gpu_uuid, owned.gi_id] = error
    return found


def _attempt(shop: Workshop, plan: Plan, assignment: Assignment, wave: Wave, seen: Look, old: Record | None) -> Record:
    job = assignment.job
    key = shop.ledger.key()
    record = fresh_record(plan, assignment, wave.allocation.strategy, digest(job, key), seen, shop.session.now())
    if old is None:
        return replace(record, attempt=shop.ledger.last_attempt(plan.name, job.name) + 1)
    if old.state is JobState.QUEUED:  # it never came to be: the same attempt once more
        return replace(record, token=old.token, attempt=old.attempt, revision=old.revision, tries=old.tries)
    tries = old.tries if old.restarted else old.tries + 1
    return replace(record, attempt=old.attempt + 1, revision=old.revision, tries=tries)


def _go_on(
    shop: Workshop,
    name: str,
    record: Record,
    seen: Look,
    now: dict[str, Record],
    chains: list[Chain],
    fresh: dict[str, Record],
) -> None:
    """An earlier start was cut short: finish it, or undo it where its place is another's by now."""
    if is_stranded(record, seen):
        outcome = shop.clear([steps_down(record, seen.observed)], {name: record}, seen)
        if not outcome.errors:
            now[name] = _queued_again(shop, outcome.records[name])
        return
    record = beside(replace(record, boot_id=seen.observed.boot_id), now.values())
    fresh[name] = record
    chains.append(steps_up(name, record, seen.observed, needs_instance=record.profile_id is not None))


def _queued_again(shop: Workshop, record: Record) -> Record:
    """An attempt of which nothing is there waits on; what it counts for is not lost."""
    fresh = replace(
        record,
        state=JobState.QUEUED,
        intent=None,
        gpu_uuid=None,
        profile=None,
        profile_id=None,
        placement=None,
        cpus=CpuSet(),
        instance=None,
        revision=record.revision + 1,
    )
    shop.ledger.save([fresh], durable=False)
    return fresh


def _take_back(
    shop: Workshop, run: Run, errors: Mapping[str, MigctlError], now: dict[str, Record]
) -> dict[str, MigctlError]:
    """Undo what was made for jobs that did not start. Those without an instance wait on; of the others the attempt has failed.

    Returns:
        Those that wait on, and why.
    """
    refused: dict[str, MigctlError] = {}
    if not errors:
        return refused
    seen = shop.look(run.name)
    broken = {name: seen.records[name] for name in errors if name in seen.records}
    outcome = shop.clear([steps_down(record, seen.observed) for record in broken.values()], broken, seen)
    for name, error in errors.items():
        record = outcome.records.get(name)
        if record is None:
            continue
        if in_doubt(broken[name], seen.observed) is not None:
            refused[name] = (
                error  # its open intent is all that makes what may be there ours: the next turn goes on with it
            )
            now[name] = record
            continue
        if _was_refused(broken[name], error) and name not in outcome.errors:
            now[name] = _queued_again(shop, record)
            refused[name] = error
            continue
        at = shop.session.now()
        over = replace(
            record,
            state=JobState.FAILED,
            reason=f"not started: {error.message}",
            intent=None,
            finished_at=at,
            revision=record.revision + 1,
        )
        shop.ledger.save([over], durable=False)
        now[name] = over
    return refused


def _was_refused(record: Record, error: MigctlError) -> bool:
    """Whether the GPU did not give what was wanted of it, so that it never came to a container."""
    if record.container_id is not None or record.profile_id is None or record.started_at is not None:
        return False
    # An instance that was made while the driver said no is as good as none: it is destroyed again.
    return record.instance is None or record.instance.mig_uuid is None or is_of_the_driver(error)
