"""From what was counted at two moments to what happened between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from migctl.core.counters import CpuCounters, GroupCounters, JobCounters, ProcessCounters
from migctl.core.cpuset import CpuSet
from migctl.core.readings import CpusReading, JobReading

_MIB = 1 << 20


def job_reading(
    before: JobCounters, after: JobCounters, *, run: str, job: str, cpus: CpuSet, machine: CpusReading | None
) -> JobReading:
    """The figures that processes, cgroup and logical CPUs tell; who and what the job is, and its progress, others add.

    Args:
        machine: the same seconds of the logical CPUs; `None` = not known.
    """
    seconds = after.at_s - before.at_s
    group = _Group(before.group, after.group, seconds)
    family = _Family(before, after, seconds)
    reads, writes = family.bytes(lambda p: p.read_bytes), family.bytes(lambda p: p.written_bytes)
    if after.group is not None:
        reads, writes = group.bytes(lambda g: g.read_bytes), group.bytes(lambda g: g.written_bytes)
    loads = _loads(cpus, machine, lambda m: m.busy)
    iowaits = _loads(cpus, machine, lambda m: m.iowait)
    own = group.share(lambda g: g.cpu_s)
    there = after.processes
    figures: dict[str, float | None] = {
        "own_cpus": own if own is not None else family.all_cpus(),
        "busy_cpus": sum(loads) if loads else None,
        "iowait_cpus": sum(iowaits) if iowaits else None,
        "throttled_share": group.share(lambda g: g.throttled_s),
        "pressure_cpu_share": group.share(lambda g: g.pressure_cpu_s),
        "pressure_io_share": group.share(lambda g: g.pressure_io_s),
        "pressure_memory_share": group.share(lambda g: g.pressure_memory_s),
        "queued_threads": family.sum(lambda p: p.waited_s),
        "iowait_share": family.sum(lambda p: p.io_delay_s),
        "read_mib_s": reads,
        "write_mib_s": writes,
    }
    memory = after.group.memory_bytes if after.group is not None else sum(p.resident_bytes for p in there) or None
    limit = after.group.memory_limit_bytes if after.group is not None else None
    reasons = {**after.unknown, **(after.group.unknown if after.group is not None else {})}
    return JobReading(
        run=run,
        job=job,
        cpus=cpus,
        own_cpus=figures["own_cpus"],
        busy_cpus=figures["busy_cpus"],
        iowait_cpus=figures["iowait_cpus"],
        loads=loads,
        throttled_share=figures["throttled_share"],
        queued_threads=figures["queued_threads"],
        main_cpus=max((family.cpu(one) for one in there if not one.loads_data), default=None),
        busiest_cpus=max((family.cpu(one) for one in there), default=None),
        worker_cpus=family.cpus([one for one in there if one.loads_data]),
        pressure_cpu_share=figures["pressure_cpu_share"],
        pressure_io_share=figures["pressure_io_share"],
        pressure_memory_share=figures["pressure_memory_share"],
        iowait_share=figures["iowait_share"],
        blocked_processes=sum(one.blocked for one in there) if there else None,
        read_mib_s=figures["read_mib_s"],
        write_mib_s=figures["write_mib_s"],
        memory_mib=memory / _MIB if memory is not None else None,
        memory_limit_mib=limit / _MIB if limit is not None else None,
        oom_kills=after.group.oom_kills if after.group is not None else None,
        processes=len(there) if there else None,
        threads=sum(one.threads for one in there) if there else None,
        workers=sum(one.loads_data for one in there) if there else None,
        unknown={name: why for name, why in reasons.items() if figures.get(name) is None},
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


def _loads(
    cpus: CpuSet, machine: CpusReading | None, figure: Callable[[CpusReading], Sequence[float]]
) -> tuple[float, ...]:
    if machine is None:
        return ()
    known = dict(zip(machine.cpus, figure(machine), strict=True))
    return tuple(known[cpu] for cpu in sorted(cpus)) if all(cpu in known for cpu in cpus) else ()


class _Group:
    """A container's cgroup between two moments."""

    def __init__(self, before: GroupCounters | None, after: GroupCounters | None, seconds: float) -> None:
        self._before, self._after, self._seconds = before, after, seconds

    def share(self, figure: Callable[[GroupCounters], float | None]) -> float | None:
        """Seconds a second."""
        if self._before is None or self._after is None:
            return None
        return _per_second(figure(self._before), figure(self._after), self._seconds)

    def bytes(self, figure: Callable[[GroupCounters], float | None]) -> float | None:
        """MiB a second."""
        rate = self.share(figure)
        return rate / _MIB if rate is not None else None


class _Family:
    """The processes between two moments.

    One that was not there before counts from its start where that lies between, else not at all: what it did earlier belongs to no
    moment that is told.
    """

    def __init__(self, before: JobCounters, after: JobCounters, seconds: float) -> None:
        self._seconds = seconds
        self._after = after.processes
        known = {(one.pid, one.started_s): one for one in before.processes}
        left = {(one.pid, one.started_s) for one in after.processes}
        self._gone_s = sum(one.cpu_s + one.children_s for key, one in known.items() if key not in left)
        """Counted before, and handed on to whoever waited for them: that is not new."""
        self._pairs: dict[int, tuple[ProcessCounters | None, ProcessCounters]] = {}
        for one in after.processes:
            earlier = known.get((one.pid, one.started_s))
            if earlier is not None or one.started_s >= before.at_s:
                self._pairs[one.pid] = (earlier, one)

    def cpu(self, one: ProcessCounters) -> float:
        """CPUs that one process used itself."""
        earlier, now = self._pairs.get(one.pid, (one, one))
        return max(0.0, now.cpu_s - (earlier.cpu_s if earlier is not None else 0.0)) / self._seconds

    def cpus(self, some: Sequence[ProcessCounters]) -> float | None:
        """CPUs that some of them used; `None` where none of the job's processes is seen."""
        return sum(self.cpu(one) for one in some) if self._after else None

    def all_cpus(self) -> float | None:
        """CPUs that all used, those that ended meanwhile too."""
        own = self.cpus(self._after)
        if own is None:
            return None
        ended = self._changes(lambda one: one.children_s)
        return own + max(0.0, sum(ended) - self._gone_s) / self._seconds

    def sum(self, figure: Callable[[ProcessCounters], float | None]) -> float | None:
        """Seconds a second, over all processes that tell it; `None` where none does."""
        changes = self._changes(figure)
        return sum(changes) / self._seconds if changes else None

    def bytes(self, figure: Callable[[ProcessCounters], float | None]) -> float | None:
        """MiB a second; `None` where one does not tell, since the sum would be too small."""
        if any(figure(one) is None for one in self._after):
            return None
        rate = self.sum(figure)
        return rate / _MIB if rate is not None else None

    def _changes(self, figure: Callable[[ProcessCounters], float | None]) -> list[float]:
        return [
            max(0.0, now - ((figure(earlier) or 0.0) if earlier is not None else 0.0))
            for earlier, after in self._pairs.values()
            if (now := figure(after)) is not None
        ]


def _per_second(before: float | None, after: float | None, seconds: float) -> float | None:
    return max(0.0, after - before) / seconds if before is not None and after is not None and seconds > 0 else None
