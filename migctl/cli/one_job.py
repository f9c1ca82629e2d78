"""`run`: a plan of one job from the command line."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.signals import detaching
from migctl.core.choices import RuntimeName
from migctl.core.runs.run import Run
from migctl.engine.session import Session
from migctl.errors import PlanError


def run_command(
    common: Common,
    command: Sequence[str],
    *,
    profile: str | None,
    image: str | None,
    interactive: bool,
    name: str | None,
    cpus: int | None,
    gpu: str | None,
) -> None:
    """Start it; attached, also wait for its end and remove what was made."""
    from migctl import planfile
    from migctl.cli.down import take_down
    from migctl.cli.up import bring_up, start
    from migctl.engine.upoptions import UpOptions

    if interactive and common.json:
        raise PlanError("usage", "--interactive shows the job's output, --json one object", hint="migctl run --json")
    session = common.session()
    here = Path.cwd()
    runtime = common.runtime or (RuntimeName.DOCKER if image is not None else RuntimeName.PROCESS)
    keys: dict[str, planfile.Value] = {"command": list(command), "image": image, "profile": profile, "cpus": cpus}
    if profile is None and gpu is None:
        keys["instance"] = allocated(session.environ)
    if image is not None:
        keys |= {"volumes": [f"{here}:{here}"], "working_dir": str(here)}
    plan = planfile.one_job(
        folder=here,
        environ=session.environ,
        name=name,
        plan={"runtime": runtime.value, "gpu": gpu},
        **{key: value for key, value in keys.items() if value is not None},
    )
    if not interactive:
        steps = (
            f"migctl logs -f {plan.name}   follows it",
            f"migctl down {plan.name}   removes it: it stays until then",
        )
        bring_up(common, session, plan, UpOptions(), dry_run=False, wait=False, attach=False, next_steps=steps)
        return
    quiet = Common(quiet=True, no_color=common.no_color, nvml=common.nvml, state_dir=common.state_dir)
    result = start(quiet, session, plan, UpOptions())
    try:
        code = follow_to_end(session, result.run)
    finally:
        take_down(quiet, plan.name, everything=False, grace_s=None)
    if code:
        raise SystemExit(code)


def allocated(environ: Mapping[str, str]) -> str | None:
    """The MIG device of the batch job that this is called in, if it has exactly one: Slurm gave that, and no other may be used."""
    device = environ.get("CUDA_VISIBLE_DEVICES", "")
    return device if environ.get("SLURM_JOB_ID") and device.startswith("MIG-") and "," not in device else None


def follow_to_end(session: Session, run: Run) -> int:
    """Show the one job's output until it ends; its exit code, or 128 + the signal's number as a shell gives it."""
    from migctl.engine.follow import read_logs, wait

    with detaching(None, f"interrupted; {run.name} is ended and removed") as cancel:
        for _, line in read_logs(session, run, (), follow=True, tail=None, timestamps=False, since=None, cancel=cancel):
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
        (record,) = wait(session, run, (), timeout_s=None).values()
    return record.exit_code if record.exit_code is not None else 1
