"""Planned and real: where a job's threads may run, how many workers live, how many threads want its cores."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pinning import Process, Slip, Thread, loaders, pinning

TRAIN = ("python", "train.py")
OWN = CpuSet.parse("0-3")


def thread(cpus: str = "0-3", *, name: str = "python", runnable: bool = False, last: int = 0) -> Thread:
    return Thread(tid=1, name=name, cpus=CpuSet.parse(cpus), runnable=runnable, last_cpu=last)


def process(
    pid: int, parent: int = 0, command: tuple[str, ...] = TRAIN, threads: Sequence[Thread] = (thread(),)
) -> Process:
    return Process(pid=pid, parent=parent, command=command, threads=tuple(threads))


MAIN = process(1)
TRACKER = process(2, 1, ("python", "-c", "from multiprocessing.resource_tracker import main;main(4)"))
SERVER = process(3, 1, ("python", "-c", "from multiprocessing.forkserver import main; main(3, 6, ['__main__'], **{})"))
SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(7)", "--multiprocessing-fork")
COMPILER = process(4, 1, ("python", "/site/torch/_inductor/compile_worker/__main__.py", "--workers=4"))

FAMILIES = {
    "alone": ([MAIN], 0),
    "forked workers": ([MAIN, process(5, 1), process(6, 1)], 2),
    "a shell around it": ([process(9, 0, ("sh", "-c", "python train.py; true")), process(1, 9), process(5, 1)], 1),
    "an init process around it": (
        [process(9, 0, ("/sbin/docker-init", "--", "python")), process(1, 9), process(5, 1)],
        1,
    ),
    "spawned workers and their tracker": ([MAIN, TRACKER, process(5, 1, SPAWNED), process(6, 1, SPAWNED)], 2),
    "workers of a fork server": (
        [MAIN, TRACKER, SERVER, process(5, 3, SERVER.command), process(6, 3, SERVER.command)],
        2,
    ),
    "compilers load nothing": ([MAIN, COMPILER, process(7, 4, COMPILER.command), process(5, 1)], 1),
    "another program": ([MAIN, process(5, 1, ("nvidia-smi", "-l", "1"))], 0),
    "named by PyTorch": (
        [MAIN, process(5, 1, threads=[thread(name="pt_data_worker")]), process(6, 1), process(7, 1)],
        1,
    ),
    "a kernel-like child without a command line": ([MAIN, process(5, 1, ("",))], 0),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_loader_workers_are_told_from_other_children(name: str) -> None:
    processes, expected = FAMILIES[name]

    assert len(loaders(processes)) == expected


def slips(processes: Sequence[Process], *, cpus: CpuSet = OWN, workers: int | None = 4) -> dict[Slip, str]:
    seen = pinning(processes, cpus=cpus, cores=len(cpus), num_workers=workers)
    assert seen is not None
    return {finding.slip: finding.message for finding in seen.findings}


def test_a_job_that_is_where_it_was_pinned_has_no_findings() -> None:
    seen = pinning(
        [process(1, threads=[thread(), thread(runnable=True)]), process(5, 1), process(6, 1)],
        cpus=OWN,
        cores=2,
        num_workers=2,
    )

    assert seen is not None
    assert seen.findings == ()
    assert (seen.processes, seen.threads, seen.runnable, seen.workers, seen.threads_per_core) == (3, 4, 1, 2, 2.0)


def test_nothing_is_said_of_what_is_not_seen() -> None:
    assert pinning([], cpus=OWN, cores=4, num_workers=4) is None


@pytest.mark.parametrize(
    ("processes", "slip", "message"),
    [
        (
            [process(1, threads=[thread("0-7"), thread("0-3")])],
            Slip.OUTSIDE,
            "1 of 2 threads may run on CPUs 4-7, which are not the job's (0-3)",
        ),
        ([process(1, threads=[thread("9")])], Slip.OUTSIDE, "its only thread may run on CPUs 9"),
        (
            [process(1, threads=[thread("2"), thread("2")]), process(5, 1, threads=[thread("2")])],
            Slip.ONE_CPU,
            "all 3 threads are bound to CPU 2, of 4 that the job has",
        ),
        (
            [process(1, threads=[thread("0"), thread("0-3")]), process(5, 1)],
            Slip.NARROWED,
            "its main process may run on CPUs 0 only, of 0-3 that the job has",
        ),
        (
            [MAIN, process(5, 1, threads=[thread("0-1")]), process(6, 1, threads=[thread("0-1")])],
            Slip.NARROWED,
            "2 of its processes may run on CPUs 0-1 only",
        ),
    ],
)
def test_another_affinity_than_planned_is_drift(processes: list[Process], slip: Slip, message: str) -> None:
    seen = pinning(processes, cpus=OWN, cores=4, num_workers=4)

    assert seen is not None
    (finding,) = seen.findings
    assert finding.slip is slip
    assert finding.drift
    assert message in finding.message
    assert finding.hint


@pytest.mark.parametrize(
    "processes",
    [
        # the guide's own advice, taken for each worker: a CPU each
        [MAIN, *(process(5 + n, 1, threads=[thread(str(n))]) for n in range(4))],
        # a library binds its pool, one thread a CPU
        [process(1, threads=[thread(), *(thread(str(n)) for n in range(4))])],
    ],
)
def test_programs_may_divide_their_own_cpus(processes: list[Process]) -> None:
    assert slips(processes) == {}


@pytest.mark.parametrize(
    ("runnable", "found"),
    [
        ([0, 0, 0], {Slip.CROWDED}),
        ([0, 0], set()),  # two meet by chance
        ([0, 0, 1], set()),
        ([0, 1, 2, 3, 0, 1, 2, 3], set()),
        ([0, 1, 2, 3, 0, 1, 2, 3, 0], {Slip.TOO_MANY_THREADS}),
    ],
)
def test_threads_that_want_to_run_need_cpus(runnable: list[int], found: set[Slip]) -> None:
    threads = [thread(runnable=True, last=cpu) for cpu in runnable]

    assert set(slips([process(1, threads=threads)])) == found


def test_one_cpu_of_one_is_as_planned_and_can_still_be_crowded() -> None:
    only = CpuSet({2})
    quiet, busy = [thread("2")] * 5, [thread("2", runnable=True, last=2)] * 3

    assert slips([process(1, threads=quiet)], cpus=only) == {}
    assert slips([process(1, threads=busy)], cpus=only) == {
        Slip.TOO_MANY_THREADS: "3 threads want to run on 1 logical CPU"
    }


@pytest.mark.parametrize(("planned", "found"), [(1, True), (2, False), (4, False), (None, False), (0, True)])
def test_more_workers_than_planned_are_told_and_fewer_are_not(planned: int | None, found: bool) -> None:
    assert (Slip.WORKERS in slips([MAIN, process(5, 1), process(6, 1)], workers=planned)) is found
