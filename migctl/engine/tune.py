"""`tune`: starts one job again and again with other numbers of workers, in its own cpuset and instance, and finds the best."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from migctl.core import names
from migctl.core.allocation import Assignment
from migctl.core.choices import Strategy
from migctl.core.cpu.topology import Topology
from migctl.core.plan import Job, Plan
from migctl.core.runs.record import JobState
from migctl.core.seeing.tuning import Curve, Point, best, drifted, fewest, next_count, verdict
from migctl.core.views.tuning import TuneView
from migctl.engine.apply import read_only
from migctl.engine.decide import consider
from migctl.engine.down import take_down
from migctl.engine.measure import Limits
from migctl.engine.session import Session
from migctl.engine.trial import Trials, alone
from migctl.engine.upoptions import UpOptions
from migctl.errors import Busy, HostError, Notice, PlanError
from migctl.host.paths import make_private

START_S = 120.0
"""How long a training may take until its first report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """What the command line said."""

    measure_s: float = 20.0
    """For each worker count, behind its first report."""
    most: int | None = None
    """Workers to try at most; `None` = twice the cpuset's logical CPUs."""
    probe: bool = False
    """Measure the shipped stand-in instead of the job's own command."""


def tune(
    session: Session,
    plan: Plan,
    word: str | None,
    options: TuneOptions,
    told: Callable[[Point], None],
    cancel: threading.Event,
) -> TuneView:
    """Measure and recommend. Whatever happens, nothing of it is left: the run is taken down as `down` does.

    Args:
        word: the job's name, or its key in the plan; `None` = the only one.
        told: called with each count as it is measured.
        cancel: set by a signal.

    Raises:
        PlanError: no such job, or it reports no samples.
        Busy: the job runs already, or another `tune` of it does.
        HostError: MIG mode is off: a measurement does not change it, whatever the plan says.
        JobsFailed: the job failed while it was measured.
        Interrupted: a signal came; everything is taken down.
    """
    job = chosen(plan, word)
    use_probe = options.probe or job.command is None
    run = run_name(plan, job)
    with ExitStack() as stack:
        stack.enter_context(session.lock(f"tune-{session.caller.uid}-{run}"))
        stack.enter_context(_as_it_is())
        folder = stack.enter_context(_left_clean(session, run, cancel))
        place, topology, strategy, notices = _place(session, plan, job)
        trials = Trials(
            session=session,
            plan=alone(plan, job, place, topology, strategy, run),
            folder=folder,
            probe=use_probe,
            limits=Limits(measure_s=options.measure_s, start_s=START_S),
            cancel=cancel,
        )
        start, most = place.cpu.num_workers, options.most or max(place.cpu.num_workers, 2 * len(place.cpu.cpus))
        curve, changed = _search(trials, min(start, most), most, told)
    count = fewest(curve)
    return TuneView(
        run=plan.name,
        job=job.name,
        origin=job.origin,
        cpus=place.cpu.cpus,
        cores=place.cpu.cores,
        profile=place.profile.name if place.profile is not None else None,
        runtime=plan.runtime.value,
        probe=use_probe,
        planned=start,
        points=tuple(curve[workers] for workers in sorted(curve)),
        best=best(curve),
        recommended=count,
        verdict=verdict(curve[count].measured, place.cpu.cores),
        notices=(*notices, *([_changed(*changed)] if changed is not None else [])),
        simulated=session.nvml,
    )


def run_name(plan: Plan, job: Job) -> str:
    """A run of its own name: `status` shows it while it is there, and `down` removes what a killed `tune` left."""
    return names.expanded(f"tune-{plan.name}-{job.name}")


def chosen(plan: Plan, word: str | None) -> Job:
    """The job to tune: by name, or by its key, whose variants share one number of workers.

    Raises:
        PlanError: no such job, or none named where there are several.
    """
    known = [job.name for job in plan.jobs]
    if word is None and len({job.origin for job in plan.jobs}) == 1:
        return plan.jobs[0]
    found = [job for job in plan.jobs if job.name == word] or [job for job in plan.jobs if job.origin == word]
    if found:
        return found[0]
    some = f"{', '.join(known[:12])}{' …' if len(known) > 12 else ''}"
    if word is None:
        raise PlanError("which-job", f"the plan has several jobs: {some}", hint=f"migctl tune FILE {known[0]}")
    raise PlanError("unknown-job", f"no job of this plan is called {word}; there are {some}", hint="migctl plan")


def _place(session: Session, plan: Plan, job: Job) -> tuple[Assignment, Topology, Strategy, tuple[Notice, ...]]:
    """Where the plan puts the job, beside all its others; reads only."""
    with read_only(session, plan.runtime) as shop:
        found = consider(shop, plan, UpOptions())
    record = found.seen.records.get(job.name)
    if record is not None and record.state in (JobState.RUNNING, JobState.STARTING):
        raise Busy(
            "still-running",
            f"{job.name} runs already (run {plan.name}); beside itself it would not be measured, but hindered",
            where=f"run {plan.name}",
            hint=f"wait for its end, or migctl down {plan.name}",
        )
    if record is not None and (record.container_id is not None or record.instance is not None):
        raise Busy(
            "still-there",
            f"{job.name} of the run {plan.name} has ended, and keeps its cores and its GPU instance until `down`",
            where=f"run {plan.name}",
            hint=f"migctl down {plan.name}, then tune",
        )
    allocation = found.decision.allocation
    for assignment in allocation.assignments:
        if assignment.job.name == job.name:
            variants = sum(other.origin == job.origin for other in plan.jobs)
            shared = (
                Notice(
                    "one-of-several",
                    f"{job.name} was measured for all {variants} jobs of {job.origin}: they share one num_workers",
                ),
            )
            return assignment, found.machine.topology, allocation.strategy, shared if variants > 1 else ()
    if allocation.blocked is not None:
        raise allocation.blocked
    raise Busy("no-place", f"there is no room for {job.name} now", hint="migctl plan")


@contextmanager
def _as_it_is() -> Iterator[None]:
    """What `up` would do about the MIG mode is not for a measurement: the way out is another one."""
    try:
        yield
    except HostError as error:
        if error.id != "mig-mode-off":
            raise
        raise HostError(
            error.id, error.message, where=error.where, hint="migctl mode enable, then tune", data=error.data
        ) from error


@contextmanager
def _left_clean(session: Session, run: str, cancel: threading.Event) -> Iterator[Path]:
    """A folder for samples, and no trace of the run before and after: an earlier `tune` may have been killed."""
    with session.ledger(write=False) as ledger:
        known = ledger.run(run, ended=True)
    if known is not None:
        _remove(session, run, cancel)
    folder = session.paths.state / "tune" / run
    shutil.rmtree(folder, ignore_errors=True)
    make_private(folder.parent, session.caller)
    make_private(folder, session.caller)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _remove(session, run, cancel)


def _remove(session: Session, run: str, cancel: threading.Event) -> None:
    take_down(session, run, grace_s=None, report=lambda _: None, cancel=cancel, wait_for_s=5.0)
    with session.ledger(write=True) as ledger:
        ledger.forget_run(run)


def _search(
    trials: Trials, start: int, most: int, told: Callable[[Point], None]
) -> tuple[Curve, tuple[Point, Point] | None]:
    """Measure what the curve still needs. The first count is measured once more at the end.

    Then the page cache is warm, and whoever else was at work may have gone: what differs is told, and the later number counts.
    """
    curve: dict[int, Point] = {}
    changed: tuple[Point, Point] | None = None
    again = False
    while True:
        count = next_count(curve, start, most)
        if count is None and (again or len(curve) == 1):
            return curve, changed
        if count is None:
            again = True
            count = start
        top = curve[best(curve)].measured if curve else None
        point = Point(count, trials.measure(count, None if count in curve else top))
        if count in curve and drifted(curve[count].measured, point.measured):
            changed = (curve[count], point)
        curve[count] = point
        told(point)


def _changed(first: Point, again: Point) -> Notice:
    return Notice(
        "changed-meanwhile",
        f"{first.num_workers} workers made {first.measured.rate:.4g} samples/s at the beginning and "
        f"{again.measured.rate:.4g} at the end: the data were not yet in memory, or something else was at work",
        hint="run tune again, now that the data have been read once",
    )
