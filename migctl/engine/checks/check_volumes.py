"""What `check` says about the folders that a plan's containers write to: as whom they do, and whether that user may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from migctl.core.others.idmap import IdMap
from migctl.core.plan import Job, Plan
from migctl.core.views.findings import Finding, Level
from migctl.core.words import counted
from migctl.host.caller import Caller
from migctl.host.writable import unwritable
from migctl.runtimes.engine_ids import ROOTLESS_USER
from migctl.runtimes.facts import RuntimeFacts


def volume_findings(plan: Plan, caller: Caller, facts: RuntimeFacts) -> Iterator[Finding]:
    """One for each folder and user that do not go together; nothing is said of users whose numbers are not known here."""
    if facts.ids is None or not facts.local:
        return
    default = ROOTLESS_USER if facts.rootless else f"{caller.uid}:{caller.gid}"
    told: dict[tuple[str, int, str], list[str]] = {}
    inside: dict[int, int] = {}
    for job in plan.jobs:
        who = _ids(job, default, facts.ids)
        if who is None:
            continue
        own_uid, uid, gids = who
        inside[uid] = own_uid
        for volume in job.volumes:
            if volume.kind != "bind" or volume.read_only or volume.source is None:
                continue
            why = unwritable(Path(volume.source), uid, gids)
            if why is not None:
                told.setdefault((volume.source, uid, why), []).append(job.name)
    for (source, uid, reason), jobs in told.items():
        names = ", ".join(jobs[:4]) + (f" and {counted(len(jobs) - 4, 'more job')}" if len(jobs) > 4 else "")
        shifted = f", which is uid {inside[uid]} in the container" if inside[uid] != uid else ""
        yield Finding(
            id="volume-not-writable",
            level=Level.WARNING,
            message=f"{names}: uid {uid}{shifted}, cannot write to {source}: it {reason}",
            hint=f"mount it read-only ({source}:…:ro), or let uid {uid} write there: setfacl -m u:{uid}:rwx {source}",
        )


def _ids(job: Job, default: str, ids: IdMap) -> tuple[int, int, frozenset[int]] | None:
    """Uid inside, uid outside and gids outside of a container; `None` where names of the image would have to be known."""
    name, _, group = (job.user or default).partition(":")
    if not name.isdecimal() or not (group or "0").isdecimal():
        return None
    uid = ids.uids.outside(int(name))
    groups = [int(group or 0), *(int(g) for g in job.group_add if g.isdecimal())]
    gids = frozenset(gid for g in groups if (gid := ids.gids.outside(g)) is not None)
    return (int(name), uid, gids) if uid is not None else None
