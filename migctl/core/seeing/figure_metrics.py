"""What was measured of jobs, GPU instances and GPUs, and what is said of them, as metrics in base units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from migctl.core.seeing.readings import GpuReading, InstanceReading, JobReading, Reading
from migctl.core.seeing.tallies import CPU_BUSY, RATES, Tallies
from migctl.core.seeing.verdicts import Diagnosis, Kind
from migctl.core.views.metrics import Family, Labels, MetricKind, family, labels, more

_MIB: Final = 1 << 20
_MHZ: Final = 1_000_000
_OF_GPUS: Final = frozenset({Kind.GPU_THROTTLED})

_JOB: Final[Mapping[str, tuple[str, Callable[[JobReading], float | None]]]] = {
    "migctl_job_cores": ("Physical cores of the job's cpuset.", lambda r: r.cores or None),
    "migctl_job_memory_bytes": ("RAM of the job.", lambda r: _bytes(r.memory_mib)),
    "migctl_job_memory_limit_bytes": (
        "The job's memory limit; absent where it has none.",
        lambda r: _bytes(r.memory_limit_mib),
    ),
    "migctl_job_processes": ("Processes of the job.", lambda r: r.processes),
    "migctl_job_threads": ("Threads of the job.", lambda r: r.threads),
    "migctl_job_workers": ("Loader processes of the job that are alive.", lambda r: r.workers),
    "migctl_job_blocked_processes": (
        "Processes of the job stuck in uninterruptible sleep.",
        lambda r: r.blocked_processes,
    ),
    "migctl_job_samples_per_second": ("Samples a second between the training's last reports.", lambda r: r.samples_s),
    "migctl_job_data_wait_ratio": (
        "Part of the time in which the training waited for data, 0 to 1.",
        lambda r: r.wait_share,
    ),
    "migctl_job_figures_unknown": ("Figures of the job that could not be measured.", lambda r: len(r.unknown)),
}
_INSTANCE: Final[Mapping[str, tuple[str, Callable[[InstanceReading], float | None]]]] = {
    "migctl_instance_memory_used_bytes": (
        "Memory in use of a GPU instance, or of a whole GPU without MIG.",
        lambda r: _bytes(r.memory_used_mib),
    ),
    "migctl_instance_memory_size_bytes": ("All memory of the same.", lambda r: _bytes(r.memory_total_mib)),
    "migctl_instance_activity_ratio": (
        "Part of the time in which its engines worked, 0 to 1 (GPM, DCGM or NVML).",
        lambda r: r.activity_share,
    ),
    "migctl_instance_processes": ("Processes that use it.", lambda r: len(r.pids) if r.pids is not None else None),
}
_GPU: Final[Mapping[str, tuple[str, Callable[[GpuReading], float | None]]]] = {
    "migctl_gpu_power_watts": ("Power of the whole GPU.", lambda r: r.power_w),
    "migctl_gpu_power_limit_watts": ("Power limit of the GPU.", lambda r: r.power_limit_w),
    "migctl_gpu_temperature_celsius": ("Temperature of the GPU.", lambda r: r.temperature_c),
    "migctl_gpu_sm_clock_hertz": ("SM clock of the GPU.", lambda r: _hertz(r.sm_clock_mhz)),
    "migctl_gpu_sm_clock_max_hertz": ("Highest SM clock of the GPU.", lambda r: _hertz(r.sm_clock_max_mhz)),
    "migctl_gpu_throttled": (
        "1 while something slows the GPU's clocks.",
        lambda r: float(bool(r.throttles)) if r.throttles is not None else None,
    ),
}


def figure_families(reading: Reading, diagnosis: Diagnosis, sums: Tallies) -> tuple[Family, ...]:
    """All figures of one moment; those that could not be measured are absent."""
    jobs = {job.name: (labels(run=job.run, job_name=job.job), job) for job in reading.jobs}
    return (
        *_counters(reading, sums),
        *(
            family(n, MetricKind.GAUGE, text, [(k, get(j)) for k, j in jobs.values()])
            for n, (text, get) in _JOB.items()
        ),
        family(
            "migctl_job_oom_kills_total",
            MetricKind.COUNTER,
            "Processes of the job that the kernel killed for lack of memory, since its start.",
            [(known, job.oom_kills) for known, job in jobs.values()],
        ),
        family(
            "migctl_job_verdict",
            MetricKind.GAUGE,
            "1 for each verdict that is said of the job now, 0 for the others.",
            [
                (more(known, {"verdict": kind.value}), float(any(v.kind is kind for v in diagnosis.jobs.get(name, ()))))
                for name, (known, _) in jobs.items()
                for kind in Kind
                if kind not in _OF_GPUS
            ],
        ),
        *_instances(reading),
        *_gpus(reading, diagnosis),
    )


def _counters(reading: Reading, sums: Tallies) -> Iterator[Family]:
    jobs = [(job.run, job.job) for job in reading.jobs]
    for name, (text, _) in RATES.items():
        yield family(
            name,
            MetricKind.COUNTER,
            text,
            [(labels(run=run, job_name=job), sums.get((name, run, job))) for run, job in jobs],
        )
    yield family(
        CPU_BUSY,
        MetricKind.COUNTER,
        "Time in which a logical CPU of the job's cpuset was at work, for whomever.",
        [
            (labels(run=job.run, job_name=job.job, cpu=cpu), sums.get((f"{CPU_BUSY}:{cpu}", job.run, job.job)))
            for job in reading.jobs
            for cpu in job.cpus
        ],
    )


def _instances(reading: Reading) -> Iterator[Family]:
    """Of all instances; with the names of the job that has it, where only one has."""
    users: dict[tuple[str, int | None], list[JobReading]] = {}
    for job in reading.jobs:
        if job.instance is not None:
            users.setdefault((job.instance.gpu_uuid, job.instance.gi_id), []).append(job)
    known: list[tuple[Labels, InstanceReading]] = []
    for gpu in reading.gpus:
        for one in gpu.instances:
            having = users.get((one.gpu_uuid, one.gi_id), [])
            owner = having[0] if len(having) == 1 else None
            known.append(
                (
                    labels(
                        UUID=one.gpu_uuid,
                        GPU_I_ID=one.gi_id,
                        GPU_I_PROFILE=one.profile,
                        run=owner.run if owner is not None else None,
                        job_name=owner.job if owner is not None else None,
                    ),
                    one,
                )
            )
    for name, (text, get) in _INSTANCE.items():
        yield family(name, MetricKind.GAUGE, text, [(words, get(one)) for words, one in known])


def _gpus(reading: Reading, diagnosis: Diagnosis) -> Iterator[Family]:
    for name, (text, get) in _GPU.items():
        yield family(name, MetricKind.GAUGE, text, [(labels(UUID=gpu.uuid), get(gpu)) for gpu in reading.gpus])
    yield family(
        "migctl_gpu_verdict",
        MetricKind.GAUGE,
        "1 for each verdict that is said of the GPU now, 0 for the others.",
        [
            (
                labels(UUID=gpu.uuid, verdict=kind.value),
                float(any(v.kind is kind for v in diagnosis.gpus.get(gpu.uuid, ()))),
            )
            for gpu in reading.gpus
            for kind in Kind
            if kind in _OF_GPUS
        ],
    )


def _bytes(mib: float | None) -> float | None:
    return mib * _MIB if mib is not None else None


def _hertz(mhz: int | None) -> float | None:
    return float(mhz * _MHZ) if mhz is not None else None
