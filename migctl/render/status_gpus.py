"""The jobs of a status that have a place on the machine, and its GPUs as pictures of who lies where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from migctl.core.runs.ownership import NO_COMPUTE_INSTANCE
from migctl.core.views.pictures import GpuPicture, Seat
from migctl.core.views.status import GpuView, InstanceView, JobView, RunView
from migctl.render.tags import Tags

Present = tuple[str, RunView, JobView]
"""The name that pictures show, and whose it is."""


def present(runs: Sequence[RunView]) -> list[Present]:
    """Jobs that have a place on the machine."""
    here = [run for run in runs if run.engine == "local"]
    return [(key(runs, run, job), run, job) for run in here for job in run.jobs if job.cpus or job.gi_id is not None]


def key(runs: Sequence[RunView], run: RunView, job: JobView) -> str:
    """A job's name where only one run is shown, else `run/job`."""
    return job.name if len(runs) == 1 else f"{run.name}/{job.name}"


def tags_of(jobs: Sequence[Present]) -> Tags:
    """Letters and colours for these."""
    tags = Tags.of([(name, f"{run.name}/{job.origin}") for name, run, job in jobs])
    # Where one run is shown its jobs need no prefix, but whoever drew the cores may have named them run/job.
    return tags.known_as({f"{run.name}/{job.name}": name for name, run, job in jobs})


def gpu_pictures(gpus: Iterable[GpuView], jobs: Sequence[Present]) -> list[GpuPicture]:
    """Each GPU with its instances and the jobs in them."""
    names: dict[tuple[str | None, int | None], list[str]] = {}
    for name, _, job in jobs:
        if job.gi_id is not None:
            names.setdefault((job.gpu_uuid, job.gi_id), []).append(name)
    return [_picture(gpu, names, jobs) for gpu in gpus]


def _picture(
    gpu: GpuView, names: Mapping[tuple[str | None, int | None], Sequence[str]], jobs: Iterable[Present]
) -> GpuPicture:
    # A GPU without MIG is drawn with the jobs that share it; one that does not answer, with its reason.
    whole = tuple(
        name for name, _, job in jobs if job.gpu_uuid == gpu.uuid and job.gi_id is None and not job.state.ended
    )
    reason = gpu.instances_reason or ""
    if gpu.mig is None and gpu.mig_reason:
        reason = gpu.mig_reason
    return GpuPicture(
        uuid=gpu.uuid,
        index=gpu.index,
        name=gpu.name,
        memory_slices=gpu.memory_slices,
        compute_slices=gpu.compute_slices,
        memory_mib=gpu.memory_mib,
        mig=gpu.mig,
        seats=tuple(_seat(instance, names.get((gpu.uuid, instance.gi_id), ())) for instance in gpu.instances or ()),
        whole=whole if not (gpu.mig and gpu.mig.current) else (),
        reason=reason,
    )


def _seat(instance: InstanceView, jobs: Sequence[str]) -> Seat:
    job = next(iter(jobs), None)
    return Seat(
        placement=instance.placement,
        profile=instance.profile,
        compute_slices=instance.compute_slices,
        owner=instance.owner,
        job=job,
        mates=tuple(jobs[1:]),
        foreign=instance.foreign,
        note=_note(instance, job),
    )


def _note(instance: InstanceView, job: str | None) -> str:
    """What is special about an instance."""
    if not instance.mig_uuids:
        return NO_COMPUTE_INSTANCE
    return f"used by {job}, and left as it is at the end" if job is not None and instance.foreign else ""
