# ruff: noqa: T201 -- what it prints is what it is for
"""Campaigns of watching: situations provoked over and over, and healthy programs of which nothing bad may be said."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from migctl.core.seeing.diagnose import Patience
from migctl.core.seeing.verdicts import Kind, Level, Verdict
from migctl.engine.session import Session
from migctl.watch.recorder import Recorder
from migctl.watch.sampler import Sampler
from migctl.watch.watcher import Watcher
from tests.support import provoked
from tests.support.program import BOARD, Program

WORDS = {"shm": "/dev/shm too small", "memory": "out of memory"}
NEEDED = 19 / 20
"""Part of the runs of a situation in which the verdict must be right."""

HEALTHY: Mapping[str, tuple[str, ...]] = {
    "bound-by-its-step": ("--load-cpu", "0.001", "--step", "0.05"),
    "slow-steps": ("--load-cpu", "0.004", "--step", "0.3"),
    "two-workers": ("--load-cpu", "0.002", "--step", "0.08", "--workers", "2"),
    "four-workers": ("--load-cpu", "0.002", "--step", "0.1", "--workers", "4"),
    "silent": ("--load-cpu", "0.001", "--step", "0.05", "--silent"),
    "silent-and-slow": ("--load-cpu", "0.001", "--step", "0.5", "--silent"),
    "reads-a-little": ("--load-disk", "@data", "--load-cpu", "0.001", "--step", "0.2"),
    "rare-batches": ("--load-cpu", "0.02", "--step", "1.0"),
    "quick-batches": ("--load-cpu", "0.0002", "--step", "0.02"),
    "many-idle-workers": ("--load-cpu", "0.001", "--step", "0.2", "--workers", "6"),
}
"""Ten programs that wait for their GPU, as they should; together they use half a core."""
HARMLESS = frozenset({Kind.GPU_BOUND, Kind.UNKNOWN, Kind.CPU_IDLE})


def provoke(folder: Path, times: int) -> bool:
    """Each situation so many times; prints how often the verdict was right, and returns whether that was often enough."""
    right: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(times):
        stage = stage_in(folder / f"provoked-{number}")
        for group, situations in provoked.GROUPS.items():
            said = provoked.provoke(stage, group)
            for job, situation in situations.items():
                first = said.get(job, ())[:1]
                if [verdict.kind for verdict in first] == [situation.kind]:
                    right[job] += 1
                else:
                    wrong.append(
                        f"{job}: {first[0].kind.value if first else 'nothing'} instead of {situation.kind.value}"
                    )
        for name, reason in provoked.end_badly(stage).items():
            if WORDS[name] in reason:
                right[name] += 1
            else:
                wrong.append(f"{name}: {reason}")
        stage.program.clean()
    names = [*(job for jobs in provoked.GROUPS.values() for job in jobs), *provoked.ENDED]
    print("what holds back: " + ", ".join(f"{name} {right[name]} of {times}" for name in names))
    for line in wrong:
        print(f"  {line}")
    return all(right[name] >= NEEDED * times for name in names)


def stage_in(folder: Path) -> provoked.Stage:
    """A folder of its own."""
    folder.mkdir(parents=True)
    return provoked.Stage(Program(folder, DOCKER_HOST=f"unix://{folder}/no-engine.sock"))


def watch_healthy(folder: Path, seconds: float) -> bool:
    """Ten healthy programs for so long; prints what was said of them, and returns whether nothing was wrong with it."""
    stage = stage_in(folder / "healthy")
    program = stage.program
    cpus = provoked.CPUS
    jobs = {
        name: (str(cpus[n % len(cpus)]), [sys.executable, str(provoked.TRAINING), *_words(words, program.folder)])
        for n, (name, words) in enumerate(HEALTHY.items())
    }
    program.environ["MIGCTL_NVML"] = f"{BOARD}x2"
    stage.plan(jobs, oversubscribe=True)
    alarms: list[str] = []
    said: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        stack.callback(program.clean)
        program.up()
        session = Session(environ=program.environ, nvml=program.environ["MIGCTL_NVML"])
        recorder = Recorder(session.paths.state)
        before: dict[str, frozenset[Kind]] = {}
        with Watcher(Sampler(session), Patience(), keep=(recorder.add,)) as watcher:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                seen = watcher.look()
                for name, verdicts in seen.diagnosis.jobs.items() if seen is not None else ():
                    now = frozenset(verdict.kind for verdict in verdicts)
                    fresh = [v for v in verdicts if v.kind not in before.get(name, frozenset())]
                    said.update(v.kind.value for v in fresh)
                    alarms += [_line(name, v) for v in fresh if v.level is Level.ALARM or v.kind not in HARMLESS]
                    before[name] = now
                time.sleep(1)
        recorder.close()
    print(f"healthy programs: {len(jobs)} for {seconds:.0f} s, {dict(said)}: {len(alarms)} alarms")
    for line in alarms:
        print(f"  {line}")
    return not alarms


def _words(words: tuple[str, ...], folder: Path) -> list[str]:
    return [str(folder / "data") if word == "@data" else word for word in (*words, "--nice", "0")]


def _line(name: str, verdict: Verdict) -> str:
    return f"{name}: {verdict.title}: {verdict.message}"
