"""From two moments' counters to what happened between them."""

from __future__ import annotations

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.seeing.counters import CpuCounters, GroupCounters, JobCounters, ProcessCounters, QueueCounters
from migctl.core.seeing.rates import About, QueueRates, cpus_reading, job_reading, queue_rates
from migctl.core.seeing.readings import JobReading

ABOUT = About(run="r", job="a", cpus=CpuSet({0, 1}), cores=2)


def process(
    pid: int, cpu_s: float, *, started_s: float = 1.0, children_s: float = 0.0, **more: object
) -> ProcessCounters:
    return ProcessCounters(
        pid=pid,
        parent=0,
        started_s=started_s,
        cpu_s=cpu_s,
        children_s=children_s,
        resident_bytes=1 << 20,
        **more,  # type: ignore[arg-type]  # each of its own type
    )


def moment(at_s: float, *processes: ProcessCounters, group: GroupCounters | None = None) -> JobCounters:
    return JobCounters(at_s=at_s, processes=processes, group=group)


def reading(before: JobCounters, after: JobCounters) -> JobReading:
    return job_reading(before, after, ABOUT, QueueRates(), {0: (0.5, 0.1), 1: (1.0, 0.0)})


def test_own_use_is_that_of_all_processes_and_of_its_parts() -> None:
    found = reading(
        moment(100.0, process(1, 5.0), process(2, 1.0, loads_data=True)),
        moment(102.0, process(1, 6.0), process(2, 3.0, loads_data=True), process(3, 0.5, started_s=101.0)),
    )

    assert found.own_cpus == pytest.approx(1.75)
    assert (found.main_cpus, found.busiest_cpus, found.worker_cpus) == (0.5, 1.0, 1.0)
    assert (found.busy_cpus, found.iowait_cpus, found.loads) == (1.5, 0.1, (0.5, 1.0))
    assert found.other_cpus == 0.0
    assert (found.processes, found.workers, found.memory_mib) == (3, 1, 3.0)


def test_a_process_that_is_seen_late_does_not_bring_its_past() -> None:
    found = reading(moment(100.0, process(1, 5.0)), moment(101.0, process(1, 5.0), process(9, 400.0, started_s=50.0)))

    assert found.own_cpus == 0.0


def test_what_a_worker_that_ended_had_used_counts_once() -> None:
    # The parent has waited for it: its 40 seconds are the parent's children's now, of which half a second is new.
    found = reading(moment(100.0, process(1, 5.0), process(2, 40.0)), moment(101.0, process(1, 5.2, children_s=40.5)))

    assert found.own_cpus == pytest.approx(0.7)
    assert found.main_cpus == pytest.approx(0.2)


def test_what_ended_and_is_nobodys_child_takes_nothing_away() -> None:
    found = reading(moment(100.0, process(1, 5.0), process(2, 40.0)), moment(101.0, process(1, 6.0)))

    assert found.own_cpus == pytest.approx(1.0)


def test_a_cgroup_is_believed_before_processes() -> None:
    def group(cpu_s: float, **more: float) -> GroupCounters:
        return GroupCounters(
            cpu_s=cpu_s,
            throttled_s=more.get("throttled_s"),
            pressure_io_s=more.get("pressure_io_s"),
            memory_bytes=5 << 20,
            memory_limit_bytes=64 << 20,
            oom_kills=1,
            read_bytes=int(more.get("read", 0)),
            written_bytes=0,
        )

    found = reading(
        moment(100.0, process(1, 5.0), group=group(7.0, throttled_s=1.0, pressure_io_s=2.0)),
        moment(102.0, process(1, 5.1), group=group(9.0, throttled_s=2.0, pressure_io_s=2.5, read=8 << 20)),
    )

    assert (found.own_cpus, found.throttled_share, found.pressure_io_share) == (1.0, 0.5, 0.25)
    assert (found.memory_mib, found.memory_limit_mib, found.oom_kills) == (5.0, 64.0, 1)
    assert (found.read_mib_s, found.write_mib_s) == (4.0, 0.0)
    assert found.pressure_cpu_share is None


def test_what_nobody_tells_is_unknown_with_its_reason_and_never_0() -> None:
    after = JobCounters(
        at_s=101.0, processes=(process(1, 5.0),), unknown={"iowait_share": "a switch", "own_cpus": "known"}
    )
    found = reading(moment(100.0, process(1, 5.0)), after)

    assert found.iowait_share is None
    assert found.unknown == {"iowait_share": "a switch"}
    assert (found.queued_threads, found.read_mib_s, found.throttled_share) == (None, None, None)


def test_processes_that_are_not_seen_make_all_unknown() -> None:
    found = reading(moment(100.0), moment(101.0))

    assert (found.own_cpus, found.processes, found.workers, found.memory_mib) == (None, None, None, None)


def test_waiting_and_bytes_count_only_for_processes_of_both_moments() -> None:
    def queue(at_s: float, waited: dict[int, float], read: dict[int, int]) -> QueueCounters:
        return QueueCounters(at_s=at_s, waited_s=waited, read_bytes=read, written_bytes={})

    found = queue_rates(queue(10.0, {1: 1.0, 2: 5.0}, {1: 0}), queue(15.0, {1: 3.5, 3: 9.0}, {1: 10 << 20, 3: 99}))

    assert found == QueueRates(queued_threads=0.5, read_mib_s=2.0, write_mib_s=None)


def test_cpus_are_told_in_shares_and_a_counter_that_goes_back_is_nothing() -> None:
    def cpu(busy: float, iowait: float, idle: float) -> CpuCounters:
        return CpuCounters(busy_s=busy, iowait_s=iowait, idle_s=idle)

    found = cpus_reading(
        {0: cpu(1.0, 1.0, 1.0), 1: cpu(1.0, 5.0, 1.0), 2: cpu(0.0, 0.0, 0.0)},
        {0: cpu(1.5, 1.25, 1.25), 1: cpu(2.0, 4.9, 2.0), 3: cpu(9.0, 0.0, 0.0)},
    )

    assert found.shares() == {0: (0.5, 0.25), 1: (0.5, 0.0)}
