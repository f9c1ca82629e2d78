"""All that a runtime needs to start one attempt of a job."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.plan import Job
from migctl.runtimes.gpu_device import GpuDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All that a runtime needs to start one attempt; every text is final (no `${…}` left)."""

    run: str
    job: str
    attempt: int
    token: str
    name: str
    """Container name, unique on the engine."""
    folder: str
    """The attempt's folder (0700), absolute: log, launch and exit files of the process runtime, saved logs of containers."""
    spec: Job
    image_id: str | None
    """Digest or id that `prepare` resolved; `None` for the process runtime."""
    command: tuple[str, ...] | None
    entrypoint: tuple[str, ...] | None
    environment: tuple[tuple[str, str], ...]
    """The whole environment migctl sets, in order."""
    working_dir: str | None
    user: str | None
    """`uid:gid`, or `None` for the image's own."""
    cpus: CpuSet
    mems: CpuSet | None
    mig_uuid: str | None
    """The MIG device, or the GPU's UUID under `shared`."""
    simulated: bool
    shm_size_bytes: int
    labels: tuple[tuple[str, str], ...]
    """All `io.migctl.*` labels plus the user's."""
    device: GpuDevice | None = None
    """What a container's device nodes follow from; `None` for a simulated GPU."""
