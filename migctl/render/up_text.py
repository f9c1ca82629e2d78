"""What `up` did, as a few lines or as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.views.up import UpView
from migctl.core.words import counted
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


def up_text(view: UpView, style: Style, *, simulated: str, quiet: bool, next_steps: Sequence[str] = ()) -> str:
    """The run in one line, its new jobs as a table, and what was left as it is.

    Args:
        next_steps: what to type next, a line each; before the warnings, which would hide it.
    """
    told = _told(view, style)
    lines = [f"{clean(view.run.name, style)}: {told}" + (f"  (simulated: {simulated})" if simulated else "")]
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
        for name in view.started
        if (record := view.records.get(name)) is not None
    ]
    if rows:
        lines += table(_COLUMNS, rows, style)
    for what, names in (("ended and removed", view.taken_out), ("left as they are", view.kept)):
        if names:
            lines.append(f"{what}: {', '.join(clean(name, style) for name in names)}")
    for line in waits_by_reason(view.waits, style):
        lines += hang("waiting:", line, style)
    for line in waits_by_reason(view.never, style):
        lines += hang("stopped:", line, style)
    lines += next_steps
    if view.notices:
        lines += ["", *notice_lines(view.notices, style)]
    return "\n".join(lines) + "\n"


def _told(view: UpView, style: Style) -> str:
    """What was done, or why nothing was."""
    done = [
        f"{counted(len(names), 'job')} {what}"
        for names, what in ((view.started, "started"), (view.taken_out, "removed"), (view.waits, "waiting"))
        if names
    ]
    if done:
        return ", ".join(done)
    bad = [r for name in view.kept if (r := view.records.get(name)) is not None and r.state.unsuccessful]
    if not bad:
        return "nothing to do: all jobs of the plan are there"
    return "nothing started; not run again: " + ", ".join(f"{clean(r.job, style)} ({r.state.value})" for r in bad)


def up_json(view: UpView) -> dict[str, object]:
    """`up --json`."""
    return {
        "version": 1,
        "run": view.run.name,
        "simulated": bool(view.run.nvml),
        "started": list(view.started),
        "kept": list(view.kept),
        "taken_out": list(view.taken_out),
        "waiting": [{"name": job, "reason": why} for job, why in view.waits.items()],
        "never": [{"name": job, "reason": why} for job, why in view.never.items()],
        "changed": list(view.changed),
        "removed": list(view.removed),
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
            for r in view.records.values()
        ],
        "warnings": [{"id": n.id, "message": n.message, "hint": n.hint} for n in view.notices],
    }
