"""`resume` and `adopt`: what they ask of the engine and what they print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.errors import PlanError


def resume_run(
    common: Common, word: str | None, *, failed: bool, dry_run: bool, enable_mig: bool, wait_for_s: float
) -> None:
    """`up` for the jobs that the run has, and lost ones run again."""
    from migctl.cli.plans import load_plan
    from migctl.cli.up import bring_up
    from migctl.core.choices import RuntimeName
    from migctl.engine.decide import UpOptions
    from migctl.engine.targets import find_run

    session = common.session()
    with session.ledger(write=False) as ledger:
        run = find_run(ledger, word, Path.cwd())
        there = {record.job for record in ledger.records(run.name)}
        submission = ledger.submissions.submission(run.name)
    if submission is not None:
        # The plan as it was submitted, in the environment that it was submitted in: the file may be another by now, or gone.
        plan = replace(submission.plan, enable_mig=enable_mig or submission.plan.enable_mig)
        session.environ = {**dict(submission.environ), **_own(session.environ)}
        options = UpOptions(retry=failed, resume=True, wait_for_s=wait_for_s)
        bring_up(common, session, plan, options, dry_run=dry_run, wait=False, attach=False)
        return
    if not run.plan_path:
        raise PlanError(
            "no-plan-file",
            f"the run {run.name} was made on the command line, and its environment is recorded nowhere",
            where=f"run {run.name}",
            hint=f"migctl down {run.name}, then the same migctl run again",
        )
    plan = load_plan(replace(common, runtime=RuntimeName(run.runtime)), session.environ, Path(run.plan_path))
    jobs = tuple(job for job in plan.jobs if job.name in there)
    plan = replace(plan, name=run.name, jobs=jobs, enable_mig=enable_mig or plan.enable_mig)
    options = UpOptions(retry=failed, resume=True, wait_for_s=wait_for_s)
    bring_up(common, session, plan, options, dry_run=dry_run, wait=False, attach=False)


def _own(environ: Mapping[str, str]) -> dict[str, str]:
    """What tells who calls and where everything lies: of this call, not of the one that submitted."""
    return {name: value for name, value in environ.items() if name.startswith(("MIGCTL_", "SUDO_"))}


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
