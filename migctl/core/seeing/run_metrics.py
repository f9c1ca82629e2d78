"""Runs, jobs and their places as metrics, from what `status` sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from migctl.core.runs.record import JobState
from migctl.core.views.metrics import Family, Labels, MetricKind, family, labels, more
from migctl.core.views.status import GpuView, JobView, RunView, StatusView

MOST_JOBS: Final = 500
"""With series of their own; of more only the numbers are told, and how many were left out."""
HOLDING: Final = (JobState.STARTING, JobState.RUNNING)
"""States in which a job has its place; only then does it have an info series, so that a GI id that is used again never says
two jobs at one time."""


@dataclass(frozen=True, slots=True)
class _One:
    """A job with its run and its labels."""

    run: RunView
    job: JobView

    @property
    def labels(self) -> Labels:
        return labels(run=self.run.name, job_name=self.job.name)


def run_families(view: StatusView, supervised: bool) -> tuple[Family, ...]:
    """Everything that is known without measuring.

    Args:
        view: as `status` gives it.
        supervised: whether somebody starts what waits.
    """
    shown, left = _shown(view.runs)
    return (
        *_of_runs(view, supervised, left),
        *_of_jobs(shown),
        *_of_gpus(view.gpus),
    )


def jobs_holding(view: StatusView) -> frozenset[tuple[str, str]]:
    """Run and name of the jobs that have a place now."""
    return frozenset((run.name, job.name) for run in view.runs for job in run.jobs if job.state in HOLDING)


def _shown(runs: Sequence[RunView]) -> tuple[list[_One], int]:
    """Those that have a place first, then those that have ended, then those that wait."""
    every = [_One(run, job) for run in runs for job in run.jobs]
    every.sort(key=lambda one: (one.job.state not in HOLDING, one.job.state is JobState.QUEUED))
    return every[:MOST_JOBS], max(0, len(every) - MOST_JOBS)


def _of_runs(view: StatusView, supervised: bool, left: int) -> Iterator[Family]:
    gauge = MetricKind.GAUGE
    yield family(
        "migctl_run_info",
        MetricKind.INFO,
        "A run that is not undone.",
        [
            (labels(run=r.name, engine=r.engine, strategy=r.strategy, runtime=r.runtime, simulated=r.simulated), 1)
            for r in view.runs
        ],
    )
    counts = {run.name: Counter(job.state for job in run.jobs) for run in view.runs}
    yield family(
        "migctl_run_jobs",
        gauge,
        "Jobs of a run by state.",
        [(labels(run=run, state=state.value), count[state]) for run, count in counts.items() for state in JobState],
    )
    yield family(
        "migctl_run_start_time_seconds",
        gauge,
        "When the run was brought up, Unix time.",
        [(labels(run=r.name), r.created_at) for r in view.runs],
    )
    yield family(
        "migctl_run_expected_end_time_seconds",
        gauge,
        "When the last job of the run is expected to end, Unix time.",
        [(labels(run=r.name), r.ends_at) for r in view.runs],
    )
    yield family(
        "migctl_queue_held",
        gauge,
        "1 where nothing more of a run starts, since it is held.",
        [(labels(run=r.name), float(_is_held(view, r.name))) for r in view.runs],
    )
    yield family("migctl_supervisor_up", gauge, "1 while a supervisor starts what waits.", [((), float(supervised))])
    yield family(
        "migctl_drift_differences", gauge, "Differences between the records and the machine.", [((), len(view.drift))]
    )
    yield family("migctl_jobs_left_out", gauge, "Jobs without series of their own.", [((), left)])


def _is_held(view: StatusView, run: str) -> bool:
    return any(n.id == "run-held" and (n.hint or "").endswith(f" {run}") for n in view.notices)


def _of_jobs(shown: Sequence[_One]) -> Iterator[Family]:
    gauge = MetricKind.GAUGE
    yield family(
        "migctl_job_info",
        MetricKind.INFO,
        "A job that has its place now. UUID, GPU_I_ID and GPU_I_PROFILE are dcgm-exporter's labels, to be joined by.",
        [(_info(one), 1) for one in shown if one.job.state in HOLDING],
    )
    yield family(
        "migctl_job_state",
        gauge,
        "1 for the state the job is in, 0 for the others.",
        [
            (more(one.labels, {"state": state.value}), float(one.job.state is state))
            for one in shown
            for state in JobState
        ],
    )
    yield family(
        "migctl_job_exit_code",
        gauge,
        "Exit code of the latest attempt, where it has ended; 128 + n is signal n.",
        [(one.labels, one.job.exit_code) for one in shown if one.job.state.ended],
    )
    yield family(
        "migctl_job_attempt", gauge, "Number of the latest attempt.", [(o.labels, o.job.attempt) for o in shown]
    )
    yield family(
        "migctl_job_start_time_seconds",
        gauge,
        "When the latest attempt began, Unix time.",
        [(one.labels, one.job.started_at) for one in shown],
    )
    yield family(
        "migctl_job_end_time_seconds",
        gauge,
        "When the latest attempt ended, Unix time.",
        [(one.labels, one.job.finished_at) for one in shown],
    )
    holding = [one for one in shown if one.job.state in HOLDING]
    yield family(
        "migctl_job_logical_cpus",
        gauge,
        "Logical CPUs of the job's cpuset.",
        [(one.labels, len(one.job.cpus) or None) for one in holding],
    )
    yield family(
        "migctl_job_workers_planned",
        gauge,
        "Loader workers that the job was told to start.",
        [(one.labels, one.job.num_workers) for one in holding],
    )


def _info(one: _One) -> Labels:
    job = one.job
    extra = labels(
        attempt=job.attempt,
        UUID=job.gpu_uuid,
        GPU_I_ID=job.gi_id,
        GPU_I_PROFILE=job.profile if job.gi_id is not None else None,
        mig_uuid=job.mig_uuid,
        placement=str(job.placement) if job.placement is not None else None,
        cpuset=str(job.cpus),
    )
    return (*one.labels, *extra)


def _of_gpus(gpus: Sequence[GpuView]) -> Iterator[Family]:
    gauge = MetricKind.GAUGE
    yield family(
        "migctl_gpu_info",
        MetricKind.INFO,
        "A GPU of the machine.",
        [(labels(UUID=g.uuid, gpu=g.index, model=g.name), 1) for g in gpus],
    )
    yield family(
        "migctl_gpu_mig_mode",
        gauge,
        "1 where MIG mode is on; absent where the GPU has none.",
        [(labels(UUID=g.uuid), float(g.mig.current) if g.mig is not None else None) for g in gpus],
    )
    with_slices = [g for g in gpus if g.memory_slices]
    yield family(
        "migctl_gpu_memory_slices",
        gauge,
        "Memory slices of the GPU.",
        [(labels(UUID=g.uuid), g.memory_slices) for g in with_slices],
    )
    yield family(
        "migctl_gpu_memory_slices_used",
        gauge,
        "Memory slices that GPU instances take, whoever made them.",
        [
            (
                labels(UUID=g.uuid),
                sum(int(i.placement.size) for i in g.instances) if g.instances is not None else None,
            )
            for g in with_slices
        ],
    )
