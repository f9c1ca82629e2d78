"""What is written down about a run that a cluster has taken over: its jobs, and by what each is known there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from migctl.core.cluster.clusters import EngineName
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.record import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterJob:
    """One job of such a run, as it was handed over and as it was seen last. Times are Unix seconds."""

    name: str
    origin: str = ""
    """The key under `jobs:` that it came from."""
    digest: str
    """Keyed digest of the job's own resolved keys: sameness over two `up`s."""
    unit: str = ""
    """What the cluster calls the whole that the job is in: Slurm's job id, the name of a Kubernetes Job; nothing: none known."""
    uid: str = ""
    """What tells this very unit from a later one of the same name, where the cluster has such a thing."""
    index: int | None = None
    """The job's number in that whole, where it is an array or an Indexed Job."""
    attempt: int = 1
    profile: str | None = None
    """`None`: a whole GPU."""
    cpus: int = 0
    """Logical CPUs asked for."""
    num_workers: int = 0
    """As expected; the job counts them itself from the CPUs that it gets."""
    cpuset: CpuSet = CpuSet()
    """The CPUs that it really got, as it told at its start."""
    grace_s: float = 60.0
    timeout_s: float | None = None
    needs: tuple[str, ...] = ()
    state: JobState = JobState.QUEUED
    exit_code: int | None = None
    reason: str | None = None
    """Why it waits, or how it ended."""
    node: str | None = None
    started_at: float | None = None
    finished_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRun:
    """A run on a cluster; written before the first job is handed over, and again after each step of that."""

    run: str
    engine: EngineName
    token: str
    """Random; stands in everything that is handed over, so that an id or a name that is used again is not taken for ours."""
    place: str = ""
    """Which cluster, in the engine's own words: Slurm's cluster name, or context and namespace of Kubernetes."""
    jobs: tuple[ClusterJob, ...] = ()
    """In the plan's order, one a job: the present attempt."""
    past: tuple[ClusterJob, ...] = ()
    """Attempts that are over and were followed by another one, oldest first."""

    def job(self, name: str) -> ClusterJob | None:
        """The job of this name."""
        return next((job for job in self.jobs if job.name == name), None)

    def with_jobs(self, changed: Mapping[str, ClusterJob]) -> ClusterRun:
        """The same run with these jobs in place of those of their names."""
        return replace(self, jobs=tuple(changed.get(job.name, job) for job in self.jobs))
