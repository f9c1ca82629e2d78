"""What /proc tells of real processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pinning import loaders
from migctl.host.cputimes import cpu_times
from migctl.host.procfs import own_affinity
from migctl.host.proctree import process_tree, tree_cpu_s

FAMILY = """
import os, sys, threading, time
cpu = int(sys.argv[1])
there, told = os.pipe()
for _ in range(2):
    if os.fork() == 0:
        os.sched_setaffinity(0, {cpu})
        os.write(told, b"x")
        time.sleep(600)
    os.read(there, 1)
stop = threading.Event()
threading.Thread(target=stop.wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
for pid in [int(p) for p in open(f"/proc/self/task/{os.getpid()}/children").read().split()]:
    os.kill(pid, 9)
"""
BUSY = """
import os, sys, time
pid = os.fork()
if pid == 0:
    end = time.process_time() + 0.5
    while time.process_time() < end: pass
    os._exit(0)
os.waitpid(pid, 0)
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def running(program: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def pretend(root: Path, pid: int, parent: int, threads: dict[int, str], command: str = "python\0train.py\0") -> None:
    """A process as /proc shows it; a thread's text is its state and its last CPU."""
    folder = root / f"proc/{pid}"
    for tid, text in threads.items():
        state, last = text.split()
        stat = f"{tid} (py (a) b) {state} {parent} 1 1 0 -1 4194560 1 0 0 0 70 30 20 10 20 0 1 0 500 1 1 {'0 ' * 14}{last} 0 0"
        task = folder / f"task/{tid}"
        task.mkdir(parents=True)
        (task / "stat").write_text(stat, "utf-8")
        (task / "status").write_text("Name:\tpython\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n", "utf-8")
        if tid == pid:
            (folder / "stat").write_text(stat, "utf-8")
    (folder / "cmdline").write_text(command, "utf-8")


def test_a_kernel_without_children_files_is_asked_for_parents(tmp_path: Path) -> None:
    pretend(tmp_path, 10, 1, {10: "S 3", 12: "R 1"})
    pretend(tmp_path, 11, 10, {11: "R 2"})
    pretend(tmp_path, 13, 11, {13: "D 0"})
    pretend(tmp_path, 14, 1, {14: "R 0"})
    pretend(tmp_path, 15, 10, {15: "Z 0"}, command="")

    found = process_tree(10, tmp_path)

    assert [(one.pid, one.parent) for one in found] == [(10, 0), (11, 10), (13, 11)]
    assert [(thread.tid, thread.runnable, thread.last_cpu) for thread in found[0].threads] == [
        (10, False, 3),
        (12, True, 1),
    ]
    assert found[0].threads[0].cpus == CpuSet.parse("0-3")
    assert found[0].command == ("python", "train.py")
    assert loaders(found) == (11, 13)
    # Zombies have used their time, too, and their parent has not taken it over yet.
    assert tree_cpu_s(10, tmp_path) == 4 * 130 / os.sysconf("SC_CLK_TCK")


def test_a_family_is_seen_with_its_threads_and_where_they_may_run() -> None:
    cpu = min(own_affinity())
    with running(FAMILY, str(cpu)) as process:
        found = process_tree(process.pid)

        assert found[0].pid == process.pid
        assert [one.parent for one in found] == [0, process.pid, process.pid]
        assert [len(one.threads) for one in found] == [2, 1, 1]
        assert {one.threads[0].cpus for one in found[1:]} == {CpuSet({cpu})}
        assert found[0].threads[0].cpus == own_affinity()
        assert found[0].command[0] == sys.executable
        assert loaders(found) == tuple(one.pid for one in found[1:])


def test_time_of_children_that_have_ended_is_counted_once() -> None:
    with running(BUSY) as process:
        took = tree_cpu_s(process.pid)

        assert took is not None
        assert 0.4 <= took < 0.9  # counted in ticks of the kernel; twice would be 1.0 and more


def test_a_process_that_is_gone_has_no_family() -> None:
    done = subprocess.Popen(["true"])
    done.wait()

    assert process_tree(done.pid) == ()
    assert tree_cpu_s(done.pid) is None


def test_cpu_times_are_sums_over_the_cpus(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    tick = os.sysconf("SC_CLK_TCK")
    rows = [f"cpu{n} {tick} 0 {tick} {4 * tick} {2 * tick} 0 {tick} {tick} 900 900" for n in range(3)]
    (tmp_path / "proc/stat").write_text("cpu 9 9 9 9 9\n" + "\n".join(rows) + "\nintr 5\nctxt 1\n", "ascii")

    times = cpu_times(CpuSet({0, 2}), tmp_path)

    assert times is not None
    assert (times.busy_s, times.idle_s, times.iowait_s) == (8.0, 8.0, 4.0)
    assert cpu_times(CpuSet({0, 3}), tmp_path) is None
    assert cpu_times(CpuSet(), tmp_path) is None
    assert cpu_times(CpuSet({0}), tmp_path / "nowhere") is None


def test_this_machine_tells_its_times() -> None:
    cpu = CpuSet({min(own_affinity())})
    first, second = cpu_times(cpu), cpu_times(cpu)

    assert first is not None
    assert second is not None
    assert second.busy_s + second.idle_s + second.iowait_s >= first.busy_s + first.idle_s
