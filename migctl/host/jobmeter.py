"""All processes of one job, found again as they come and go, with what they and their cgroup have used and where they may run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pinning import Process, Thread, loaders
from migctl.core.seeing.counters import JobCounters, ProcessCounters, QueueCounters
from migctl.host.groupmeter import NO_PRESSURE, GroupMeter
from migctl.host.keptfile import read_once
from migctl.host.processmeter import NO_DELAYS, NO_QUEUE_TIMES, NOT_ALLOWED, ProcessMeter
from migctl.host.proctree import process_tree

_RARELY: Final = 5
"""All processes are asked for children every so many readings; between, only those that have had some."""
_DEEPLY: Final = 6 * _RARELY
"""Readings after which threads other than the first are asked for children, which few programs fork, and command lines are read."""
_INITS: Final = ("docker-init", "tini", "catatonit", "dumb-init")


class JobMeter:
    """One attempt of a job.

    Args:
        pid: its main process.
        container: it has a cgroup of its own.
        root: below which /proc and /sys lie.
    """

    def __init__(self, pid: int, *, container: bool, root: Path = Path("/")) -> None:
        self.pid = pid
        self._root = root
        self._proc = f"{root}/proc".replace("//", "/")
        self._group = GroupMeter(pid, root) if container else None
        self._delays = _delays_accounted(self._proc)
        self._members: dict[int, ProcessMeter] = {}
        self._rounds = pid % _RARELY
        self._sets: dict[frozenset[int], CpuSet] = {}
        self._queue: QueueCounters | None = None
        self._unknown: dict[str, str] = {}
        self._judged: frozenset[int] = frozenset()
        """The members when loaders were last told from others."""

    def read(self) -> JobCounters | None:
        """What the job has used until now; `None` once its main process is gone, or where it is not seen."""
        at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        whole = self._rounds % _RARELY == 0 or self.pid not in self._members
        self._rounds += 1
        group = self._group.read() if self._group is not None else None
        listed = self._group.pids() if self._group is not None else None
        self._keep(listed or self._family(whole))
        found: list[ProcessCounters] = []
        for pid, meter in list(self._members.items()):
            counted = meter.read()
            if counted is None:
                meter.close()
                del self._members[pid]
            else:
                found.append(counted)
        main = self._members.get(self.pid)
        if main is None or main.over:
            return None
        anew = self._rounds % _DEEPLY == 0
        if anew or self._members.keys() != self._judged:
            self._find_loaders(found, anew=anew)
        if whole or self._queue is None:
            self._queue = self._queues(at_s)
            self._unknown = self._reasons(self._queue)
        return JobCounters(at_s=at_s, processes=tuple(found), queue=self._queue, group=group, unknown=self._unknown)

    def pids(self) -> frozenset[int]:
        """The processes of the last reading."""
        return frozenset(self._members)

    def placed(self) -> tuple[Process, ...]:
        """Where all its threads may run now; of each process the main thread first."""
        return tuple(
            Process(pid=pid, parent=0, command=meter.command, threads=threads)
            for pid, meter in self._members.items()
            if meter.comm not in _INITS and (threads := tuple(self._threads(pid, meter.comm)))
        )

    def close(self) -> None:
        """Give the descriptors back."""
        for meter in self._members.values():
            meter.close()
        self._members.clear()
        if self._group is not None:
            self._group.close()

    # -- inside

    def _keep(self, pids: Iterable[int]) -> None:
        wanted = set(pids)
        for pid in self._members.keys() - wanted:
            self._members.pop(pid).close()
        for pid in wanted - self._members.keys():
            self._members[pid] = ProcessMeter(pid, self._proc, delays=self._delays, group=self._group is not None)

    def _family(self, whole: bool) -> list[int]:
        """The main process and all below it."""
        deep = self._rounds % _DEEPLY == 0 or not self._members
        found, waiting = [], [self.pid]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            meter = self._members.get(pid)
            if meter is None:
                meter = self._members[pid] = ProcessMeter(
                    pid, self._proc, delays=self._delays, group=self._group is not None
                )
            elif not whole and not meter.children and pid != self.pid:
                continue
            told = meter.look_at_children()
            if told is None:
                # A kernel without CONFIG_PROC_CHILDREN: all processes are asked for their parents, now and then.
                return [one.pid for one in process_tree(self.pid, self._root)] if whole else list(self._members)
            if deep:
                meter.others = tuple([child for child in self._all_children(pid) if child not in told])
            meter.children = (*told, *meter.others)
            waiting += meter.children
        return found

    def _all_children(self, pid: int) -> tuple[int, ...]:
        """Those of its other threads, too."""
        found: list[int] = []
        try:
            for tid in os.listdir(f"{self._proc}/{pid}/task"):  # noqa: PTH208 -- names alone, many of them
                try:
                    found += [int(word) for word in read_once(f"{self._proc}/{pid}/task/{tid}/children").split()]
                except OSError:
                    continue
        except OSError:
            return ()
        return tuple(found)

    def _find_loaders(self, found: Iterable[ProcessCounters], *, anew: bool) -> None:
        """Which of them load data; `anew`: a process may have become another program since."""
        parents = {one.pid: one.parent for one in found}
        self._judged = frozenset(self._members)
        for meter in self._members.values():
            if anew or not meter.command:
                meter.look_at_command()
        family = [
            Process(
                pid=pid,
                parent=parents[pid] if parents[pid] in parents else 0,
                command=meter.command,
                threads=(Thread(tid=pid, name=meter.comm, cpus=CpuSet(), runnable=False, last_cpu=0),),
            )
            for pid, meter in sorted(self._members.items(), key=lambda item: item[0] != self.pid)
            if pid in parents
        ]
        loading = set(loaders(family))
        for pid, meter in self._members.items():
            meter.loads_data = pid in loading

    def _threads(self, pid: int, comm: str) -> Iterable[Thread]:
        try:
            tids = sorted(int(name) for name in os.listdir(f"{self._proc}/{pid}/task"))  # noqa: PTH208 -- names alone
        except OSError:
            return
        for tid in sorted(tids, key=lambda one: one != pid):
            try:
                mask = frozenset(os.sched_getaffinity(tid))
            except OSError:
                continue  # it has ended
            cpus = self._sets.get(mask)
            if cpus is None:
                cpus = self._sets[mask] = CpuSet(mask)
            yield Thread(tid=tid, name=comm, cpus=cpus, runnable=False, last_cpu=0)

    def _queues(self, at_s: float) -> QueueCounters:
        waited = {pid: value for pid, one in self._members.items() if (value := one.waited_s()) is not None}
        moved = {pid: both for pid, one in self._members.items() if (both := one.bytes()) is not None}
        return QueueCounters(
            at_s=at_s,
            waited_s=waited,
            read_bytes={pid: reads for pid, (reads, _) in moved.items()},
            written_bytes={pid: writes for pid, (_, writes) in moved.items()},
        )

    def _reasons(self, queue: QueueCounters) -> dict[str, str]:
        """Field of `JobReading` → why it is not known."""
        unknown: dict[str, str] = {}
        if not self._delays:
            unknown["iowait_share"] = NO_DELAYS
        if not queue.waited_s:
            unknown["queued_threads"] = NO_QUEUE_TIMES
        if self._group is None:
            shared = "its cgroup is not its own: a process, not a container"
            unknown |= {f"pressure_{name}_share": shared for name in ("cpu", "io", "memory")}
            unknown["throttled_share"] = shared
            unknown["oom_kills"] = shared
            if not queue.read_bytes:
                unknown |= {"read_mib_s": NOT_ALLOWED, "write_mib_s": NOT_ALLOWED}
        else:
            unknown |= {f"pressure_{name}_share": NO_PRESSURE for name in ("cpu", "io", "memory")}
        return unknown


def _delays_accounted(proc: str) -> bool:
    """Whether block I/O delays are accounted: a switch since Linux 5.14, before that on unless booted with nodelayacct."""
    try:
        return Path(f"{proc}/sys/kernel/task_delayacct").read_text("ascii", "replace").strip() == "1"
    except OSError:
        pass
    try:
        return "nodelayacct" not in Path(f"{proc}/cmdline").read_text("utf-8", "replace").split()
    except OSError:
        return False
