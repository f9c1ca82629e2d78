"""A conflict in words: what would be needed, what there is, and who is in the way."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.placement import Conflict, Demand, Room
from migctl.errors import Busy, DoesNotFit, MigctlError


def explain(conflict: Conflict, demands: Sequence[Demand], rooms: Sequence[Room]) -> MigctlError:
    """The error for a conflict: never (3), blocked only by others (5), or too much at once (3)."""
    data: dict[str, object] = {"jobs": list(conflict.jobs)}
    if conflict.never:
        names = ", ".join(conflict.never)
        return DoesNotFit(
            "never-fits",
            f"{names} can never run on the selected GPUs, not even alone on an empty one",
            hint="another profile or GPU; migctl profiles lists what there is",
            data=data,
        )
    if conflict.blocked_by:
        index = {room.gpu.uuid: room.gpu.index for room in rooms}
        holders = [
            f"{blocker.occupied.owner} holds {blocker.occupied.placement} of GPU {index[blocker.gpu_uuid]}"
            for blocker in conflict.blocked_by
        ]
        data["owners"] = sorted({blocker.occupied.owner for blocker in conflict.blocked_by})
        return Busy(
            "blocked-by-others",
            f"{_listed(conflict.jobs)} would fit on empty GPUs, but not beside what is there: {'; '.join(holders)} "
            "(start:size in memory slices)",
            hint="try again when they have ended; migctl status shows whose they are",
            data=data,
        )
    needs, has = conflict.needs, conflict.has
    gpus = "GPU has" if len({uuid for d in demands for uuid in d.options}) == 1 else "GPUs have"
    parts = []
    if needs.memory > has.memory:
        parts.append(f"needs {needs.memory} memory slices of {has.memory}")
    if needs.compute > has.compute:
        parts.append(f"needs {needs.compute} compute slices of {has.compute}")
    if not parts:
        parts.append(
            f"needs {needs.memory} memory slices of {has.memory} and {needs.compute} compute slices of {has.compute}, "
            f"but the {gpus} no places that hold them side by side"
        )
    return DoesNotFit(
        "does-not-fit",
        f"not all jobs can run at once: together the plan {' and '.join(parts)}. "
        f"The smallest set in conflict: {_listed(conflict.jobs)}",
        hint="smaller profiles, fewer jobs at once, or more GPUs; migctl plan shows the layout",
        data=data,
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
