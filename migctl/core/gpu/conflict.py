"""A conflict in words: what would be needed, what there is, and who is in the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from migctl.core.gpu.placement import Conflict, Demand, Room
from migctl.errors import Busy, DoesNotFit, MigctlError

_NAMED = 8
"""Names listed before "and N more"."""


def explain(
    conflict: Conflict, demands: Sequence[Demand], rooms: Sequence[Room], *, run: str | None = None
) -> MigctlError:
    """The error for a conflict: a job never fits (exit 3), only others are in the way (5), or it is too much at once (3).

    Args:
        conflict: what `place` found.
        demands: what `place` was given.
        rooms: what `place` was given.
        run: the run's name, so that its own jobs (`run/job`) are not called others.
    """
    if conflict.never:
        return DoesNotFit(
            "never-fits",
            f"{_listed(conflict.never)} can never run on the selected GPUs, not even alone on an empty one",
            hint="another profile or GPU; migctl profiles lists what there is",
            data=_data(conflict),
        )
    if conflict.blocked_by:
        return _blocked(conflict, rooms, run)
    needs, has = conflict.needs, conflict.has
    reason = f"needs {needs.memory} memory slices of {has.memory} and {needs.compute} compute slices of {has.compute}"
    limits = _limits(demands, rooms)
    if limits:
        reason += f"; {', '.join(limits)}"
    elif needs.memory <= has.memory and needs.compute <= has.compute:
        reason += ", but no layout holds all of them side by side"
    return DoesNotFit(
        "does-not-fit",
        f"not all jobs can run at once: together the plan {reason}. "
        f"The smallest set in conflict: {_listed(conflict.jobs)}",
        hint="smaller profiles, fewer jobs at once, or more GPUs; migctl plan shows the layout",
        data=_data(conflict),
    )


def _blocked(conflict: Conflict, rooms: Sequence[Room], run: str | None) -> MigctlError:
    index = {room.gpu.uuid: room.gpu.index for room in rooms}
    holders = [
        f"{blocker.occupied.owner} holds {blocker.occupied.placement} of GPU {index[blocker.gpu_uuid]}"
        for blocker in conflict.blocked_by
    ]
    reason = (
        f"{_listed(conflict.jobs)} would fit on empty GPUs, but not beside what is there: "
        f"{'; '.join(holders)} (start:size in memory slices)"
    )
    if run is not None and all(blocker.occupied.owner.startswith(f"{run}/") for blocker in conflict.blocked_by):
        return DoesNotFit(
            "no-room-beside-own-jobs",
            reason,
            hint="they start when these jobs have ended, or: migctl stop JOB",
            data=_data(conflict),
        )
    return Busy(
        "blocked-by-others",
        reason,
        hint="try again when they have ended; migctl status shows whose they are",
        data=_data(conflict),
    )


def _limits(demands: Sequence[Demand], rooms: Sequence[Room]) -> list[str]:
    """Profiles of which more are wanted than the GPUs can ever have, where every job that wants one can get no other."""
    wanted: Counter[str] = Counter()
    for demand in demands:
        names = {profile.name for profile in demand.options.values()}
        if len(names) == 1:
            wanted.update(names)
    limits: list[str] = []
    for name, count in wanted.items():
        most = sum(profile.max_instances for room in rooms if (profile := room.gpu.profile_named(name)) is not None)
        if count > most:
            limits.append(f"{name} fits at most {'once' if most == 1 else f'{most} times'}")
    return limits


def _data(conflict: Conflict) -> dict[str, object]:
    return {
        "jobs": list(conflict.jobs),
        "never": list(conflict.never),
        "needs": {"memory_slices": conflict.needs.memory, "compute_slices": conflict.needs.compute},
        "has": {"memory_slices": conflict.has.memory, "compute_slices": conflict.has.compute},
        "owners": sorted({blocker.occupied.owner for blocker in conflict.blocked_by}),
        "blocked_by": [
            {
                "gpu_uuid": blocker.gpu_uuid,
                "start": blocker.occupied.placement.start,
                "size": blocker.occupied.placement.size,
                "owner": blocker.occupied.owner,
            }
            for blocker in conflict.blocked_by
        ],
    }


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
