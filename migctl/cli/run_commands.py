"""The commands that change something for a whole run: up, down, stop, run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as replace_keys
from pathlib import Path
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import LONGEST_S, MOST_CORES, Argument, CommandBody, Option
from migctl.core.cluster.clusters import EngineName
from migctl.errors import PlanError

PlanFile = Annotated[
    Path | None, Argument(metavar="FILE", help="Plan file, - is standard input; default ./plan.yaml or ./migctl.yaml.")
]
PlanOption = Annotated[Path | None, Option("--file", "-f", help="The same as FILE.")]
WaitFor = Annotated[
    float,
    Option("--wait-for", metavar="S", least=0, most=LONGEST_S, help="Wait up to S seconds for others to let go."),
]
Grace = Annotated[
    float | None,
    Option(
        "--timeout",
        "-t",
        metavar="S",
        least=0,
        most=LONGEST_S,
        help="Seconds between SIGTERM and SIGKILL; default: each job's.",
    ),
]


def up(
    common: Common,
    file: PlanFile = None,
    file_option: PlanOption = None,
    wait: Annotated[bool, Option("--wait", help="Wait until all jobs have ended; exit 8 if one failed.")] = False,
    attach: Annotated[bool, Option("--attach", help="Show the logs of all jobs until they have ended.")] = False,
    detach: Annotated[bool, Option("--detach", "-d", help="Return when all jobs run (the default).")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    replace: Annotated[
        bool, Option("--replace", help="Replace changed jobs, remove those no longer in the plan.")
    ] = False,
    retry: Annotated[bool, Option("--retry", help="Run failed, stopped and lost jobs again.")] = False,
    enable_mig: Annotated[
        bool, Option("--enable-mig", help="Turn MIG mode on where it is off (idle GPUs only).")
    ] = False,
    wait_for: WaitFor = 0.0,
    engine: Annotated[
        EngineName | None,
        Option("--engine", help="Where the jobs run: local, slurm or kubernetes; overrides the plan."),
    ] = None,
) -> None:
    """Make the GPU instances, start the jobs; what runs already is left alone."""
    from migctl.cli.aside import Aside
    from migctl.cli.plans import STANDARD_INPUT, for_this_machine, one_of, read_plan

    if detach and (wait or attach):
        raise PlanError("usage", "--detach contradicts --wait and --attach")
    plan_file = one_of(file, file_option)
    elsewhere = engine is not None and engine is not EngineName.LOCAL
    reading = Aside(
        lambda: read_plan(common, common.environ(), plan_file, engine=engine),
        here=elsewhere or plan_file == STANDARD_INPUT,
    )
    from migctl.engine.upoptions import UpOptions

    options = UpOptions(replacing=replace, retry=retry, wait_for_s=wait_for)
    session = common.session()
    if elsewhere:
        from migctl.cli.hand_to_cluster import hand_over

        hand_over(common, session, reading.result(), options, dry_run=dry_run, wait=wait, attach=attach)
        return
    from migctl.cli.up import bring_up

    session.load()
    plan = reading.result()
    if plan.engine is not EngineName.LOCAL:
        from migctl.cli.hand_to_cluster import hand_over

        hand_over(common, session, plan, options, dry_run=dry_run, wait=wait, attach=attach)
        return
    plan = replace_keys(for_this_machine(plan), enable_mig=enable_mig or plan.enable_mig)
    bring_up(common, session, plan, options, dry_run=dry_run, wait=wait, attach=attach)


def down(
    common: Common,
    run: Annotated[str | None, Argument(metavar="RUN", help="A run's name or its plan file.")] = None,
    everything: Annotated[bool, Option("--all", help="All of your runs.")] = False,
    timeout: Grace = None,
    wait_for: WaitFor = 0.0,
) -> None:
    """End the jobs and remove exactly what `up` made."""
    from migctl.cli.down import take_down

    take_down(common, run, everything=everything, grace_s=timeout, wait_for_s=wait_for)


def stop(
    common: Common,
    jobs: Annotated[list[str], Argument(metavar="JOB", help="Jobs, RUN/JOB, or a run.")],
    timeout: Grace = None,
) -> None:
    """End jobs; their containers, instances and logs stay until `down`."""
    from migctl.cli.down import stop_jobs

    stop_jobs(common, jobs, grace_s=timeout)


def run_one(
    common: Common,
    command: Annotated[list[str], Argument(metavar="COMMAND", help="The program and its arguments, after --.")],
    profile: Annotated[
        str | None,
        Option("--profile", "-p", help="GPU instance profile, e.g. 1g.5gb; default: the largest that fits."),
    ] = None,
    image: Annotated[
        str | None, Option("--image", help="Run in this image; without it: here, in this environment.")
    ] = None,
    interactive: Annotated[
        bool, Option("--interactive", "-i", help="Stay attached until it ends, then clean up.")
    ] = False,
    name: Annotated[
        str | None, Option("--name", help="Name of the run and the job; default: from the command.")
    ] = None,
    cpus: Annotated[
        int | None, Option("--cpus", least=1, most=MOST_CORES, help="Physical cores; default: by the rule.")
    ] = None,
    gpu: Annotated[str | None, Option("--gpu", help="Index, UUID or PCI id; needed where several would do.")] = None,
) -> None:
    """Run one command on its own GPU instance and cores; no plan file needed."""
    from migctl.cli.one_job import run_command

    run_command(common, command, profile=profile, image=image, interactive=interactive, name=name, cpus=cpus, gpu=gpu)


COMMANDS: Mapping[str, CommandBody] = {"up": up, "down": down, "stop": stop, "run": run_one}
