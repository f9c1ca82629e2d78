"""`resume` and `adopt`: what they ask of the engine and what they print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_json


def resume_run(
    common: Common, word: str | None, *, failed: bool, dry_run: bool, enable_mig: bool, wait_for_s: float
) -> None:
    """`up` for the jobs that the run has, and lost ones run again."""
    from migctl.cli.plans import plan_of
    from migctl.cli.up import bring_up
    from migctl.engine.clusters.clusterruns import refuse_cluster
    from migctl.engine.targets import find_run
    from migctl.engine.upoptions import UpOptions

    session = common.session()
    with session.ledger(write=False) as ledger:
        run = find_run(ledger, word, Path.cwd())
    refuse_cluster(run, "resume")
    plan = plan_of(common, session, run)
    plan = replace(plan, enable_mig=enable_mig or plan.enable_mig)
    options = UpOptions(retry=failed, resume=True, wait_for_s=wait_for_s)
    bring_up(common, session, plan, options, dry_run=dry_run, wait=False, attach=False)


def adopt_leftovers(common: Common, run: str | None, *, dry_run: bool) -> None:
    """Say what became one's own again, and what was left alone."""
    from migctl.engine.adopt import adopt

    result = adopt(common.session(), run, dry_run=dry_run)
    if common.json:
        write_json(
            {
                "version": 1,
                "dry_run": dry_run,
                "adopted": [
                    {
                        "run": record.run,
                        "job": record.job,
                        "state": record.state.value,
                        "container_id": record.container_id if record.runtime == "docker" else None,
                        "pid": record.pid,
                        "gpu_uuid": record.gpu_uuid,
                        "gi_id": record.instance.gi_id if record.instance is not None else None,
                        "mig_uuid": record.instance.mig_uuid if record.instance is not None else None,
                    }
                    for record in result.adopted
                ],
                "left": [{"what": left.what, "reason": left.reason} for left in result.left],
            }
        )
        return
    from migctl.render.adopt_text import adopt_text

    left = [(one.what, one.reason) for one in result.left]
    write(adopt_text(result.adopted, left, common.style(), dry_run=dry_run))
