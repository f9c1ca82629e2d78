"""Whether a plan may go on with the run of its name: it has to be made from the same file, and to be in the same place."""

from __future__ import annotations

from migctl.core.cluster.clusters import EngineName
from migctl.core.plan import Plan
from migctl.core.runs.run import Run
from migctl.errors import PlanError


def check_run(run: Run | None, plan: Plan) -> None:
    """Nothing where there is no such run yet.

    Raises:
        PlanError: another plan made it, or its jobs are somewhere else.
    """
    if run is None:
        return
    if run.engine != plan.engine:
        raise PlanError(
            "run-elsewhere",
            f"the run {plan.name} is on {'this machine' if run.engine == EngineName.LOCAL else run.engine}",
            where=f"run {plan.name}",
            hint=f"migctl down {plan.name}; or give this plan another name:",
        )
    if run.plan_path != plan.path:
        raise PlanError(
            "run-name-taken",
            f"the run {plan.name} was made from {run.plan_path or 'the command line'}",
            where=plan.path or None,
            hint=f"give this plan another name:, or end the other run: migctl down {plan.name}",
        )
