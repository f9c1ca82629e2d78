"""While somebody waits for a run on a cluster that keeps no order among jobs, migctl keeps it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from migctl.core.runs.run import Run
from migctl.engine.clusters.clusterruns import connected
from migctl.engine.session import Session
from migctl.errors import MigctlError


@contextmanager
def advancing(session: Session, run: Run) -> Iterator[None]:
    """Inside the block jobs begin when those that they wait for have ended; a cluster that does so itself is left alone."""
    with session.ledger(write=False) as ledger:
        engine, known = connected(session, ledger, run)
    if engine.keeps_order:
        yield
        return
    over = threading.Event()

    def keep() -> None:
        while not over.wait(engine.look_s):
            try:
                engine.advance(known)
            except MigctlError:
                continue  # whoever waits meets the same error, and tells it

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
