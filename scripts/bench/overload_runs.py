"""Runs the trainings of one situation in one arrangement, and measures them; by hand as people do it, or by the real `migctl`."""

from __future__ import annotations

import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import overload_processes as processes
from overload_cases import Arrangement, Situation, Training
from rounds import MIGCTL, ROOT

TRAINING = Path(__file__).resolve().with_name("overload_training.py")
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "OPENCV_FOR_THREADS_NUM",
    "PYTHON_CPU_COUNT",
)
PATIENCE_S = 180


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of one arrangement took; start-up (importing PyTorch) is not in it."""

    done_s: float
    """From the common start until the last training is done."""
    total_per_s: float
    """Samples of all trainings."""
    watched_per_s: float
    """Samples of the watched training, else of the slowest."""
    p95_ms: float
    """Batch time of the watched training, else of all."""
    processes: int | None
    memory_mib: float | None
    """With the loaders' queues full; shared pages counted once."""
    switches_per_s: float | None
    others: float
    """Part of the machine's CPU time that nobody here used: how quiet it was, 0 to 1."""
    up_s: float | None
    """What `migctl up` itself took."""


def clean_environment() -> dict[str, str]:
    """The caller's, without thread limits and without anything of migctl."""
    environ = {k: v for k, v in os.environ.items() if k not in THREADS and not k.startswith("MIGCTL_")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return environ


def command(training: Training, situation: Situation, arrangement: Arrangement, folder: Path) -> list[str]:
    """The training's command line; without --workers it takes what migctl hands over."""
    options: dict[str, object] = {
        "name": training.name,
        "folder": folder,
        "batches": training.batches,
        "batch": training.batch,
        "stored": training.stored,
        "size": training.size,
        "images": training.images,
        "step-ms": arrangement.step_ms,
        "step": situation.step,
    }
    if arrangement.how == "by hand":
        options["workers"] = arrangement.workers[training.name]
    return [
        sys.executable,
        str(TRAINING),
        *(word for key, value in options.items() for word in (f"--{key}", str(value))),
    ]


def plan_text(situation: Situation, arrangement: Arrangement, trainings: Sequence[Training], folder: Path) -> str:
    """The plan file of an arrangement; JSON is YAML."""
    jobs: dict[str, Any] = {}
    for training in trainings:
        job: dict[str, Any] = {
            "profile": "1g.5gb",
            "command": command(training, situation, arrangement, folder),
            "environment": dict(arrangement.environment),
        }
        if training.name in arrangement.workers:
            job["num_workers"] = arrangement.workers[training.name]
        jobs[training.name] = job
    return json.dumps({"name": "overload", "runtime": "process", **arrangement.plan, "jobs": jobs}, indent=1)


class Run:
    """One arrangement in a folder of its own; leaving it ends everything that it started."""

    def __init__(self, situation: Situation, arrangement: Arrangement, trainings: Sequence[Training]) -> None:
        self.situation, self.arrangement, self.trainings = situation, arrangement, trainings
        self.children: list[subprocess.Popen[bytes]] = []
        self.up_s: float | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="overload-")))
        self.environ = clean_environment()
        if self.arrangement.how != "by hand":
            self.environ |= {
                "MIGCTL_NVML": "sim:a100-40gb:on",
                "MIGCTL_SIM_STATE": str(self.folder / "gpu.json"),
                "MIGCTL_STATE_DIR": str(self.folder / "state"),
                "MIGCTL_RUN_DIR": str(self.folder / "run"),
                "PYTHONPATH": str(ROOT),
            }
        return self

    def __exit__(self, *_: object) -> None:
        if self.arrangement.how != "by hand":
            self.migctl("down", "--all", "--timeout", "0")
        for child in self.children:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
        self._stack.close()

    def migctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The real command line."""
        return subprocess.run(
            [*MIGCTL, *words], cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False
        )

    def start(self) -> None:
        """All trainings, as far as they start at once."""
        if self.arrangement.how == "by hand":
            for training in self.trainings:
                words = command(training, self.situation, self.arrangement, self.folder)
                with (self.folder / f"{training.name}.log").open("wb") as log:
                    child = subprocess.Popen(
                        words,
                        env={**self.environ, **self.arrangement.environment},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        # As a shell's loop with & does: one session, and so one autogroup of the scheduler (sched(7)). Where each
                        # training has a terminal or a container of its own, the kernel divides the CPUs among these first.
                        start_new_session=self.arrangement.own_sessions,
                        process_group=None if self.arrangement.own_sessions else 0,
                    )
                self.children.append(child)
            return
        plan = self.folder / "plan.yaml"
        plan.write_text(plan_text(self.situation, self.arrangement, self.trainings, self.folder), "utf-8")
        begun = time.monotonic()
        done = self.migctl("up", str(plan))
        self.up_s = time.monotonic() - begun
        if done.returncode:
            raise SystemExit(f"migctl up: exit {done.returncode}\n{done.stdout}{done.stderr}")

    def running(self) -> int:
        """How many trainings have been started."""
        if self.arrangement.key != "queue":
            return len(self.trainings)
        status = json.loads(self.migctl("status", "--json").stdout)
        return sum(job["state"] in {"starting", "running"} for run in status["runs"] for job in run["jobs"])

    def await_files(self, names: Sequence[str], count: int | None = None) -> dict[str, dict[str, Any]]:
        """What these files say once they (or so many of them) are there; a training that died is an error."""
        end = time.monotonic() + PATIENCE_S
        while True:
            there = [name for name in names if (self.folder / name).exists()]
            if len(there) >= (len(names) if count is None else count):
                return {name: json.loads((self.folder / name).read_text("utf-8")) for name in there}
            if time.monotonic() > end or any(child.poll() is not None for child in self.children):
                logs = "".join(path.read_text("utf-8", errors="replace") for path in self.folder.glob("*.log"))
                logs += self.migctl("logs").stdout if self.arrangement.how != "by hand" else ""
                raise SystemExit(f"{self.situation.key}, {self.arrangement.key}: no {names}\n{logs}")
            time.sleep(0.02)

    def touch(self, *names: str) -> None:
        for name in names:
            (self.folder / name).touch()

    def measure(self) -> Outcome:
        """Start, let them work, look at what is alive at the end, let them go."""
        queued = self.arrangement.key == "queue"
        if queued:
            self.touch("fill", "release")  # one that is done makes room for the next
        self.start()
        files = [f"{training.name}.ready" for training in self.trainings]
        roots = {one["pid"] for one in self.await_files(files, self.running()).values()}
        above = processes.parents()
        supervisors = {above[root] for root in roots} if self.arrangement.how != "by hand" else set()
        before = processes.tree(roots, above) | supervisors
        used, switched, machine, own = (
            processes.cpu_s(before),
            processes.switches(before),
            processes.Machine.now(),
            cpu(),
        )
        self.touch("go")

        fixed = [f"{training.name}.json" for training in self.trainings if training.batches]
        self.await_files(fixed)
        self.touch(*(f"{training.name}.stop" for training in self.trainings))
        results = self.await_files([f"{training.name}.json" for training in self.trainings])
        later = processes.Machine.now()
        alive = processes.tree(roots) | supervisors
        ours = processes.cpu_s(alive) - used + cpu() - own
        window_s = later.at - machine.at
        cpus = os.cpu_count() or 1
        others = max(0.0, (later.busy_s - machine.busy_s - ours) / (window_s * cpus))
        switched = processes.switches(alive) - switched

        memory = None
        if not queued:
            self.touch("fill")
            self.await_files([f"{training.name}.filling" for training in self.trainings])
            processes.settle(alive)
            memory = processes.memory_mib(alive)
            self.touch("release")
        self.finish()
        seen = {name.removesuffix(".json"): result for name, result in results.items()}
        self.check(seen)
        return Outcome(
            **speeds(self.situation, seen),
            processes=None if queued else len(alive),
            memory_mib=memory,
            switches_per_s=None if queued else switched / window_s,
            others=float("nan") if queued else others,
            up_s=self.up_s,
        )

    def finish(self) -> None:
        """Until all have ended by themselves."""
        for child in self.children:
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                raise SystemExit(f"{self.situation.key}, {self.arrangement.key}: a training does not end") from None
            if child.returncode:
                raise SystemExit(f"{self.situation.key}, {self.arrangement.key}: exit {child.returncode}")
        if self.arrangement.how != "by hand":
            done = self.migctl("wait", "overload", "--timeout", "60")
            if done.returncode:
                raise SystemExit(f"migctl wait: exit {done.returncode}\n{done.stdout}{done.stderr}")

    def check(self, results: Mapping[str, dict[str, Any]]) -> None:
        """Trainings that migctl put on CPUs of their own really were there."""
        sets = [set(result["cpus"]) for result in results.values()]
        if self.arrangement.how == "migctl" and len(sets) <= (os.cpu_count() or 1) and len(sets) > 1:
            assert sum(map(len, sets)) == len(set().union(*sets)), f"not on CPUs of their own: {sets}"


def cpu() -> float:
    """What this process has used, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def speeds(situation: Situation, results: Mapping[str, dict[str, Any]]) -> dict[str, float]:
    """Time and speed from what the trainings wrote.

    An endless training counts with what it did until the others were done.
    Trainings on the same CPUs that did not overlap ran in turn: their times add up, and what the next one needed to start
    does not count, as it does not for those that start together.
    """
    took = {name: result["ended"] - result["begun"] for name, result in results.items()}
    endless = {training.name for training in situation.trainings if not training.batches}
    end = max(result["ended"] for name, result in results.items() if name not in endless)
    chains: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for name, result in sorted(results.items(), key=lambda item: item[1]["begun"]):
        if name not in endless:
            chains.setdefault(tuple(result["cpus"]), []).append(result)
    spans = [busy_s(chain) for chain in chains.values()]
    samples = sum(
        finished_by(end, result) if name in endless else result["samples"] for name, result in results.items()
    )
    watched = [situation.watched] if situation.watched else list(results)
    batches = sorted(1000 * batch for name in watched for batch in results[name]["batch_s"])
    return {
        "done_s": max(spans),
        "total_per_s": samples / max(spans),
        "watched_per_s": min(results[name]["samples"] / took[name] for name in watched),
        "p95_ms": statistics.quantiles(batches, n=20, method="inclusive")[-1],
    }


def finished_by(end: float, result: Mapping[str, Any]) -> int:
    """Samples of the batches that ended until then."""
    ends = accumulate(result["batch_s"], initial=result["begun"])
    return (sum(1 for ended in ends if ended <= end) - 1) * result["samples"] // max(1, len(result["batch_s"]))


def busy_s(results: Sequence[Mapping[str, Any]]) -> float:
    """Seconds in which at least one of these, in the order of their begin, was at work."""
    total, until = 0.0, float("-inf")
    for result in results:
        total += max(0.0, result["ended"] - max(until, result["begun"]))
        until = max(until, result["ended"])
    return total


def in_turns(situation: Situation, arrangement: Arrangement) -> Outcome:
    """One training after another, each with a plan of its own."""
    parts: list[Outcome] = []
    for training in situation.trainings:
        with Run(situation, arrangement, [training]) as run:
            parts.append(run.measure())
    done_s = sum(part.done_s for part in parts)
    return Outcome(
        done_s=done_s,
        total_per_s=sum(part.total_per_s * part.done_s for part in parts) / done_s,
        watched_per_s=min(part.watched_per_s for part in parts),
        p95_ms=max(part.p95_ms for part in parts),
        processes=max(part.processes or 0 for part in parts),
        memory_mib=None if None in (sizes := [part.memory_mib for part in parts]) else max(s for s in sizes if s),
        switches_per_s=sum((part.switches_per_s or 0) * part.done_s for part in parts) / done_s,
        others=max(part.others for part in parts),
        up_s=max(part.up_s or 0 for part in parts),
    )


def measure(situation: Situation, arrangement: Arrangement) -> Outcome:
    """One run."""
    if arrangement.how == "migctl in turns":
        return in_turns(situation, arrangement)
    with Run(situation, arrangement, situation.trainings) as run:
        return run.measure()


def physical_cores() -> int:
    """As `migctl workers` counts them."""
    with tempfile.TemporaryDirectory() as folder:
        environ = clean_environment() | {"MIGCTL_STATE_DIR": folder, "PYTHONPATH": str(ROOT)}
        shown = subprocess.run(
            [*MIGCTL, "workers", "--json", "--jobs", "1"],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(shown.stdout)
    return int(found["cores"] if "cores" in found else found["rows"][0]["cores"])


def missing_libraries() -> list[str]:
    """What the trainings need and this environment lacks."""
    return [name for name in ("torch", "PIL", "numpy", "cv2") if find_spec(name) is None]
