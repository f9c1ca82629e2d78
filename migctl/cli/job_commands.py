"""The commands for single jobs: logs, wait, exec, restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import LONGEST_S, Argument, CommandBody, Option
from migctl.cli.run_commands import Grace


def logs(
    common: Common,
    jobs: Annotated[
        list[str] | None, Argument(metavar="JOB", help="Jobs, RUN/JOB, or a run; default: all of it.")
    ] = None,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on until the jobs have ended.")] = False,
    tail: Annotated[int | None, Option("--tail", "-n", least=0, help="Only the last N lines of each.")] = None,
    since: Annotated[
        str | None,
        Option(
            "--since",
            metavar="T",
            help="Only what is younger: 10m, 2h, or a date. Lines of processes have no times: a log whole, or not at all.",
        ),
    ] = None,
    timestamps: Annotated[bool, Option("--timestamps", "-t", help="Show times (containers).")] = False,
) -> None:
    """Print the jobs' output, also of a run that is undone; several are interleaved and named."""
    from migctl.cli.jobs import show_logs

    show_logs(common, jobs or [], follow=follow, tail=tail, since=since, timestamps=timestamps)


def wait(
    common: Common,
    jobs: Annotated[
        list[str] | None, Argument(metavar="RUN or JOB", help="What to wait for; default: the run.")
    ] = None,
    timeout: Annotated[
        float | None,
        Option("--timeout", metavar="S", least=0, most=LONGEST_S, help="Give up after S seconds (exit 5)."),
    ] = None,
) -> None:
    """Wait until the jobs have ended; exit 8 when one failed."""
    from migctl.cli.jobs import wait_for

    wait_for(common, jobs or [], timeout_s=timeout)


def execute(
    common: Common,
    job: Annotated[str, Argument(metavar="JOB", help="A job or RUN/JOB.")],
    command: Annotated[list[str] | None, Argument(metavar="COMMAND", help="Default: a shell.")] = None,
) -> None:
    """Run a command beside a job: in its container, or with its cores and its instance."""
    from migctl.cli.jobs import run_beside

    run_beside(common, job, command or [])


def restart(
    common: Common,
    jobs: Annotated[list[str], Argument(metavar="JOB", help="Jobs, RUN/JOB, or a run.")],
    timeout: Grace = None,
) -> None:
    """End jobs and run each again, as its next attempt, on its instance and cores."""
    from migctl.cli.restart import restart_jobs

    restart_jobs(common, jobs, grace_s=timeout)


COMMANDS: Mapping[str, CommandBody] = {"logs": logs, "wait": wait, "exec": execute, "restart": restart}
