"""What `up` handed over to a cluster, as a few lines or as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.cluster.clusterchoice import Choice
from migctl.core.cluster.clusterrun import ClusterJob, ClusterRun
from migctl.core.cluster.clusterturns import Turn
from migctl.core.runs.run import Run
from migctl.core.words import counted
from migctl.errors import Notice
from migctl.render.console import Style
from migctl.render.errors_text import notice_lines
from migctl.render.json_values import VERSION, Json, notice_json
from migctl.render.table import Cell, Column, table
from migctl.render.text import clean

_COLUMNS = (
    Column(title="JOB", least=12, cut="middle"),
    Column(title="JOBS", right=True),
    Column(title="ID", least=8, cut="middle"),
    Column(title="PROFILE", drop=3),
    Column(title="CPUS", right=True),
    Column(title="WORKERS", right=True, drop=1),
    Column(title="AFTER", drop=2, least=12),
)
_NAMES = {"slurm": "Slurm", "kubernetes": "Kubernetes"}


def handed_text(
    run: Run,
    cluster: ClusterRun,
    turns: Sequence[Turn],
    choice: Choice,
    notices: Sequence[Notice],
    style: Style,
    *,
    quiet: bool,
    would: bool = False,
    begun: Sequence[str] = (),
) -> str:
    """The run in one line, what was handed over as a table, and what was left as it is.

    Args:
        cluster: as it is afterwards.
        turns: what was handed over.
        would: it was only looked at.
        begun: jobs that had waited for others, and were started now.
    """
    where = f"{_NAMES.get(run.engine, run.engine)}{f' ({clean(cluster.place, style)})' if cluster.place else ''}"
    done = [f"{counted(len(choice.handed), 'job')} handed over to {where}"] if choice.handed else []
    done += [f"{counted(len(choice.taken_out), 'job')} taken out"] if choice.taken_out else []
    done += [f"{counted(len(begun), 'job')} started"] if begun else []
    told = ", ".join(done) or f"nothing to do: all jobs of the plan are on {where}"
    if would and done:
        told = f"would be: {told}"
    lines = [f"{clean(run.name, style)}: {told}"]
    if quiet:
        return lines[0] + "\n"
    rows: list[list[Cell | str]] = [_row(turn, cluster, style) for turn in turns]
    lines += table(_COLUMNS, rows, style) if rows else []
    if begun:
        lines.append(f"their turn had come: {', '.join(clean(name, style) for name in begun)}")
    if choice.kept and done:
        lines.append(f"left as they are: {', '.join(clean(name, style) for name in choice.kept)}")
    if notices:
        lines += ["", *notice_lines(notices, style)]
    return "\n".join(lines) + "\n"


def _row(turn: Turn, cluster: ClusterRun, style: Style) -> list[Cell | str]:
    group = turn.group
    job = cluster.job(group.first.name)
    after = [clean(link.group, style) + (f"[{link.index}]" if link.index is not None else "") for link in turn.after]
    name = group.name if group.array else group.first.name
    return [
        clean(name, style),
        str(len(group.members)) if group.array else "",
        clean(job.unit, style) if job is not None else "",
        group.profile or "whole GPU",
        str(group.cpus),
        str(group.num_workers),
        ", ".join(after),
    ]


def handed_json(
    run: Run,
    cluster: ClusterRun,
    choice: Choice,
    notices: Sequence[Notice],
    *,
    would: bool = False,
    begun: Sequence[str] = (),
) -> Json:
    """`up --json` for a plan on a cluster."""
    return {
        "version": VERSION,
        "run": run.name,
        "engine": run.engine,
        "cluster": cluster.place or None,
        "dry_run": would,
        "handed_over": list(choice.handed),
        "kept": list(choice.kept),
        "begun": list(begun),
        "taken_out": list(choice.taken_out),
        "changed": list(choice.changed),
        "removed": list(choice.removed),
        "jobs": [_job(job) for job in cluster.jobs],
        "warnings": [notice_json(notice) for notice in notices],
    }


def _job(job: ClusterJob) -> Json:
    return {
        "name": job.name,
        "state": job.state.value,
        "cluster_id": (job.unit if job.index is None else f"{job.unit}_{job.index}") or None,
        "attempt": job.attempt,
        "profile": job.profile,
        "cpus_asked": job.cpus,
        "num_workers": job.num_workers,
    }
