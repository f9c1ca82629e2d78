"""Where the machine differs from what was recorded, and what a restart of it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from migctl.core.cpu.pinning import Pinning
from migctl.core.runs.observed import Observed
from migctl.core.runs.ownership import Standing, standing
from migctl.core.runs.record import JobState, Record
from migctl.core.runs.settle import RESTARTED, lost_by_restart
from migctl.core.words import counted
from migctl.errors import Notice
from migctl.runtimes.bare import Bare


def differences(
    before: Mapping[str, Record], settled: Sequence[Record], observed: Observed, pinned: Mapping[str, Pinning]
) -> Iterator[str]:
    """Every difference of one run, in words.

    Args:
        before: its records as they were written, by job.
        settled: the same, brought up to date with what was observed.
        pinned: `run/job` → its processes against its cpuset, where they are seen.
    """
    for record in settled:
        name = f"{record.run}/{record.job}"
        old = before[record.job]
        match standing(old.instance, observed):
            case Standing.GONE:
                since = f": {RESTARTED}" if old.boot_id != observed.boot_id else ""
                yield f"{name}: its GPU instance is gone{since}"
            case Standing.TAKEN:
                yield f"{name}: another GPU instance is in the place of its own"
            case Standing.HALF:
                yield f"{name}: its GPU instance has no compute instance"
            case Standing.NONE | Standing.OURS | Standing.UNKNOWN:
                pass
        if Bare.of(record.container_id) is not None:
            yield f"{name}: {record.reason}"
        if record.state is JobState.LOST:
            yield f"{name}: lost ({record.reason})"
        if name in pinned:
            yield from (f"{name}: {f.message}; {f.hint}" for f in pinned[name].findings if f.drift)


def after_restart(
    run: str, before: Mapping[str, Record], settled: Sequence[Record], observed: Observed
) -> Notice | None:
    """What the machine's restart took from a run, and how it comes back; `None` where it took nothing that is missed."""
    instances = len(
        {
            (old.instance.gpu_uuid, old.instance.gi_id, old.instance.boot_id)
            for old in before.values()
            if old.instance is not None and not old.instance.foreign and old.instance.boot_id != observed.boot_id
        }
    )
    lost = [record.job for record in settled if lost_by_restart(record)]
    units = sum(before[r.job].container_id is not None and r.container_id is None for r in settled)
    if not lost and not instances:
        return None
    used = {record.gpu_uuid for record in settled if record.profile is not None}
    off = [gpu for gpu in observed.gpus if gpu.uuid in used and gpu.mig is not None and not gpu.mig.current]
    gone = [f"the MIG mode of GPU {gpu.index}" for gpu in off]
    gone += [counted(instances, "GPU instance")] if instances else []
    gone += [counted(units, "process or container", "processes or containers")] if units else []
    jobs = f"; lost: {', '.join(lost[:8])}{' …' if len(lost) > 8 else ''}" if lost else ""
    return Notice(
        "restarted",
        f"{RESTARTED} since {run} was started. Gone with it: {', '.join(gone) or 'its running jobs'}{jobs}",
        hint=f"migctl resume {run}{' --enable-mig' if off else ''}" if lost else f"migctl down {run}",
        where=f"run {run}",
    )


def taken_over(records: Sequence[Record], observed: Observed) -> tuple[Notice, ...]:
    """The instances that are others' by now, although records of ours name them: `down` has left them alone."""
    return tuple(
        Notice(
            "instance-taken",
            f"GPU instance {record.instance.gi_id}, once of {record.job}, is not what migctl made any more: it is left alone",
            hint="migctl status shows it; whoever made it removes it: sudo nvidia-smi mig -lgi",
            where=f"job {record.job}",
        )
        for record in records
        if record.instance is not None and standing(record.instance, observed) is Standing.TAKEN
    )
