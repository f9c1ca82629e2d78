"""What `up` leaves for the supervisor: the plan and its queue, on disk before the first effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from migctl.core.choices import Finish, Reboot, RuntimeName
from migctl.core.plan import Plan
from migctl.core.queueing.entries import Queue
from migctl.core.queueing.submission import Submission, without_places
from migctl.engine.apply import Workshop
from migctl.engine.decide import Decision
from migctl.engine.queueing.snapshots import Copies
from migctl.errors import PartlyApplied
from migctl.store.ledger import Ledger

_KEPT: Final = ("DOCKER_", "CONTAINER_", "MIGCTL_", "SUDO_", "XDG_")
_KEPT_NAMES: Final = frozenset({"HOME", "USER", "LOGNAME", "PATH", "LANG", "TMPDIR"})
"""What reaching the engine, and knowing whose run it is, takes of an environment."""


def needs_supervision(plan: Plan, decision: Decision) -> bool:
    """Whether anything of the plan happens after `up` has returned."""
    if decision.allocation.waiting or plan.fail_fast or plan.notify:
        return True
    if any(job.snapshot or job.mps is not None for job in plan.jobs):
        return True  # what it runs on has to be known for its next attempt; an MPS daemon ends with the last job
    if plan.on_finish is not Finish.KEEP or plan.on_reboot is not Reboot.HOLD:
        return True
    return any(job.retries or job.timeout_s is not None or job.resumable for job in plan.jobs)


@contextmanager
def submitted(
    shop: Workshop,
    plan: Plan,
    decision: Decision,
    images: Mapping[str, str],
    copies: Copies,
) -> Iterator[bool]:
    """Submit the plan for what happens inside; where that fails, what was submitted before stands again.

    Args:
        shop: with the run's lock held.
        plan: all jobs of the run.
        decision: what starts of it now.
        images: job → image id.
        copies: of the source, for jobs that want one.

    Yields:
        Whether anything is left to be supervised afterwards.
    """
    ledger = shop.ledger
    old_queue = ledger.submissions.queue(plan.name)
    if old_queue is None and not needs_supervision(plan, decision):
        yield False
        return
    old = ledger.submissions.submission(plan.name)
    queue = decision.queue
    if (
        old_queue is not None
        and old_queue.told
        and old is not None
        and _is_the_same(old, queue, old_queue, plan, decision)
    ):
        yield False
        return
    environ = shop.session.environ
    if plan.runtime is RuntimeName.DOCKER:
        environ = {n: v for n, v in environ.items() if n.startswith(_KEPT) or n in _KEPT_NAMES}
    known = dict(old.images) if old is not None else {}
    submission = Submission(
        plan=plan,
        environ=tuple(environ.items()),
        images=tuple({**known, **images}.items()),
        snapshots=tuple(copies.of.items()),
        codes=tuple(copies.codes.items()),
    )
    try:
        ledger.submissions.submit(plan.name, submission, queue)
        if decision.wave is not None:
            ledger.submissions.save_waits(plan.name, {job: reason.words for job, reason in decision.wave.waits.items()})
        yield True
    except PartlyApplied:
        raise  # what is left of it is supervised like the rest
    except BaseException:
        _restore(ledger, plan.name, old, old_queue)
        raise


def _is_the_same(old: Submission, queue: Queue, old_queue: Queue, plan: Plan, decision: Decision) -> bool:
    """Whether everything is over, and stays so: whoever wanted to know that has been told."""
    changing = decision.chains or decision.undo or decision.allocation.waiting
    return (
        not changing
        and old.plan == without_places(plan)
        and replace(queue, told=False) == replace(old_queue, told=False)
    )


def _restore(ledger: Ledger, run: str, submission: Submission | None, queue: Queue | None) -> None:
    if submission is not None and queue is not None:
        ledger.submissions.submit(run, submission, queue)
    else:
        ledger.submissions.withdraw(run)
