"""The command that measures: tune."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import LONGEST_S, MOST_CORES, Argument, CommandBody, Option


def tune(
    common: Common,
    words: Annotated[
        list[str] | None,
        Argument(metavar="FILE or JOB", help="Plan file and job; default ./plan.yaml and its only job."),
    ] = None,
    file_option: Annotated[Path | None, Option("--file", "-f", help="The same as FILE.")] = None,
    write: Annotated[bool, Option("--write", help="Put the number into the plan file.")] = False,
    seconds: Annotated[
        float,
        Option(
            "--seconds", metavar="S", least=0, most=LONGEST_S, help="Measure each number of workers at most so long."
        ),
    ] = 20.0,
    most: Annotated[
        int | None, Option("--most", least=1, most=MOST_CORES, help="Try no more workers than this.")
    ] = None,
    probe: Annotated[
        bool, Option("--probe", help="Measure a stand-in that reads and decodes, not the job's command.")
    ] = False,
) -> None:
    """Measure samples/s over numbers of workers with the job's own cores and instance, and recommend one."""
    from migctl.cli.tune import tune_job
    from migctl.engine.tune import TuneOptions

    options = TuneOptions(measure_s=seconds, most=most, probe=probe)
    tune_job(common, words or [], file_option, options, writing=write)


COMMANDS: Mapping[str, CommandBody] = {"tune": tune}
