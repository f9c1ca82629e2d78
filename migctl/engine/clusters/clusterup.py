"""`up` for a run on a cluster: hand over what the cluster does not have yet, all or nothing, and leave the rest alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from migctl.core.choices import Strategy
from migctl.core.cluster.clusterchoice import Choice, check_needs, choose
from migctl.core.cluster.clusterrun import ClusterJob, ClusterRun
from migctl.core.cluster.clusters import EngineName
from migctl.core.cluster.clusterturns import Turn, behind
from migctl.core.keytable import Target, lost
from migctl.core.plan import Job, Plan
from migctl.core.runs.record import JobState
from migctl.core.runs.run import Run
from migctl.core.runs.sameness import digest
from migctl.core.words import counted
from migctl.engine.clusters.cluster import ClusterEngine, cluster_engine
from migctl.engine.queueing.supervisor import turn_wait_s
from migctl.engine.runnames import check_run
from migctl.engine.session import Session
from migctl.engine.upoptions import UpOptions
from migctl.errors import Interrupted, MigctlError, Notice, PartlyApplied, PlanError
from migctl.store.ledger import Ledger
from migctl.store.submissions import cluster_folder

_TARGETS = {EngineName.SLURM: Target.SLURM, EngineName.KUBERNETES: Target.KUBERNETES}


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """What `up` did on a cluster, or would do."""

    run: Run
    cluster: ClusterRun
    """As it is afterwards."""
    turns: tuple[Turn, ...]
    """What was handed over, in order."""
    choice: Choice
    notices: tuple[Notice, ...]
    begun: tuple[str, ...] = ()
    """Jobs that waited for others and were started now, where the cluster does not do so by itself."""


def preview(session: Session, plan: Plan, options: UpOptions) -> HandedOver:
    """What `up` would hand over; asks the cluster, and changes nothing."""
    with session.ledger(write=False) as ledger:
        return _decided(session, ledger, plan, options).result


def hand_over(
    session: Session, plan: Plan, options: UpOptions, report: Callable[[str], None], cancel: threading.Event
) -> HandedOver:
    """Bring the cluster to what the plan says.

    Args:
        session: of the caller.
        plan: for a cluster.
        options: as of every `up`.
        report: told what is done, a sentence each.
        cancel: set by a signal: what this call has handed over is taken back.

    Raises:
        PlanError, DoesNotFit, HostError, Busy: nothing was changed, or what this call had handed over is taken back.
        PartlyApplied: something could not be taken back, or jobs that were to be replaced are gone and nothing is in their place.
        Interrupted: a signal came; what this call had handed over is taken back.
    """
    with ExitStack() as stack:
        ledger = stack.enter_context(session.ledger(write=True))
        wait_s = max(options.wait_for_s, turn_wait_s(session))
        stack.enter_context(session.run_lock(plan.name, wait_s=wait_s, cancel=cancel))
        found = _decided(session, ledger, plan, options)
        result, choice = found.result, found.result.choice
        if not result.turns and not choice.leaving and not choice.taken_out:
            return replace(result, begun=tuple(found.engine.advance(result.cluster)))

        def save(run: ClusterRun) -> None:
            ledger.submissions.save_cluster(run)
            if cancel.is_set():
                raise Interrupted("interrupted", "interrupted; what had been handed over is taken back")

        if choice.leaving:
            report(f"ending {counted(len(choice.leaving), 'job')}")
            found.engine.stop(found.seen, choice.leaving, grace_s=None, cancel=cancel)
        ledger.save_run(replace(result.run, ended_at=None))
        try:
            save(result.cluster)
            if result.turns:
                report(f"handing over {counted(len(choice.handed), 'job')}")
                cluster = found.engine.submit(found.asked, result.turns, result.cluster, save)
                ledger.submissions.save_cluster(cluster)
                result = replace(result, cluster=cluster)
        except PartlyApplied:
            raise  # what is left of it is on record
        except BaseException as error:
            _restore(ledger, result.run, found)
            if choice.leaving and isinstance(error, MigctlError):
                raise PartlyApplied(
                    error.id,
                    f"{', '.join(choice.leaving)} {'was' if len(choice.leaving) == 1 else 'were'} ended to be replaced, "
                    f"and nothing is in their place: {error.message}",
                    where=error.where,
                    hint=error.hint or "migctl up",
                ) from error
            raise
        return replace(result, begun=tuple(found.engine.advance(result.cluster)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    engine: ClusterEngine
    asked: Plan
    """Of the jobs to hand over."""
    known: Run | None
    """As it was before."""
    over: Run | None
    """One of this name that has ended, whose history is kept."""
    was: ClusterRun | None
    """What was recorded of either."""
    seen: ClusterRun
    """The run's jobs as they are, in place of how they were recorded."""
    result: HandedOver


def _decided(session: Session, ledger: Ledger, plan: Plan, options: UpOptions) -> _Decided:
    known = ledger.run(plan.name)
    check_run(known, plan)
    engine = cluster_engine(session, plan.engine, cluster_folder(ledger.state, plan.name))
    place = engine.place(plan)
    was = ledger.submissions.cluster(plan.name)
    old = was if known is not None else None
    if old is not None and any(job.unit for job in old.jobs) and old.place != place:
        raise PlanError(
            "another-cluster",
            f"the run {plan.name} is on {old.place or 'another cluster'}, and here is {place or 'one without a name'}",
            where=f"run {plan.name}",
            hint=f"there: migctl down {plan.name}; or give this plan another name:",
        )
    before = old or ClusterRun(run=plan.name, engine=plan.engine, token=os.urandom(8).hex(), place=place)
    there = engine.look(before) if old is not None else {}
    seen = before.with_jobs(there)
    digests = _digests(plan, ledger.key())
    choice = choose(plan.jobs, digests, there, replacing=options.replacing, retry=options.retry)
    check_needs(plan.jobs, choice, there)
    asked = replace(plan, jobs=tuple(job for job in plan.jobs if job.name in set(choice.handed)))
    turns: Sequence[Turn] = ()
    notices: Sequence[Notice] = ()
    if asked.jobs:
        turns, notices = engine.turns(asked)
        active = [n for n, job in there.items() if job.unit and not job.state.ended and n not in choice.leaving]
        turns = behind(turns, plan, [name for name in active if name not in choice.handed])
        notices = (*plan.notices, *notices, *_not_expressed(plan, engine))
    run = known or Run(
        name=plan.name,
        plan_path=plan.path,
        owner_uid=session.caller.uid,
        runtime=plan.runtime.value,
        strategy=(plan.strategy or Strategy.MIG).value,
        engine=plan.engine.value,
        created_at=session.now(),
    )
    result = HandedOver(
        run=run,
        cluster=_next(seen, plan, choice, turns, digests),
        turns=tuple(turns),
        choice=choice,
        notices=(*notices, *_kept_notices(choice, there)),
    )
    over = ledger.run(plan.name, ended=True) if known is None else None
    return _Decided(engine=engine, asked=asked, known=known, over=over, was=was, seen=seen, result=result)


def _not_expressed(plan: Plan, engine: ClusterEngine) -> Sequence[Notice]:
    """What the cluster cannot do for the plan, without what migctl does itself: the time to save, and where need be the order."""
    own = {"stop_grace_period", *(() if engine.keeps_order else ("needs", "stage"))}
    missing = lost(plan, _TARGETS[plan.engine])
    return [Notice("not-expressed", one.sentence) for one in missing if not own.issuperset(one.keys)]


def _digests(plan: Plan, key: bytes) -> Mapping[str, str]:
    return {job.name: digest(job, key) for job in plan.jobs}


def _next(
    seen: ClusterRun, plan: Plan, choice: Choice, turns: Sequence[Turn], digests: Mapping[str, str]
) -> ClusterRun:
    """The run with fresh records of what is handed over; earlier attempts become its past."""
    fresh = {job.name: (job, turn) for turn in turns for job in turn.group.members}
    before = {job.name: job for job in seen.jobs}
    over = [before[n] for n in (*choice.handed, *choice.taken_out) if n in before and before[n].unit]
    ended = [job if job.state.ended else replace(job, state=JobState.STOPPED, reason="replaced") for job in over]
    order = dict.fromkeys([*(job.name for job in plan.jobs), *before])
    jobs: list[ClusterJob] = []
    for name in order:
        if name in fresh:
            job, turn = fresh[name]
            attempt = max((j.attempt for j in (*seen.jobs, *seen.past) if j.name == name and j.unit), default=0) + 1
            jobs.append(_fresh(job, turn, digests[name], attempt))
        elif name in before and name not in choice.taken_out:
            jobs.append(before[name])
    return replace(seen, jobs=tuple(jobs), past=(*seen.past, *ended))


def _fresh(job: Job, turn: Turn, job_digest: str, attempt: int) -> ClusterJob:
    group = turn.group
    limit = job.timeout_s * (job.retries + 1) if job.timeout_s is not None else None
    return ClusterJob(
        name=job.name,
        origin=job.origin,
        digest=job_digest,
        attempt=attempt,
        profile=group.profile,
        cpus=group.cpus,
        num_workers=group.num_workers,
        grace_s=job.stop_grace_period_s,
        timeout_s=limit,
        needs=job.needs,
    )


def _restore(ledger: Ledger, run: Run, found: _Decided) -> None:
    """The records as before, with what was seen; of a run that is new nothing stays, and one that had ended has ended again."""
    if found.known is not None:
        ledger.submissions.save_cluster(found.seen)
    elif found.over is None:
        ledger.forget_run(run.name)
    else:
        if found.was is not None:
            ledger.submissions.save_cluster(found.was)
        ledger.save_run(found.over)


def _kept_notices(choice: Choice, there: Mapping[str, ClusterJob]) -> Sequence[Notice]:
    found: list[Notice] = []
    for names, what in ((choice.changed, "changed in the plan"), (choice.removed, "no longer in the plan")):
        if names:
            found.append(
                Notice("kept-as-it-was", f"{what}, and left as it is: {', '.join(names)}", hint="migctl up --replace")
            )
    again = [there[name] for name in choice.kept if there[name].state.unsuccessful]
    if again:
        ends = ", ".join(f"{j.name} {j.state.value}" + (f" ({j.reason})" if j.reason else "") for j in again)
        which = "it" if len(again) == 1 else "them"
        found.append(Notice("not-run-again", f"not run again: {ends}", hint=f"migctl up --retry runs {which} again"))
    return found
