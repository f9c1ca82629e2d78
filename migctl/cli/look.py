"""`check`, `plan` and `status`: what they ask of the engine and what they print."""

from __future__ import annotations

from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_json, write_result
from migctl.core.choices import RuntimeName
from migctl.core.runs.record import JobState
from migctl.core.views.status import StatusView
from migctl.core.words import counted
from migctl.errors import Drift, HostError, PlanError


def show_check(common: Common, file: Path | None) -> None:
    """Print the findings; a failure is exit 4."""
    from migctl.cli.plans import load_plan
    from migctl.core.views.findings import Level
    from migctl.engine.checks.check import check
    from migctl.render.check_text import check_text
    from migctl.render.json_tables import check_json

    session = common.session()
    here = any((Path.cwd() / name).exists() for name in ("plan.yaml", "migctl.yaml"))
    plan = load_plan(common, session.environ, file) if file is not None or here else None
    runtime = common.runtime or (plan.runtime if plan is not None else RuntimeName.DOCKER)
    findings = check(session, runtime, plan)
    if common.json:
        write_json(check_json(findings, simulated=session.simulated))
    else:
        write(check_text(findings, common.style(), simulated=session.nvml))
    if any(finding.level is Level.FAILURE for finding in findings):
        raise SystemExit(HostError.exit_code)


def show_plan(
    common: Common, file: Path | None, *, on: str | None, cores: int | None, root: Path | None, everything: bool
) -> None:
    """Print the answer; a job that never fits is exit 3."""
    from migctl.cli.plans import load_plan
    from migctl.engine.planning import Elsewhere, view
    from migctl.render.json_plan import plan_json
    from migctl.render.plan_text import plan_text

    session = common.session()
    plan = load_plan(common, session.environ, file)
    answer = view(session, plan, Elsewhere(boards=on, cores=cores, root=root))
    if common.json:
        write_json(plan_json(answer))
    else:
        write(plan_text(answer, common.style(), everything=everything))


def show_status(common: Common, word: str | None, *, check_drift: bool, everything: bool, watch: bool) -> None:
    """Print what is there; drift is exit 7 with `--check`."""
    if watch and check_drift:
        raise PlanError("usage", "--check answers once, --watch goes on", hint="migctl status --check")
    session = common.session()
    names: list[str] | None = None
    if word is not None:
        from migctl.engine.targets import find_run

        with session.ledger(write=False) as ledger:
            names = [find_run(ledger, word, Path.cwd()).name]
    if watch:
        from migctl.cli import watching

        watching.watch(common, names, everything=everything)
        return
    from migctl.engine.status import status

    view = status(session, names, ended=everything)
    drift: Drift | None = None
    if check_drift and view.drift:
        message = f"{counted(len(view.drift), 'difference')}: {'; '.join(view.drift[:5])}"
        drift = Drift("drift", message, hint=_way_back(view))
    if common.json:
        from migctl.render.json_status import status_json

        write_result(status_json(view), drift)
        return
    from migctl.render.status_text import status_text

    write(status_text(view, common.style(), everything=everything))
    if drift is not None:
        raise drift


def _way_back(view: StatusView) -> str:
    """The command that makes the machine what was recorded; a plain `up` does not run again what is lost."""
    lost = [run for run in view.runs if any(job.state is JobState.LOST for job in run.jobs)]
    if not lost:
        return "migctl up, or migctl down"
    return "; ".join(
        (f"migctl resume {run.name} runs what is lost again, or " if run.plan_path else "") + f"migctl down {run.name}"
        for run in lost
    )
