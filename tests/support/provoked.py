"""Situations that hold a training back, made on purpose: real processes with what is to be said of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from migctl.core.ending.causes import Cause
from migctl.core.seeing.diagnose import Patience
from migctl.core.seeing.verdicts import Kind, Verdict
from migctl.engine.session import Session
from migctl.watch.sampler import Sampler
from migctl.watch.watcher import Watcher
from tests.support.program import BOARD, Program

TRAINING = Path(__file__).with_name("provoked_training.py")
CPUS = sorted(os.sched_getaffinity(0))
PATIENCE = Patience(
    start_s=0.3, window_s=1.5, one_process_s=2.0, idle_s=2.5, moment_s=0.5, throttled_s=1.5, between_s=0.2
)
"""A tenth of what people are given: the situations here hold from the first moment."""
WATCHED_S = 2.5
EVERY_S = 0.2

BURN = """\
import os
os.setsid()
try:
    os.nice(-5)
    open("/proc/self/autogroup", "w").write("-5")
except OSError:
    pass
os.sched_setaffinity(0, {%d})
while True:
    pass
"""
OUT_OF_SHM = """\
import mmap, os, subprocess, sys
folder = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
with open(folder + "/torch_1", "w+b") as file:
    file.truncate(8 << 20)
    mmap.mmap(file.fileno(), 8 << 20)[:] = b"1" * (8 << 20)
"""
OUT_OF_MEMORY = """\
import os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
held = []
while True:
    held.append(bytearray(os.urandom(1 << 20)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One job that is held back."""

    words: tuple[str, ...] = ()
    """Of the training."""
    kind: Kind
    cpus: str = ""
    strangers: bool = False
    """Somebody burns all its CPUs."""
    slow_disk: bool = False


def two_cpus() -> str:
    """The first two logical CPUs."""
    return f"{CPUS[0]},{CPUS[-1]}"


# Each group runs at once, a job a CPU; two that need both run alone.
GROUPS: Mapping[str, Mapping[str, Situation]] = {
    "loader-and-step": {
        "loader": Situation(words=("--load-cpu", "0.02", "--step", "0.002"), kind=Kind.CPU_BOUND, cpus=str(CPUS[0])),
        "step": Situation(words=("--load-cpu", "0.001", "--step", "0.05"), kind=Kind.GPU_BOUND, cpus=str(CPUS[-1])),
    },
    "disk-and-stranger": {
        "disk": Situation(words=("--step", "0.002"), kind=Kind.DISK_BOUND, cpus=str(CPUS[-1]), slow_disk=True),
        "stranger": Situation(
            words=("--load-cpu", "0.02", "--step", "0.002", "--nice", "0"),
            kind=Kind.OVERSUBSCRIBED,
            cpus=str(CPUS[0]),
            strangers=True,
        ),
    },
    "affinity": {
        "affinity": Situation(
            words=("--load-cpu", "0.001", "--step", "0.05", "--narrow"), kind=Kind.AFFINITY_LOST, cpus=two_cpus()
        ),
    },
}
ENDED: Mapping[str, Cause] = {"shm": Cause.SHM, "memory": Cause.CGROUP_MEMORY}


@dataclass
class Stage:
    """A folder with the program in it; `groups` are cgroups that hold a training back."""

    program: Program
    groups: list[Path] = field(default_factory=list)

    def plan(self, jobs: Mapping[str, tuple[str, Sequence[str]]], *, oversubscribe: bool = False) -> None:
        """One plan of processes: job → (CPUs, words)."""
        lines = ["name: provoked", "runtime: process", "gpu: all", "jobs:"]
        for name, (cpus, words) in jobs.items():
            quoted = ", ".join(f"'{word}'" for word in words)
            lines.append(f"  {name}: {{profile: 1g.5gb, num_workers: 1, cpuset: '{cpus}', command: [{quoted}]}}")
        if oversubscribe:
            lines.insert(2, "oversubscribe: true")
        self.program.plan("\n".join(lines) + "\n")

    @contextmanager
    def slow_disk(self, path: Path) -> Iterator[str]:
        """A cgroup in which this file's device gives 2 MiB a second; nothing where there is none to be had."""
        root = Path("/sys/fs/cgroup/blkio")
        device = path.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        if os.geteuid() != 0 or not (root / "blkio.throttle.read_bps_device").exists():
            yield ""
            return
        folder = root / f"migctl-test-{os.getpid()}-{time.monotonic_ns()}"
        folder.mkdir()
        try:
            try:
                (folder / "blkio.throttle.read_bps_device").write_text(f"{number} {2 << 20}")
            except OSError:
                yield ""
            else:
                yield str(folder)
        finally:
            removed(folder)

    @contextmanager
    def small_memory(self) -> Iterator[str]:
        """A cgroup with 64 MiB; nothing where there is none to be had."""
        for root, name in (
            (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
            (Path("/sys/fs/cgroup"), "memory.max"),
        ):
            if os.geteuid() != 0 or not root.is_dir():
                continue
            folder = root / f"migctl-test-{os.getpid()}-{time.monotonic_ns()}"
            try:
                folder.mkdir()
                (folder / name).write_text(str(64 << 20))
            except OSError:
                removed(folder)
                continue
            try:
                yield str(folder)
            finally:
                removed(folder)
            return
        yield ""


def removed(folder: Path) -> None:
    """The cgroup is gone once its last process is."""
    for _ in range(100):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return


@contextmanager
def burning(cpus: Sequence[int]) -> Iterator[None]:
    """Processes of nobody's that use these CPUs."""
    with contextlib.ExitStack() as stack:
        for cpu in cpus:
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", BURN % cpu]))
            stack.callback(process.kill)
        yield


def provoke(stage: Stage, name: str) -> Mapping[str, tuple[Verdict, ...]]:
    """Start a group, watch it, and take it down: job → what was said of it at the end."""
    group = GROUPS[name]
    with contextlib.ExitStack() as stack:
        jobs: dict[str, tuple[str, Sequence[str]]] = {}
        strangers: list[int] = []
        for job, situation in group.items():
            words = [sys.executable, str(TRAINING), *situation.words]
            if situation.slow_disk:
                data = stage.program.folder / "data"
                words += [
                    "--load-disk",
                    str(data),
                    "--cgroup",
                    stack.enter_context(stage.slow_disk(stage.program.folder)),
                ]
            if situation.strangers:
                strangers += [int(cpu) for cpu in situation.cpus.split(",")]
            jobs[job] = (situation.cpus, words)
        stage.plan(jobs)
        stack.enter_context(burning(strangers))
        stack.callback(stage.program.run, "down", "--timeout", "0")
        stage.program.up()
        return watch(stage.program, set(jobs))


def watch(
    program: Program, jobs: set[str], until: Callable[[], bool] = lambda: False
) -> Mapping[str, tuple[Verdict, ...]]:
    """What a watcher says of these jobs after a while."""
    session = Session(environ=program.environ, nvml=program.environ["MIGCTL_NVML"] or BOARD)
    said: Mapping[str, tuple[Verdict, ...]] = {}
    with Watcher(Sampler(session, gpu_every_s=1.0, span_s=1.5), PATIENCE) as watcher:
        begun: float | None = None
        deadline = time.monotonic() + 20
        while (begun is None or time.monotonic() < begun + WATCHED_S) and time.monotonic() < deadline and not until():
            seen = watcher.look()
            if seen is not None:
                if begun is None and all(f"provoked/{job}" in seen.diagnosis.jobs for job in jobs):
                    begun = time.monotonic()
                said = {name.partition("/")[2]: verdicts for name, verdicts in seen.diagnosis.jobs.items()}
            time.sleep(EVERY_S)
    return said


def end_badly(stage: Stage) -> Mapping[str, str]:
    """Start what cannot go well, wait, and tell: job → reason; a situation that cannot be had here is left out."""
    with contextlib.ExitStack() as stack:
        jobs: dict[str, tuple[str, Sequence[str]]] = {}
        if os.geteuid() == 0:
            shm = stage.program.folder / "shm"
            shm.mkdir(exist_ok=True)
            jobs["shm"] = (str(CPUS[0]), ["unshare", "--mount", sys.executable, "-c", "@shm", str(shm)])
        if folder := stack.enter_context(stage.small_memory()):
            jobs["memory"] = (str(CPUS[-1]), [sys.executable, "-c", "@memory", folder])
        if not jobs:
            return {}
        for name, text in (("shm", OUT_OF_SHM), ("memory", OUT_OF_MEMORY)):
            (stage.program.folder / f"{name}.py").write_text(text, "utf-8")
        plan = {
            name: (
                cpus,
                [str(stage.program.folder / f"{name}.py") if w == f"@{name}" else w for w in words if w != "-c"],
            )
            for name, (cpus, words) in jobs.items()
        }
        stage.plan(plan)
        stack.callback(stage.program.run, "down", "--timeout", "0")
        stage.program.up()
        stage.program.run("wait", "--timeout", "30")
        return {name: str(job["reason"]) for name, job in stage.program.jobs().items()}
