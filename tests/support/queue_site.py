"""A queue to crash on: jobs that take turns on one GPU, submitted and supervised as the test says and by nobody else."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from migctl.core.plan import Plan
from migctl.core.runs.events import Event
from migctl.core.runs.record import JobState, Record
from migctl.engine.converge import UpResult, converge
from migctl.engine.queueing.supervise import supervise
from migctl.engine.queueing.supervisor import bell_path
from migctl.engine.session import Session
from migctl.engine.upoptions import UpOptions
from migctl.host.doorbell import Doorbell
from migctl.host.paths import make_private
from migctl.nvml.simmodel import SimInstance
from tests.support.crashes import Site, Spec, until

TURNS: Spec = {"one": "4g.20gb", "two": "4g.20gb", "three": "3g.20gb"}
"""The second takes the first one's instance over as it is; for the third the room is cut anew."""
SECONDS = "0.05"


@contextmanager
def unattended(session: Session) -> Iterator[None]:
    """Somebody listens to the supervisor's bell and does nothing: no command starts a supervisor of its own."""
    make_private(session.paths.state, session.caller)
    bell = Doorbell(bell_path(session), session.caller.uid, session.caller.gid, lambda: None)
    try:
        yield
    finally:
        bell.close()


def turns(site: Site, spec: Spec = TURNS, *, seconds: str = SECONDS) -> Plan:
    """Short jobs of which only one at a time has room."""
    return site.plan(spec, seconds=seconds)


def submit(
    site: Site,
    plan: Plan | Spec,
    *,
    report: Callable[[Event], None] = lambda _: None,
    options: UpOptions = UpOptions(),  # noqa: B008 -- frozen
) -> UpResult:
    """`migctl up`, after which nobody supervises."""
    session = site.session()
    with unattended(session):
        wanted = plan if isinstance(plan, Plan) else turns(site, plan)
        return converge(session, wanted, options, report, threading.Event())


def supervise_all(site: Site, *, report: Callable[[Event], None] = lambda _: None) -> None:
    """The supervisor, here, until nothing is left to do."""
    supervise(site.session(), stop=threading.Event(), report=report)


def resume(site: Site) -> UpResult:
    """`migctl resume`, after which nobody supervises: from what was submitted."""
    with site.session().ledger(write=False) as ledger:
        submission = ledger.submissions.submission(site.run)
    assert submission is not None
    return submit(site, submission.plan, options=UpOptions(resume=True))


def records(site: Site) -> Mapping[str, Record]:
    """The jobs as they are."""
    seen = site.settled()
    assert seen is not None
    return seen.records


def states(site: Site) -> dict[str, str]:
    return {name: record.state.value for name, record in records(site).items()}


def attempts(site: Site) -> Counter[str]:
    """How many attempts of each job are written down that have begun."""
    with site.session().ledger(write=False) as ledger:
        known = (*ledger.history(site.run), *ledger.records(site.run))
    return Counter(record.job for record in known if record.started_at is not None)


def assert_over(site: Site, spec: Spec, strangers: Sequence[SimInstance]) -> None:
    """As after an undisturbed run: each job ran once and succeeded, and what is left is one instance for the last one."""
    assert states(site) == dict.fromkeys(spec, JobState.SUCCEEDED.value)
    assert site.starts() == Counter(spec.keys())
    assert attempts(site) == Counter(spec.keys())
    assert until(lambda: not site.living())
    assert all(stranger in site.gpu_instances() for stranger in strangers)
    owned = [r.instance for r in records(site).values() if r.instance is not None]
    assert len(owned) == 1
    assert len(site.gpu_instances()) == len(strangers) + 1
    with site.session().ledger(write=False) as ledger:
        queue = ledger.submissions.queue(site.run)
        assert queue is not None
        assert queue.told
        assert all(record.closed for record in ledger.records(site.run))


def with_jobs(plan: Plan, **changes: object) -> Plan:
    """The same plan with these keys in all of its jobs."""
    return replace(plan, jobs=tuple(replace(job, **changes) for job in plan.jobs))  # type: ignore[arg-type]  # names are the caller's
