"""From what was counted at two moments to what happened between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pinning import Finding
from migctl.core.seeing.counters import CpuCounters, GroupCounters, JobCounters, ProcessCounters, QueueCounters
from migctl.core.seeing.readings import CpusReading, InstanceReading, JobReading

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class QueueRates:
    """From two `QueueCounters`."""

    queued_threads: float | None = None
    read_mib_s: float | None = None
    write_mib_s: float | None = None


def queue_rates(before: QueueCounters, after: QueueCounters) -> QueueRates:
    """What happened between, of the processes that were there both times."""
    seconds = after.at_s - before.at_s
    return QueueRates(
        queued_threads=_passed(before.waited_s, after.waited_s, seconds),
        read_mib_s=_mib(_passed(before.read_bytes, after.read_bytes, seconds)),
        write_mib_s=_mib(_passed(before.written_bytes, after.written_bytes, seconds)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What others know of the job: who it is, and what it tells itself."""

    run: str
    job: str
    attempt: int = 1
    cpus: CpuSet = CpuSet()
    cores: int = 0
    age_s: float | None = None
    planned_workers: int | None = None
    samples_s: float | None = None
    wait_share: float | None = None
    reported_s: float | None = None
    slips: tuple[Finding, ...] = ()
    instance: InstanceReading | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)


def job_reading(
    before: JobCounters, after: JobCounters, about: About, queue: QueueRates, machine: Mapping[int, tuple[float, float]]
) -> JobReading:
    """One job over the time between two moments.

    Args:
        queue: the last there are of it.
        machine: logical CPU → its shares at work and idle for a device, over the same time; empty = not known.
    """
    seconds = after.at_s - before.at_s
    there, group = after.processes, after.group
    family = _Family(before, after, seconds)
    shares = _Group(before.group, group, seconds)
    known = [machine[cpu] for cpu in about.cpus if cpu in machine]
    loads = known if known and len(known) == len(about.cpus) else []
    own = shares.per_second("cpu_s")
    reads = _mib(shares.per_second("read_bytes")) if group is not None else queue.read_mib_s
    writes = _mib(shares.per_second("written_bytes")) if group is not None else queue.write_mib_s
    memory = group.memory_bytes if group is not None else sum([one.resident_bytes for one in there]) or None
    limit = group.memory_limit_bytes if group is not None else None
    loading = [family.cpu(one) for one in there if one.loads_data]
    others = [family.cpu(one) for one in there if not one.loads_data]
    figures: dict[str, float | None] = {
        "own_cpus": own if own is not None else family.all_cpus(sum(loading) + sum(others)),
        "throttled_share": shares.per_second("throttled_s"),
        "pressure_cpu_share": shares.per_second("pressure_cpu_s"),
        "pressure_io_share": shares.per_second("pressure_io_s"),
        "pressure_memory_share": shares.per_second("pressure_memory_s"),
        "queued_threads": queue.queued_threads,
        "iowait_share": family.io_delay(),
        "read_mib_s": reads,
        "write_mib_s": writes,
        "oom_kills": group.oom_kills if group is not None else None,
    }
    reasons = {**after.unknown, **(group.unknown if group is not None else {})}
    return JobReading(
        run=about.run,
        job=about.job,
        attempt=about.attempt,
        cpus=about.cpus,
        cores=about.cores,
        age_s=about.age_s,
        own_cpus=figures["own_cpus"],
        busy_cpus=sum([busy for busy, _ in loads]) if loads else None,
        iowait_cpus=sum([iowait for _, iowait in loads]) if loads else None,
        loads=tuple([busy for busy, _ in loads]),
        throttled_share=figures["throttled_share"],
        queued_threads=figures["queued_threads"],
        main_cpus=max(others, default=None),
        busiest_cpus=max([*loading, *others], default=None),
        worker_cpus=sum(loading) if there else None,
        pressure_cpu_share=figures["pressure_cpu_share"],
        pressure_io_share=figures["pressure_io_share"],
        pressure_memory_share=figures["pressure_memory_share"],
        iowait_share=figures["iowait_share"],
        blocked_processes=sum([one.blocked for one in there]) if there else None,
        read_mib_s=reads,
        write_mib_s=writes,
        memory_mib=memory / _MIB if memory is not None else None,
        memory_limit_mib=limit / _MIB if limit is not None else None,
        oom_kills=group.oom_kills if group is not None else None,
        processes=len(there) if there else None,
        threads=sum([one.threads for one in there]) if there else None,
        workers=len(loading) if there else None,
        planned_workers=about.planned_workers,
        samples_s=about.samples_s,
        wait_share=about.wait_share,
        reported_s=about.reported_s,
        slips=about.slips,
        instance=about.instance,
        unknown={**{name: why for name, why in reasons.items() if figures.get(name) is None}, **about.unknown},
    )


def cpus_reading(before: Mapping[int, CpuCounters], after: Mapping[int, CpuCounters]) -> CpusReading:
    """Shares of each logical CPU that both moments know: one may have come or gone meanwhile."""
    found = sorted(before.keys() & after.keys())
    shares = [_shares(before[cpu], after[cpu]) for cpu in found]
    return CpusReading(cpus=tuple(found), busy=tuple(busy for busy, _ in shares), iowait=tuple(io for _, io in shares))


def _shares(before: CpuCounters, after: CpuCounters) -> tuple[float, float]:
    """Busy and iowait of all that passed; the kernel's idle and iowait can go back a little (proc_stat(5))."""
    busy = max(0.0, after.busy_s - before.busy_s)
    iowait = max(0.0, after.iowait_s - before.iowait_s)
    total = busy + iowait + max(0.0, after.idle_s - before.idle_s)
    return (busy / total, iowait / total) if total > 0 else (0.0, 0.0)


class _Group:
    """A container's cgroup between two moments."""

    def __init__(self, before: GroupCounters | None, after: GroupCounters | None, seconds: float) -> None:
        self._before, self._after, self._seconds = before, after, seconds

    def per_second(self, name: str) -> float | None:
        """Of one field, what was added a second; `None` where it is not known."""
        if self._before is None or self._after is None:
            return None
        before: float | None = getattr(self._before, name)
        after: float | None = getattr(self._after, name)
        return max(0.0, after - before) / self._seconds if before is not None and after is not None else None


class _Family:
    """The processes between two moments.

    One that was not there before counts from its start where that lies between, else not at all: what it did earlier belongs to no
    moment that is told.
    """

    def __init__(self, before: JobCounters, after: JobCounters, seconds: float) -> None:
        self._seconds = seconds
        self._begun_s = before.at_s
        self._after = after.processes
        self._earlier = {(one.pid, one.started_s): one for one in before.processes}

    def cpu(self, one: ProcessCounters) -> float:
        """CPUs that one process used itself."""
        earlier = self._earlier.get((one.pid, one.started_s))
        if earlier is one:
            return 0.0
        if earlier is not None:
            return max(0.0, one.cpu_s - earlier.cpu_s) / self._seconds
        return one.cpu_s / self._seconds if one.started_s >= self._begun_s else 0.0

    def all_cpus(self, living: float) -> float | None:
        """CPUs that all used, those that ended meanwhile too.

        Args:
            living: what those used that are still there.
        """
        if not self._after:
            return None
        left = {(one.pid, one.started_s) for one in self._after}
        # What they had used before is handed on to whoever waited for them, and is not new.
        gone_s = sum([one.cpu_s + one.children_s for key, one in self._earlier.items() if key not in left])
        ended_s = 0.0
        for one in self._after:
            earlier = self._earlier.get((one.pid, one.started_s))
            ended_s += one.children_s - (earlier.children_s if earlier is not None else 0.0)
        return living + max(0.0, ended_s - gone_s) / self._seconds

    def io_delay(self) -> float | None:
        """Seconds a second; `None` where the kernel does not account it."""
        found = [
            max(0.0, one.io_delay_s - (earlier.io_delay_s or 0.0))
            for one in self._after
            if one.io_delay_s is not None and (earlier := self._earlier.get((one.pid, one.started_s))) is not None
        ]
        return sum(found) / self._seconds if found else None


def _passed(before: Mapping[int, float], after: Mapping[int, float], seconds: float) -> float | None:
    found = [max(0.0, value - before[pid]) for pid, value in after.items() if pid in before]
    return sum(found) / seconds if found and seconds > 0 else None


def _mib(value: float | None) -> float | None:
    return value / _MIB if value is not None else None
