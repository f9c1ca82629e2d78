"""`hold` and `release`: what they ask of the engine and what they print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.core.words import counted


def change(common: Common, words: Sequence[str], *, holding: bool) -> None:
    """Hold or release a run, or jobs of it, and say what that concerns."""
    from migctl.engine.clusters.clusterruns import refuse_cluster
    from migctl.engine.queueing.queued import hold, release
    from migctl.engine.targets import find_jobs

    session = common.session()
    with session.ledger(write=False) as ledger:
        target = find_jobs(ledger, words, Path.cwd())
    refuse_cluster(target.run, "hold" if holding else "release")
    run = target.run.name
    names = (hold if holding else release)(session, run, target.jobs)
    if common.json:
        write_json({"version": 1, "run": run, "held" if holding else "released": list(names)})
    elif not common.quiet:
        what = "held" if holding else "released"
        which = ", ".join(names) if target.jobs else counted(len(names), "waiting job")
        after = "; what runs goes on" if holding else ""
        write(f"{run}: {what}: {which}{after}\n")
