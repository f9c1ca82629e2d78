"""Up and down, over and over, and what is left behind each time: it must be nothing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from migctl.core.choices import RuntimeName
from migctl.core.plan import Plan
from migctl.engine.converge import converge
from migctl.engine.session import Session
from migctl.engine.upoptions import UpOptions
from tests.support.crashes import Site, until
from tests.support.engines import BUSYBOX

SPEC = {"a": "2g.10gb", "b": "1g.5gb", "c": "1g.5gb"}
_WARM = {RuntimeName.PROCESS: 2, RuntimeName.DOCKER: 8}
"""Cycles before the first count: modules are loaded once, and the SDK fills its pool of 25 connections (docker.constants)."""


def plan(site: Site, runtime: RuntimeName) -> Plan:
    """Three jobs that would run for minutes."""
    made = site.plan(SPEC)
    jobs = tuple(
        replace(job, image=BUSYBOX, command=("sleep", "300"), network_mode="none")
        if runtime is RuntimeName.DOCKER
        else job
        for job in made.jobs
    )
    return replace(made, runtime=runtime, jobs=jobs)


def cycle(site: Site, session: Session, runtime: RuntimeName) -> None:
    """Once up, down, and forgotten, as `migctl rm` would."""
    import threading

    from migctl.engine.down import take_down

    result = converge(session, plan(site, runtime), UpOptions(), lambda _: None, threading.Event())
    assert len(result.started) == len(SPEC)
    take_down(session, site.run, grace_s=0.0, report=lambda _: None, cancel=threading.Event())
    with session.ledger(write=True) as ledger:
        ledger.forget_run(site.run)
    (site.folder / "starts").unlink(missing_ok=True)


def left_behind(site: Site) -> Mapping[str, object]:
    """Everything that could leak, counted."""
    assert until(lambda: not site.living())
    return {
        "instances": site.gpu_instances(),
        "file descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 -- iterdir would keep one open while counting
        "processes": sorted(site.living()),
        "children": _children(),
        "files": sorted(str(p.relative_to(site.state)) for p in site.state.rglob("*") if p.is_file()),
        "claims": sorted(p.name for p in (site.machine / "run").glob("*.json")),
        "store rows": _rows(site.state),
    }


def run(site: Site, environ: Mapping[str, str], runtime: RuntimeName, number: int) -> None:
    """So many cycles; after each the same is there as after the first ones."""
    session = site.session()
    session.environ = {**session.environ, **environ}
    for _ in range(_WARM[runtime]):
        cycle(site, session, runtime)
    before = left_behind(site)
    for done in range(number):
        cycle(site, session, runtime)
        after = left_behind(site)
        changed = {what: (before[what], after[what]) for what in before if after[what] != before[what]}
        assert changed == {}, f"after {done + 1} cycles: {changed}"


def _children() -> int:
    return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def _rows(state: Path) -> dict[str, int]:
    (store,) = state.glob("*.db")
    with closing(sqlite3.connect(store)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {t: connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in sorted(tables)}
