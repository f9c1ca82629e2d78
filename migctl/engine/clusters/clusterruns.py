"""Looking at runs on clusters, waiting for their jobs, reading their logs, ending them: above every engine alike."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from migctl.core.cluster.clusterrun import ClusterJob, ClusterRun
from migctl.core.cluster.clusters import EngineName
from migctl.core.runs.record import JobState, Record
from migctl.core.runs.run import Run
from migctl.core.views.status import JobView, RunView, run_state
from migctl.engine.clusters.cluster import ClusterEngine, cluster_engine
from migctl.engine.follow import split_lines
from migctl.engine.queueing.supervisor import turn_wait_s
from migctl.engine.session import Session
from migctl.engine.targets import unknown_run
from migctl.errors import Busy, MigctlError, Notice, PlanError
from migctl.store.ledger import Ledger
from migctl.store.submissions import cluster_folder


def on_cluster(run: Run) -> bool:
    """Whether the run's jobs are not on this machine."""
    return run.engine != EngineName.LOCAL


def refuse_cluster(run: Run, verb: str) -> None:
    """For commands that only the local engine has.

    Raises:
        PlanError: the run is on a cluster.
    """
    if on_cluster(run):
        raise PlanError(
            "on-a-cluster",
            f"{run.name} runs on {run.engine}, and {verb} is for jobs of this machine",
            where=f"run {run.name}",
            hint="status, logs, wait, stop and down work on it",
        )


def connected(session: Session, ledger: Ledger, run: Run) -> tuple[ClusterEngine, ClusterRun]:
    """The run's cluster and what is recorded of it.

    Raises:
        MigctlError: its record cannot be read, or its programs now belong to another cluster.
    """
    known = ledger.submissions.cluster(run.name)
    engine = cluster_engine(session, EngineName(run.engine), cluster_folder(ledger.state, run.name))
    return engine, known or ClusterRun(run=run.name, engine=EngineName(run.engine), token="")


def see(session: Session, run: Run) -> ClusterRun:
    """The run with its jobs as they are now."""
    with session.ledger(write=False) as ledger:
        engine, known = connected(session, ledger, run)
    return known.with_jobs(engine.look(known))


def attempts(session: Session, ledger: Ledger, run: Run) -> Sequence[Record]:
    """All attempts of the run's jobs, oldest first; where its cluster does not answer, as they were recorded."""
    known = ledger.submissions.cluster(run.name)
    if known is None:
        return ()
    try:
        now = see(session, run).jobs if run.ended_at is None else known.jobs
    except MigctlError:
        now = known.jobs
    every = sorted((*known.past, *now), key=lambda job: (job.name, job.attempt))
    return [record for job in every for record in as_records(run, [job]).values()]


def as_records(run: Run, jobs: Sequence[ClusterJob]) -> Mapping[str, Record]:
    """The jobs in the form in which ends are told."""
    return {
        job.name: Record(
            run=run.name,
            job=job.name,
            attempt=job.attempt,
            token="",
            runtime=run.runtime,
            strategy=run.strategy,
            state=job.state,
            digest=job.digest,
            spec="",
            profile=job.profile,
            cpus=job.cpuset,
            num_workers=job.num_workers,
            exit_code=job.exit_code,
            reason=job.reason,
            started_at=job.started_at,
            finished_at=job.finished_at,
        )
        for job in jobs
    }


def view(session: Session, ledger: Ledger, run: Run) -> tuple[RunView, tuple[Notice, ...]]:
    """The run as `status` shows it; where its cluster does not answer, as it was recorded, with a notice."""
    notices: tuple[Notice, ...] = ()
    known = ledger.submissions.cluster(run.name)
    jobs = known.jobs if known is not None else ()
    if run.ended_at is None:
        try:
            engine, known = connected(session, ledger, run)
            jobs = known.with_jobs(engine.look(known)).jobs
        except MigctlError as error:
            notices = (
                Notice(
                    error.id, f"{error.message}; shown is what was recorded", hint=error.hint, where=f"run {run.name}"
                ),
            )
    views = tuple(_job(job) for job in jobs)
    return (
        RunView(
            name=run.name,
            state="removed" if run.ended_at is not None else run_state(views),
            jobs=views,
            plan_path=run.plan_path,
            runtime=run.runtime,
            strategy=run.strategy,
            created_at=run.created_at,
            engine=run.engine,
        ),
        notices,
    )


def _job(job: ClusterJob) -> JobView:
    unit = job.unit if job.index is None else f"{job.unit}_{job.index}"
    return JobView(
        name=job.name,
        origin=job.origin or job.name,
        state=job.state,
        exit_code=job.exit_code,
        reason=job.reason if job.unit else "not handed over: an up is at work, or was interrupted",
        profile=job.profile,
        cpus=job.cpuset,
        num_workers=job.num_workers,
        attempt=job.attempt,
        started_at=job.started_at,
        finished_at=job.finished_at,
        cluster_id=unit or None,
        node=job.node,
        unknown=(("pid", "it is on another machine"),),
    )


def wait(
    session: Session,
    run: Run,
    jobs: Sequence[str],
    *,
    timeout_s: float | None,
    on_end: Callable[[Record], None] = lambda _: None,
) -> Mapping[str, Record]:
    """Block until these jobs (none named: all) have ended; returns how. Raises as `follow.wait`."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    with session.ledger(write=False) as ledger:
        engine, known = connected(session, ledger, run)
    told: dict[str, Record] = {}
    while True:
        now = as_records(run, known.with_jobs(engine.look(known)).jobs)
        names = list(jobs) or list(now)
        unborn = [name for name in names if (job := known.job(name)) is None or not job.unit]
        for name in names:
            if name in now and now[name].state.ended and name not in told:
                told[name] = now[name]
                on_end(now[name])
        left = [name for name in names if name not in told]
        if not left:
            return {name: told[name] for name in names}
        if unborn:
            raise Busy(
                "not-started",
                f"not handed over: {', '.join(unborn)}: an up is at work, or was interrupted",
                where=f"run {run.name}",
                hint="migctl up hands them over",
                data={"jobs": unborn},
            )
        pause = engine.look_s
        if deadline is not None:
            pause = min(pause, deadline - time.monotonic())
            if pause <= 0:
                raise Busy(
                    "wait-timeout",
                    f"still running after {timeout_s:g} s: {', '.join(sorted(left))}",
                    hint=f"they go on; migctl wait {run.name} waits again, migctl stop ends them",
                    data={"jobs": sorted(left)},
                )
        time.sleep(pause)


def read_logs(
    session: Session,
    run: Run,
    jobs: Sequence[str],
    *,
    follow: bool,
    tail: int | None,
    timestamps: bool,
    since: float | None,
    cancel: threading.Event,
) -> Iterator[tuple[str, bytes]]:
    """Lines of the jobs' logs with the job's name; with `follow` as they come, until all have ended."""
    with session.ledger(write=False) as ledger:
        engine, known = connected(session, ledger, run)
    names = list(jobs) or [job.name for job in known.jobs]

    def chunks(name: str) -> Iterator[bytes]:
        return engine.logs(known, name, follow=follow, tail=tail, since=since, timestamps=timestamps, cancel=cancel)

    if not follow:
        for name in names:
            yield from ((name, line) for line in split_lines(chunks(name)))
        return
    lines: queue.Queue[tuple[str, bytes] | MigctlError | None] = queue.Queue(maxsize=1000)

    def one(name: str) -> None:
        try:
            for line in split_lines(chunks(name)):
                lines.put((name, line))
        except MigctlError as error:
            lines.put(error)
        finally:
            lines.put(None)

    for name in names:
        threading.Thread(target=one, args=(name,), daemon=True).start()
    left = len(names)
    while left and not cancel.is_set():
        try:
            item = lines.get(timeout=0.5)
        except queue.Empty:
            continue
        if item is None:
            left -= 1
        elif isinstance(item, MigctlError):
            raise item
        else:
            yield item


def stop_jobs(
    session: Session, run: Run, jobs: Collection[str], *, grace_s: float | None, cancel: threading.Event
) -> tuple[str, ...]:
    """End jobs; their records and logs stay until `down`. Returns those that had not ended."""
    with ExitStack() as stack:
        ledger = stack.enter_context(session.ledger(write=True, removing=True))
        stack.enter_context(session.run_lock(run.name, wait_s=turn_wait_s(session), cancel=cancel))
        if ledger.run(run.name) is None:
            raise unknown_run(run.name, [r.name for r in ledger.runs()])
        engine, known = connected(session, ledger, run)
        before = engine.look(known)
        alive = tuple(name for name, job in before.items() if name in jobs and job.unit and not job.state.ended)
        if not alive:
            return ()
        engine.stop(known, alive, grace_s=grace_s, cancel=cancel)
        ledger.submissions.save_cluster(known.with_jobs(_as_stopped(engine.look(known), alive)))
        return alive


def take_down(session: Session, run: Run, *, grace_s: float | None, cancel: threading.Event) -> tuple[str, ...]:
    """End and remove everything of the run at its cluster; its logs stay until `rm`. Returns its jobs.

    Raises:
        PartlyApplied: something is still there; it stays recorded, and `down` again goes on.
    """
    with ExitStack() as stack:
        ledger = stack.enter_context(session.ledger(write=True, removing=True))
        stack.enter_context(session.run_lock(run.name, wait_s=turn_wait_s(session), cancel=cancel))
        if ledger.run(run.name) is None:
            return ()
        engine, known = connected(session, ledger, run)
        if known.token:
            now = engine.look(known)
            alive = [name for name, job in now.items() if job.unit and not job.state.ended]
            engine.remove(known, grace_s=grace_s, cancel=cancel)
            ended = _as_stopped(engine.look(known) if alive else now, alive)
            ledger.submissions.save_cluster(known.with_jobs(ended))
        ledger.end_run(run.name)
        return tuple(job.name for job in known.jobs if job.unit)


def _as_stopped(jobs: Mapping[str, ClusterJob], names: Collection[str]) -> Mapping[str, ClusterJob]:
    """How these ended is known: somebody asked for it. One that was faster keeps its own end."""
    return {
        name: replace(job, state=JobState.STOPPED, reason="stopped by migctl")
        if name in names and job.state is not JobState.SUCCEEDED
        else job
        for name, job in jobs.items()
    }
