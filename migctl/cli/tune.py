"""`tune`: what it asks of the engine, what it prints, and the one number that it may write."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from migctl import planfile
from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.cli.plans import STANDARD_INPUT, load_plan
from migctl.cli.signals import cancelling
from migctl.core.seeing.tuning import Point
from migctl.engine.tune import TuneOptions, chosen, run_name, tune
from migctl.errors import PlanError
from migctl.render.tune_text import point_line, tune_json, tune_text


def tune_job(common: Common, words: list[str], file: Path | None, options: TuneOptions, *, writing: bool) -> None:
    """Measure, print, and with `--write` put the recommendation into the plan."""
    path, job = _meant(words, file)
    if options.measure_s <= 0:
        raise PlanError("usage", "--seconds is more than 0", hint="migctl tune --help")
    if writing and path == STANDARD_INPUT:
        raise PlanError("usage", "--write needs a file: the plan comes from standard input")
    if writing and options.probe:
        raise PlanError(
            "usage",
            "--probe measures a stand-in, whose best number of workers is not the job's",
            hint="tune without --probe, or without --write",
        )
    before = _bytes(path)
    session = common.session()
    if session.root != Path("/"):
        raise PlanError("other-root", "MIGCTL_ROOT points to another machine's tree: nothing can be measured there")
    plan = load_plan(common, session.environ, path)

    def told(point: Point) -> None:
        if not (common.quiet or common.json):
            sys.stderr.write(f"{point_line(point)}\n")
            sys.stderr.flush()

    again = f"`migctl down {run_name(plan, chosen(plan, job))}` removes what is left."
    with cancelling("ending the measurement; Ctrl-C again stops at once", again) as cancel:
        view = tune(session, plan, job, options, told, cancel)
    if writing and view.probe:
        raise PlanError(
            "probe-only",
            f"{view.job} has no command, so a stand-in was measured: its best number of workers is not the job's",
            hint="give the job a command, or tune without --write",
        )
    if writing:
        from migctl.host.replace import replace_file
        from migctl.planfile.edit import with_num_workers

        after = with_num_workers(before, str(path), view.origin, view.recommended)
        replace_file(path, before, after)
        view = replace(view, written=str(path))
    if common.json:
        write_json(tune_json(view))
    else:
        write(tune_text(view, common.style()))


def _meant(words: list[str], file: Path | None) -> tuple[Path, str | None]:
    """`[FILE] [JOB]`: a single word is the job's name unless a file of that name is there, or it looks like one."""
    if file is not None:
        if len(words) > 1:
            raise PlanError("usage", "--file names the plan: after it only a job's name may follow")
        return file, words[0] if words else None
    if len(words) > 2:
        raise PlanError("usage", f"tune takes a plan file and a job's name, got {len(words)} words")
    if len(words) == 2:
        return Path(words[0]), words[1]
    if words and not Path(words[0]).is_file() and Path(words[0]).suffix not in (".yaml", ".yml", ".json"):
        return planfile.find(Path()), words[0]
    return (Path(words[0]), None) if words else (planfile.find(Path()), None)


def _bytes(path: Path) -> bytes:
    """The file before anything is measured; what cannot be read is told when the plan is loaded."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
