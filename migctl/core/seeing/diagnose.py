"""What is said of jobs and GPUs that run, from their last readings: bottlenecks, lost affinity, others in the way, full memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from migctl.core.seeing.bottleneck import BUSY, READY, bottleneck, crowded, data_short, waits_for_disk
from migctl.core.seeing.readings import GpuReading, JobReading, Reading
from migctl.core.seeing.verdicts import Diagnosis, Kind, Verdict
from migctl.core.seeing.windows import Moment, Window, moments, window
from migctl.core.words import are, counted

_FULL = 0.95
"""Part of an instance's memory in use from which the next larger batch will not fit."""
_ALONE = 0.95
_RESTING = 0.20
"""One core of a job above the first while its others are below the second: one process does all the work."""
_SPARE = 0.5
"""Part of its cores up to which a job's peak use must lie before fewer are advised."""
_FOUND = 0.3
"""Part of what others use that must be found at processes: many short ones are never seen twice."""
_ANYTHING = 0.02
"""CPUs below which a job does nothing at all: of that nothing is said."""
_SLOWED = 0.90
"""SM clock against its highest, below which a throttled GPU is slower by more than matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a state must last before it is said, in seconds: a healthy job has slow moments."""

    start_s: float = 20.0
    """After its start a job imports, forks and fills its caches: nothing is said of its bottleneck."""
    window_s: float = 20.0
    """Over which bottlenecks are averaged."""
    one_process_s: float = 30.0
    idle_s: float = 60.0
    """For advice to take cores away."""
    moment_s: float = 3.0
    """For what is right or wrong at any moment (lost affinity): two looks in a row."""
    throttled_s: float = 20.0
    between_s: float = 5.0
    """A watcher judges each job once in so long, one after the other: what is said does not change by the second."""

    @property
    def longest_s(self) -> float:
        """So far back readings are needed."""
        return max(self.window_s, self.one_process_s, self.idle_s, self.moment_s, self.throttled_s)


def diagnose(readings: Sequence[Reading], patience: Patience) -> Diagnosis:
    """What is to be said now.

    Args:
        readings: oldest first, reaching back `patience.longest_s`.
    """
    if not readings:
        return Diagnosis()
    now, past = readings[-1], moments(readings)
    return Diagnosis(
        jobs={job.name: diagnose_job(past[job.name], patience) for job in now.jobs},
        gpus={gpu.uuid: diagnose_gpu(_looks(readings, gpu.uuid), patience, now.at_s) for gpu in now.gpus},
    )


def diagnose_job(past: Sequence[Moment], patience: Patience) -> tuple[Verdict, ...]:
    """What is to be said of one job, what holds it back most first.

    Args:
        past: its readings, oldest first, the last of now.
    """
    return tuple(_job(past, patience)) if past else ()


def diagnose_gpu(looks: Sequence[GpuReading], patience: Patience, now_s: float) -> tuple[Verdict, ...]:
    """What is to be said of one GPU.

    Args:
        looks: its readings, oldest first.
        now_s: Unix seconds.
    """
    return tuple(_gpu([one for one in looks if one.at_s >= now_s - patience.throttled_s]))


def _looks(readings: Sequence[Reading], uuid: str) -> list[GpuReading]:
    """Each reading of a GPU once: readings of jobs between two of the GPU repeat it."""
    return list({one.at_s: one for r in readings for one in r.gpus if one.uuid == uuid}.values())


def _job(past: Sequence[Moment], patience: Patience) -> Iterator[Verdict]:
    job = past[-1].job
    yield from _affinity(past, patience.moment_s)
    seen = window(past, patience.window_s)
    settled = job.age_s is None or job.age_s >= patience.start_s + patience.window_s
    if seen is not None and crowded(seen):
        found = _others(seen)
        yield from [found] if found is not None else []
    if seen is not None and settled:
        held = bottleneck(seen)
        alone = _one_process(seen, past, patience.one_process_s)
        first = alone if alone is not None and (held is None or held.kind is Kind.UNKNOWN) else held
        yield from [first] if first is not None else []
        if first is None or first.kind is not Kind.ONE_PROCESS:
            yield from _idle(seen, past, patience.idle_s)
    yield from _memory(job)


def _affinity(past: Sequence[Moment], moment_s: float) -> Iterator[Verdict]:
    lost = [slip for slip in past[-1].job.slips if slip.drift]
    looks = [one.job.slips for one in past if one.at_s >= past[-1].at_s - moment_s] if lost else []
    if lost and len(looks) > 1 and all(any(slip.drift for slip in look) for look in looks):
        yield Verdict(
            kind=Kind.AFFINITY_LOST,
            title="affinity lost",
            message=lost[0].message,
            hint=lost[0].hint,
            keys=("cpuset", "environment"),
        )


def _others(seen: Window) -> Verdict | None:
    """Others on its cores. What cannot be seen is still said; what was looked for and not found is a gap in counting."""
    other, strangers = seen.other_cpus or 0.0, seen.last.strangers
    hidden = seen.last.unknown.get("strangers")
    if sum(one.used_cpus for one in strangers) < _FOUND * other and hidden is None:
        return None
    who = ", ".join(f"{one.command} (pid {one.pid}, {one.used_cpus:.1f} CPUs)" for one in strangers[:3])
    who = who or f"who they are is n/a ({hidden})"
    return Verdict(
        kind=Kind.OVERSUBSCRIBED,
        title="oversubscribed by a process outside migctl",
        message=f"others use {other:.1f} of its {counted(len(seen.cpus), 'logical CPU')}: {who}",
        hint="end it or pin it elsewhere (taskset -cp CPUS PID); reserve_cores keeps cores free for others",
        keys=("reserve_cores", "cpuset"),
        numbers={"other_cpus": round(other, 3), "own_cpus": round(seen.own_cpus or 0.0, 3)},
    )


def _one_process(lately: Window, past: Sequence[Moment], lasting_s: float) -> Verdict | None:
    if lately.cores < 2 or (lately.own_cpus or 0.0) < _ALONE * BUSY or (lately.own_cpus or 0.0) > 2 * _ALONE:
        return None  # most jobs are told apart without the longer average
    seen = window(past, lasting_s)
    if seen is None or data_short(seen) is False or crowded(seen):
        return None
    busiest, own = seen.busiest_cpus, seen.own_cpus
    by_process = (
        busiest is not None and own is not None and busiest >= _ALONE and own - busiest < _RESTING and own < 2 * _ALONE
    )
    *others, top = sorted(seen.loads) or [0.0]
    by_core = top >= _ALONE and bool(others) and max(others) < _RESTING and (own or 0.0) >= _ALONE * BUSY
    if not (by_process or by_core):
        return None
    workers = seen.workers
    return Verdict(
        kind=Kind.ONE_PROCESS,
        title="one process does all the work",
        message=f"one of its processes uses {busiest or top:.2f} CPUs, of {counted(seen.cores, 'core')}, and all others together "
        f"{max(0.0, (own or 0.0) - (busiest or top)):.2f}; {counted(workers, 'worker')} {are(workers)} alive",
        hint="load data in workers (DataLoader(num_workers=int(os.environ['MIGCTL_NUM_WORKERS']))), or give it fewer cores",
        keys=("num_workers", "cpus"),
        numbers={
            "busiest_cpus": round(busiest or top, 3),
            "own_cpus": round(own or 0.0, 3),
            "cores": float(seen.cores),
        },
    )


def _idle(lately: Window, past: Sequence[Moment], lasting_s: float) -> Iterator[Verdict]:
    """Fewer cores would do: its peak use is far below them, and no disk is in the way."""
    if lately.cores < 2 or (lately.own_cpus or 0.0) > _SPARE * lately.cores:
        return
    seen = window(past, lasting_s)
    if seen is None or seen.most_own_cpus is None or (seen.own_cpus or 0.0) < _ANYTHING:
        return
    wait = seen.last.wait_share
    if data_short(seen) is True or waits_for_disk(seen) or crowded(seen) or (wait is not None and wait > READY):
        return
    need = max(1, math.ceil(seen.most_own_cpus * 1.2))
    if need > _SPARE * seen.cores:
        return
    yield Verdict(
        kind=Kind.CPU_IDLE,
        title="CPU idle: fewer cores would do",
        message=f"it never used more than {seen.most_own_cpus:.1f} of {counted(seen.cores, 'core')} in {seen.seconds:.0f} s",
        hint=f"cpus: {need} leaves {counted(seen.cores - need, 'core')} to others",
        keys=("cpus", "num_workers"),
        numbers={"most_own_cpus": round(seen.most_own_cpus, 3), "cores": float(seen.cores)},
    )


def _memory(job: JobReading) -> Iterator[Verdict]:
    there = job.instance
    used, total = (there.memory_used_mib, there.memory_total_mib) if there is not None else (None, None)
    if used is None or not total or used < _FULL * total:
        return
    yield Verdict(
        kind=Kind.MEMORY_NEARLY_FULL,
        title="slice memory nearly full",
        message=f"{used} of {total} MiB of its GPU memory are in use ({used / total:.0%})",
        hint="a framework may keep it in reserve; if the job fails for memory: a larger profile, or a smaller batch_size",
        keys=("profile", "batch_size"),
        numbers={"memory_used_mib": float(used), "memory_total_mib": float(total)},
    )


def _gpu(looks: Sequence[GpuReading]) -> Iterator[Verdict]:
    """Throttled all the time: one verdict for the GPU, since all its instances have the same clocks."""
    if len(looks) < 2 or not all(_slowed(one) for one in looks):
        return
    gpu = looks[-1]
    clocks = (
        f"; its SMs run at {gpu.sm_clock_mhz} of {gpu.sm_clock_max_mhz} MHz"
        if gpu.sm_clock_mhz is not None and gpu.sm_clock_max_mhz is not None
        else ""
    )
    facts = [
        f"{gpu.power_w:.0f} W" if gpu.power_w is not None else "",
        f"{gpu.temperature_c} °C" if gpu.temperature_c else "",
    ]
    at = ", ".join(fact for fact in facts if fact)
    yield Verdict(
        kind=Kind.GPU_THROTTLED,
        title="GPU throttled, all slices slower",
        message=f"GPU {gpu.index} is slowed by {' and '.join(gpu.throttles or ())}"
        + (f" ({at})" if at else "")
        + clocks,
        hint="no job is to blame: see to its cooling and power limit (nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE)",
        numbers={
            name: float(value)
            for name, value in (
                ("power_w", gpu.power_w),
                ("temperature_c", gpu.temperature_c),
                ("sm_clock_mhz", gpu.sm_clock_mhz),
                ("sm_clock_max_mhz", gpu.sm_clock_max_mhz),
            )
            if value is not None
        },
    )


def _slowed(gpu: GpuReading) -> bool:
    if not gpu.throttles:
        return False
    if gpu.sm_clock_mhz is None or not gpu.sm_clock_max_mhz:
        return True
    return gpu.sm_clock_mhz < _SLOWED * gpu.sm_clock_max_mhz
