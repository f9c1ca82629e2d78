"""Whether a running job really is where it was pinned: its threads' CPUs, its workers, and how many threads want its cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.words import are, counted

_NOT_WORKERS = ("multiprocessing.resource_tracker", "compile_worker", "triton", "torch/_inductor")
"""Python's tracker of shared memory and PyTorch's compilers are children too, and load nothing."""
_SPAWNED = "--multiprocessing-fork"
"""In the command line of a worker that was spawned (Python's multiprocessing.spawn)."""
_LOADER_THREAD = "pt_data_worker"
"""Name that recent PyTorch gives the main thread of its workers (torch/utils/data/_utils/worker.py)."""
_CROWD = 3
"""Runnable threads on one CPU at one moment that are no chance any more; two meet while the kernel wakes one up."""
_TOO_MANY = 2
"""Runnable threads a logical CPU from which the cores are plainly crowded; a moment above 1 is normal."""


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread at one moment."""

    tid: int
    name: str
    cpus: CpuSet
    """Where it may run."""
    runnable: bool
    """It runs or wants to."""
    last_cpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a job."""

    pid: int
    parent: int
    """0 for the first."""
    command: tuple[str, ...]
    threads: tuple[Thread, ...]


class Slip(StrEnum):
    """What can be wrong."""

    OUTSIDE = "outside"
    """Threads may run on CPUs that are not the job's."""
    ONE_CPU = "one-cpu"
    """Everything is bound to a single CPU of several."""
    NARROWED = "narrowed"
    """Some threads are bound to fewer CPUs than the job has."""
    CROWDED = "crowded"
    """Everything that wants to run is on one CPU, although it may run on others."""
    TOO_MANY_THREADS = "too-many-threads"
    """Far more threads want to run than there are CPUs."""
    WORKERS = "workers"
    """More worker processes are alive than were planned."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was planned, in a sentence that begins after the job's name."""

    slip: Slip
    message: str
    hint: str = ""

    @property
    def drift(self) -> bool:
        """The pinning itself differs; else it is a matter of load."""
        return self.slip in (Slip.OUTSIDE, Slip.ONE_CPU, Slip.NARROWED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """A job's processes against its plan, at one moment."""

    processes: int
    threads: int
    runnable: int
    workers: int
    """Loader processes that are alive."""
    threads_per_core: float
    findings: tuple[Finding, ...] = ()


def pinning(processes: Sequence[Process], *, cpus: CpuSet, cores: int, num_workers: int | None) -> Pinning | None:
    """Compare what runs with what was planned; `None` where nothing of the job was seen.

    Args:
        processes: of the job, parents first.
        cpus: its cpuset.
        cores: physical cores of that.
        num_workers: as planned.
    """
    threads = [thread for process in processes for thread in process.threads]
    if not threads:
        return None
    workers = loaders(processes)
    return Pinning(
        processes=len(processes),
        threads=len(threads),
        runnable=sum(thread.runnable for thread in threads),
        workers=len(workers),
        threads_per_core=len(threads) / max(1, cores),
        findings=tuple(_findings(processes, threads, cpus, num_workers, len(workers))),
    )


def loaders(processes: Sequence[Process]) -> tuple[int, ...]:
    """The processes that load data: forks of a parent (they keep its command line) and spawned ones, without their own children.

    Where PyTorch names its workers' threads, the names decide.
    """
    named = tuple(p.pid for p in processes if any(thread.name.startswith(_LOADER_THREAD) for thread in p.threads[:1]))
    if named:
        return named
    by_pid = {process.pid: process for process in processes}
    return tuple(process.pid for process in processes if _loads(process, by_pid))


def _loads(process: Process, by_pid: Mapping[int, Process]) -> bool:
    parent = by_pid.get(process.parent)
    if parent is None or not process.command or any(_is_other(one) for one in (process, *_above(process, by_pid))):
        return False
    return process.command == parent.command or _SPAWNED in process.command


def _above(process: Process, by_pid: Mapping[int, Process]) -> Iterator[Process]:
    above = by_pid.get(process.parent)
    while above is not None:
        yield above
        above = by_pid.get(above.parent)


def _is_other(process: Process) -> bool:
    return any(part in word for word in process.command for part in _NOT_WORKERS)


def _findings(
    processes: Sequence[Process], threads: Sequence[Thread], cpus: CpuSet, planned: int | None, workers: int
) -> Iterator[Finding]:
    allowed = CpuSet(cpu for thread in threads for cpu in thread.cpus)
    if outside := allowed - cpus:
        count = sum(bool(thread.cpus - cpus) for thread in threads)
        yield Finding(
            Slip.OUTSIDE,
            f"{_threads(count, len(threads))} may run on CPUs {outside}, which are not the job's ({cpus})",
            "something in the job calls sched_setaffinity or taskset: take it out",
        )
    elif len(allowed) == 1 and len(cpus) > 1:
        yield Finding(
            Slip.ONE_CPU,
            f"all {len(threads)} threads are bound to CPU {allowed}, of {len(cpus)} that the job has",
            _IMPORT,
        )
    elif finding := _narrowed(processes, cpus):
        yield finding
    runnable = [thread for thread in threads if thread.runnable]
    if len(allowed & cpus) > 1 and len(runnable) >= _CROWD and len({thread.last_cpu for thread in runnable}) == 1:
        yield Finding(
            Slip.CROWDED,
            f"all {len(runnable)} threads that want to run are on CPU {runnable[0].last_cpu}, of {len(cpus)} that the job has",
            "isolated CPUs (isolcpus) are not balanced by the kernel; if it stays so, `migctl check`",
        )
    if len(runnable) > _TOO_MANY * len(cpus):
        yield Finding(
            Slip.TOO_MANY_THREADS,
            f"{len(runnable)} threads want to run on {counted(len(cpus), 'logical CPU')}",
            "the job sets its own numbers of workers or threads; use MIGCTL_NUM_WORKERS and leave OMP_NUM_THREADS as it is",
        )
    if planned is not None and workers > max(planned, 0):
        yield Finding(
            Slip.WORKERS,
            f"{counted(workers, 'worker process', 'worker processes')} {are(workers)} alive, {planned} {are(planned)} planned",
            "read MIGCTL_NUM_WORKERS; a second loader (validation) has workers of its own while it is alive",
        )


_IMPORT = (
    "an import, or OMP_PROC_BIND, GOMP_CPU_AFFINITY or KMP_AFFINITY, binds threads: unset it, or set the affinity back to the "
    "CPUs of MIGCTL_CPUSET after the imports"
)


def _narrowed(processes: Sequence[Process], cpus: CpuSet) -> Finding | None:
    """The main process, or several others alike, have lost CPUs.

    Only main threads count: a library may bind its own threads and know what it does. Workers that are bound one CPU each are the
    program's own choice, too.
    """
    where = {process.pid: process.threads[0].cpus & cpus for process in processes}
    first = processes[0].pid
    if len(where[first]) < len(cpus):
        return Finding(
            Slip.NARROWED, f"its main process may run on CPUs {where[first]} only, of {cpus} that the job has", _IMPORT
        )
    alike = Counter(own for own in where.values() if len(own) < len(cpus))
    for own, count in alike.most_common(1):
        if count > 1:
            return Finding(
                Slip.NARROWED,
                f"{count} of its processes may run on CPUs {own} only, of {cpus} that the job has",
                _IMPORT,
            )
    return None


def _threads(count: int, of: int) -> str:
    if of == 1:
        return "its only thread"
    return f"all {of} threads" if count == of else f"{count} of {of} threads"
