"""What is measured of jobs: real processes, and cgroup trees as Linux shows them, of both versions and beside each other."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.seeing.counters import JobCounters
from migctl.core.seeing.rates import About, QueueRates, job_reading
from migctl.core.seeing.readings import JobReading
from migctl.core.seeing.samples import Progress
from migctl.host.cpumeter import CpuMeter
from migctl.host.groupmeter import NO_PRESSURE, GroupMeter
from migctl.host.jobmeter import JobMeter
from migctl.host.keptfile import KeptFile
from migctl.host.kernellog import kernel_records
from migctl.host.strangers import Strangers
from migctl.watch.progress import LogFile, Progressing, last_report

BURN = "import os, sys, time\nwhile time.process_time() < float(sys.argv[1]): pass\nprint('done', flush=True)\ntime.sleep(60)\n"
FAMILY = """\
import os, sys, time
for _ in range(2):
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        time.sleep(60)
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def running(code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def reading(before: JobCounters | None, after: JobCounters | None) -> JobReading:
    assert before is not None
    assert after is not None
    return job_reading(before, after, About(run="r", job="a"), QueueRates(), {})


def test_cpu_time_processes_and_workers_of_a_family() -> None:
    with running(FAMILY) as process:
        assert process.stdout is not None
        process.stdout.readline()
        meter = JobMeter(process.pid, container=False)
        before, began = meter.read(), time.monotonic()
        first = before.processes if before is not None else ()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            time.sleep(0.1)
            after = meter.read()
            if after is not None and sum(one.cpu_s for one in after.processes if one.loads_data) >= 0.5:
                break
        found, took_s = reading(before, after), time.monotonic() - began

        assert (found.processes, found.workers, found.threads) == (3, 2, 3)
        used_s = 0.6 - sum(one.cpu_s for one in first if one.parent == process.pid)
        assert (found.worker_cpus or 0) * took_s == pytest.approx(used_s, abs=0.25)
        assert found.memory_mib is not None
        assert found.memory_mib > 5
        assert found.pressure_io_share is None
        assert "not its own" in found.unknown["pressure_io_share"]
        meter.close()


def test_a_figure_behind_a_switch_names_the_switch() -> None:
    accounted = Path("/proc/sys/kernel/task_delayacct")
    if not accounted.exists() or accounted.read_text().strip() == "1":
        pytest.skip("delays are accounted here")
    with running(BURN, "0") as process:
        meter = JobMeter(process.pid, container=False)
        before = meter.read()
        time.sleep(0.1)
        found = reading(before, meter.read())
        meter.close()

    assert found.iowait_share is None
    assert "kernel.task_delayacct" in found.unknown["iowait_share"]


def test_a_job_that_has_ended_is_none() -> None:
    with running(BURN, "0") as process:
        meter = JobMeter(process.pid, container=False)
        assert meter.read() is not None
        process.kill()
        process.wait()

        assert meter.read() is None
        meter.close()


def test_a_kept_file_of_a_process_is_never_another_ones() -> None:
    with running(BURN, "0") as process:
        file = KeptFile(f"/proc/{process.pid}/stat")
        file.read()
        process.kill()
        process.wait()

        with pytest.raises(OSError, match="No such process"):
            file.read()
        file.close()


def test_all_cpus_are_told() -> None:
    meter = CpuMeter()
    found = meter.read()
    meter.close()

    assert os.sched_getaffinity(0) <= set(found)
    assert all(one.idle_s + one.busy_s > 0 for one in found.values())


def test_who_works_on_a_cpu_is_found_and_own_processes_are_not() -> None:
    cpu = min(os.sched_getaffinity(0))
    strangers = Strangers()
    with running(f"import os\nos.sched_setaffinity(0, {{{cpu}}})\n" + BURN, "1e9") as process:
        time.sleep(0.3)
        strangers.scan()
        time.sleep(0.7)
        strangers.scan()

        assert process.pid in {one.pid for one in strangers.on({cpu}, ())}
        assert process.pid not in {one.pid for one in strangers.on({cpu}, {process.pid})}
        assert process.pid not in {one.pid for one in strangers.on({9999}, ())}


V2 = {
    "cpu.stat": "usage_usec 7000000\nuser_usec 1\nsystem_usec 1\nnr_throttled 4\nthrottled_usec 250000",
    "cpu.pressure": "some avg10=1.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "io.stat": "259:0 rbytes=1048576 wbytes=4096 rios=1 wios=1\n8:0 rbytes=1 wbytes=0",
    "memory.current": "104857600",
    "memory.max": "max",
    "memory.stat": "anon 90000000\ninactive_file 4857600\n",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 1\noom_kill 1",
    "cgroup.procs": "4711\n4712",
}
V1 = {
    "cpuacct/docker/x/cpuacct.usage": "9000000000",
    "cpu/docker/x/cpu.stat": "nr_periods 1\nnr_throttled 1\nthrottled_time 500000000",
    "memory/docker/x/memory.usage_in_bytes": "104857600",
    "memory/docker/x/memory.limit_in_bytes": "209715200",
    "memory/docker/x/memory.stat": "cache 1\ntotal_inactive_file 4857600",
    "memory/docker/x/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2",
    "blkio/docker/x/blkio.throttle.io_service_bytes_recursive": "8:0 Read 10\n8:0 Write 4\n8:0 Total 14\nTotal 14",
    "pids/docker/x/cgroup.procs": "4711",
}
V1_MOUNTS = "\n".join(
    f"3{n} 23 0:2{n} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}"
    for n, name in enumerate(("cpuacct", "cpu", "memory", "blkio", "pids"))
)
V1_GROUPS = "9:cpuacct:/docker/x\n8:cpu:/docker/x\n7:memory:/docker/x\n6:blkio:/docker/x\n5:pids:/docker/x"


def tree(root: Path, groups: str, mounts: str, files: Mapping[str, str]) -> Path:
    texts = {"proc/4711/cgroup": groups, "proc/self/mountinfo": mounts} | {
        f"sys/fs/cgroup/{k}": v for k, v in files.items()
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


def test_a_cgroup_of_version_2(tmp_path: Path) -> None:
    mount = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
    root = tree(tmp_path, "0::/docker/x", mount, {f"docker/x/{k}": v for k, v in V2.items()})
    meter = GroupMeter(4711, root)
    found = meter.read()

    assert found is not None
    assert (found.cpu_s, found.throttled_s) == (7.0, 0.25)
    assert (found.pressure_cpu_s, found.pressure_io_s, found.pressure_memory_s) == (1.5, 2.0, 0.0)
    assert (found.read_bytes, found.written_bytes) == (1048577, 4096)
    assert (found.memory_bytes, found.memory_limit_bytes, found.oom_kills) == (100000000, None, 1)
    assert found.unknown == {}
    assert meter.pids() == (4711, 4712)
    meter.close()


def test_a_cgroup_of_version_1_has_no_pressure_and_says_what_would(tmp_path: Path) -> None:
    meter = GroupMeter(4711, tree(tmp_path, V1_GROUPS, V1_MOUNTS, V1))
    found = meter.read()

    assert found is not None
    assert (found.cpu_s, found.throttled_s) == (9.0, 0.5)
    assert (found.read_bytes, found.written_bytes) == (10, 4)
    assert (found.memory_bytes, found.memory_limit_bytes, found.oom_kills) == (100000000, 209715200, 2)
    assert found.pressure_io_s is None
    assert found.unknown["pressure_io_share"] == NO_PRESSURE
    assert meter.pids() == (4711,)
    meter.close()


def test_a_mounted_version_2_beside_version_1_gives_the_pressure(tmp_path: Path) -> None:
    pressure = {f"unified/docker/x/{name}": text for name, text in V2.items() if name.endswith("pressure")}
    mounts = V1_MOUNTS + "\n50 23 0:50 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
    meter = GroupMeter(4711, tree(tmp_path, V1_GROUPS + "\n0::/docker/x", mounts, {**V1, **pressure}))
    found = meter.read()

    assert found is not None
    assert (found.cpu_s, found.pressure_io_s) == (9.0, 2.0)
    meter.close()


def test_the_root_cgroup_is_nobodys_own(tmp_path: Path) -> None:
    root = tree(tmp_path, "0::/", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", V2)

    assert GroupMeter(4711, root).read() is None


def test_progress_is_read_from_the_end_of_a_growing_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    output = LogFile(str(log))
    assert output.report() is None
    log.write_bytes(b"x" * (1 << 19) + b"\nmigctl: samples=10 wait=1.0\nloss 0.3\nmigctl: samples=2")
    assert output.report() == Progress(10, 1.0)
    assert output.report() is None
    with log.open("ab") as file:
        file.write(b"0 wait=1.5\n50%|###\rmigctl: samples=30 wait=2.0\n")

    assert output.report() == Progress(30, 2.0)
    output.close()


class Told:
    """An output of which each look gives the next report."""

    def __init__(self, *reports: Progress | None) -> None:
        self.reports = list(reports)

    def report(self) -> Progress | None:
        return self.reports.pop(0)

    def close(self) -> None: ...


def test_a_pace_spans_the_last_reports_and_a_new_process_begins_anew() -> None:
    pace = Progressing(
        Told(Progress(0, 0.0), Progress(100, 5.0), None, Progress(200, 6.0), Progress(5, 0.0)), span_s=5.0
    )

    assert pace.pace(0.0) is None
    assert (found := pace.pace(10.0)) is not None
    assert (found.samples_s, found.wait_share) == (10.0, 0.5)
    assert pace.pace(15.0) == found
    assert (found := pace.pace(20.0)) is not None
    assert (found.samples_s, found.wait_share) == (10.0, 0.1)
    assert pace.pace(21.0) is None


def test_no_report_is_none() -> None:
    assert last_report(b"loss 0.3\nmigctl: samples=x\n") is None


def test_the_kernels_log_is_read_or_refused_and_never_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "6,1,9,-;oom-kill:constraint=CONSTRAINT_NONE,task=a,pid=1,uid=0\n6,2,9,-;usb\n4,3,9,-;NVRM: Xid (PCI:0000:3b:00): 79\n"
    )

    assert [line.partition(";")[2][:8] for line in kernel_records(log) or ()] == ["oom-kill", "NVRM: Xi"]
    assert kernel_records(tmp_path / "none") is None
    assert kernel_records() is None or isinstance(kernel_records(), tuple)


def test_where_threads_may_run_is_told(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    with running(f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nprint('ready', flush=True)\n" + BURN, "0") as process:
        assert process.stdout is not None
        process.stdout.readline()
        meter = JobMeter(process.pid, container=False)
        meter.read()

        assert [one.threads[0].cpus for one in meter.placed()] == [CpuSet({cpu})]
        meter.close()
