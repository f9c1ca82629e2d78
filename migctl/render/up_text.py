"""What `up` did, as a few lines or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migctl.core.reconcile import Difference
from migctl.core.record import Record
from migctl.core.run import Run
from migctl.core.words import counted
from migctl.errors import Notice
from migctl.render.console import Style
from migctl.render.errors_text import notice_lines
from migctl.render.table import Cell, Column, table
from migctl.render.text import clean, hang
from migctl.render.waits import waits_by_reason

_COLUMNS = (
    Column(title="JOB", least=12, cut="middle"),
    Column(title="STATE"),
    Column(title="PROFILE", drop=2),
    Column(title="PLACE", drop=4),
    Column(title="CPUS", least=6),
    Column(title="WORKERS", right=True, drop=1),
)


def up_text(
    run: Run,
    records: Mapping[str, Record],
    started: Sequence[str],
    kept: Sequence[str],
    taken_out: Sequence[str],
    notices: Sequence[Notice],
    style: Style,
    *,
    simulated: str,
    quiet: bool,
    next_steps: Sequence[str] = (),
    waits: Mapping[str, str] | None = None,
) -> str:
    """The run in one line, its new jobs as a table, and what was left as it is.

    Args:
        kept: jobs of the plan that this call did not touch.
        taken_out: jobs that it ended and removed for good.
        next_steps: what to type next, a line each; before the warnings, which would hide it.
        waits: jobs that wait in the queue, and why.
    """
    told = _told(records, started, kept, taken_out, waits or {}, style)
    lines = [f"{clean(run.name, style)}: {told}" + (f"  (simulated: {simulated})" if simulated else "")]
    if quiet:
        return lines[0] + "\n"
    rows: list[list[Cell | str]] = [
        [
            clean(record.job, style),
            record.state.value,
            record.profile or "whole GPU",
            str(record.placement) if record.placement else "",
            str(record.cpus),
            str(record.num_workers),
        ]
        for name in started
        if (record := records.get(name)) is not None
    ]
    if rows:
        lines += table(_COLUMNS, rows, style)
    for what, names in (("ended and removed", taken_out), ("left as they are", kept)):
        if names:
            lines.append(f"{what}: {', '.join(clean(name, style) for name in names)}")
    for line in waits_by_reason(waits or {}, style):
        lines += hang("waiting:", line, style)
    lines += next_steps
    if notices:
        lines += ["", *notice_lines(notices, style)]
    return "\n".join(lines) + "\n"


def _told(
    records: Mapping[str, Record],
    started: Sequence[str],
    kept: Sequence[str],
    taken_out: Sequence[str],
    waits: Mapping[str, str],
    style: Style,
) -> str:
    """What was done, or why nothing was."""
    done = [
        f"{counted(len(names), 'job')} {what}"
        for names, what in ((started, "started"), (taken_out, "removed"), (waits, "waiting"))
        if names
    ]
    if done:
        return ", ".join(done)
    bad = [records[name] for name in kept if name in records and records[name].state.unsuccessful]
    if not bad:
        return "nothing to do: all jobs of the plan are there"
    return "nothing started; not run again: " + ", ".join(f"{clean(r.job, style)} ({r.state.value})" for r in bad)


def up_json(
    run: Run,
    records: Mapping[str, Record],
    started: Sequence[str],
    kept: Sequence[str],
    taken_out: Sequence[str],
    difference: Difference,
    notices: Sequence[Notice],
    waits: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """`up --json`."""
    return {
        "version": 1,
        "run": run.name,
        "simulated": bool(run.nvml),
        "started": list(started),
        "kept": list(kept),
        "taken_out": list(taken_out),
        "waiting": [{"name": job, "reason": why} for job, why in (waits or {}).items()],
        "changed": list(difference.changed),
        "removed": list(difference.removed),
        "jobs": [
            {
                "name": r.job,
                "state": r.state.value,
                "gpu_uuid": r.gpu_uuid,
                "mig_uuid": r.instance.mig_uuid if r.instance else None,
                "profile": r.profile,
                "placement": {"start": r.placement.start, "size": int(r.placement.size)} if r.placement else None,
                "cpus": str(r.cpus),
                "num_workers": r.num_workers,
                "container_id": r.container_id if r.runtime == "docker" else None,
                "pid": r.pid,
            }
            for r in records.values()
        ],
        "warnings": [{"id": n.id, "message": n.message, "hint": n.hint} for n in notices],
    }
