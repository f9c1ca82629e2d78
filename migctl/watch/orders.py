"""What is done for whoever watches: stop, hold, release, and read a log, as the commands of these names do."""

from __future__ import annotations

import re
import threading
from typing import Final

from migctl.core.seeing.watchkeys import Do, Order
from migctl.core.words import counted
from migctl.engine.session import Session
from migctl.engine.targets import unknown_run
from migctl.render.log_lines import tame

_TAIL: Final = 1000
"""Lines of a log that can be scrolled through."""
_LOOKS: Final = re.compile(r"\x1b\[[0-9;:]*m")


def done(session: Session, order: Order) -> str:
    """Do it, and say in a few words what came of it.

    Raises:
        MigctlError: as the command does.
    """
    if order.do is Do.STOP:
        from migctl.engine.down import stop_jobs

        stopped = stop_jobs(
            session, order.run, [order.job], grace_s=None, report=lambda _: None, cancel=threading.Event()
        )
        return f"stopped: {', '.join(stopped)}" if stopped else f"{order.name} was not running any more"
    from migctl.engine.queueing.queued import hold, release

    jobs = (order.job,) if order.job else ()
    if order.do is Do.HOLD:
        return f"{order.run}: held: {_which(order, hold(session, order.run, jobs))}; what runs goes on"
    return f"{order.run}: released: {_which(order, release(session, order.run, jobs))}"


def log_of(session: Session, order: Order) -> list[str]:
    """The end of a job's log, as a terminal would show it, without its colours.

    Raises:
        MigctlError: it has not begun, or the engine does not answer.
    """
    from migctl.engine.follow import read_logs

    with session.ledger(write=False) as ledger:
        run = ledger.run(order.run, ended=True)
        if run is None:
            raise unknown_run(order.run, [known.name for known in ledger.runs()])
    lines = read_logs(
        session,
        run,
        [order.job],
        follow=False,
        tail=_TAIL,
        timestamps=False,
        since=None,
        cancel=threading.Event(),
    )
    return [_LOOKS.sub("", tame(line).decode("utf-8", "replace")) for _, line in lines]


def _which(order: Order, names: tuple[str, ...]) -> str:
    return ", ".join(names) if order.job else counted(len(names), "waiting job")
