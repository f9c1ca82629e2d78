"""Short jobs through seven places while supervisors, jobs and (with containers) the engine die at random; what must hold then."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from migctl.core.runs.record import JobState, Record
from migctl.store.ledger import Ledger
from tests.support.engines import BUSYBOX
from tests.support.program import Program

PLACES = 7
RUN = "campaign"
WORK = 'echo "$MIGCTL_JOB $MIGCTL_ATTEMPT" >>"$NOTES/started"; '
_SAMPLE_S = 0.05
"""So often it is looked which attempts have processes."""
_LEAST_S, _MOST_S = 0.1, 0.4
_DEADLINE_S = 3600.0


@dataclass(kw_only=True)
class Campaign:
    """One run of so many jobs.

    Args:
        program: whose folder everything lies in.
        jobs: how many.
        seed: of everything that is random.
        restart_engine: kills the engine and starts it again; `None` = jobs are processes.
    """

    program: Program
    jobs: int
    seed: int
    restart_engine: Callable[[], None] | None = None
    killed: Counter[str] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)
    twice: set[str] = field(default_factory=set)
    """Jobs of which two attempts were seen alive at once."""

    @property
    def docker(self) -> bool:
        return self.restart_engine is not None

    @property
    def notes(self) -> Path:
        return self.program.folder / "notes"

    def run(self) -> Mapping[str, int]:
        """Up, kill and resume until nothing is left, look, and down. Returns how often what was killed, and how jobs ended."""
        dice = random.Random(self.seed)
        self.notes.mkdir(parents=True)
        self.notes.chmod(0o777)
        self.program.environ["NOTES"] = str(self.notes)
        self.program.plan(self._plan(dice))
        watching = threading.Thread(target=self._watch, daemon=True)
        watching.start()
        self.program.up()
        deadline = time.monotonic() + _DEADLINE_S
        while self._open():
            assert time.monotonic() < deadline, "it never came to an end"
            time.sleep(dice.uniform(0.3, 1.2))
            what = dice.choices(("supervisor", "job", "engine"), (4, 5, 1 if self.docker else 0))[0]
            getattr(self, f"_kill_{what}")(dice)
        self._settle()
        self.over.set()
        watching.join()
        ends = self._check()
        self.program.run("down", "--timeout", "0").ended(0)
        assert self.program.instances() == []
        assert self._living() == []
        return {**{f"killed: {what}": n for what, n in self.killed.items()}, **ends}

    def _plan(self, dice: random.Random) -> str:
        lines = [f"name: {RUN}", "oversubscribe: true", f"runtime: {'docker' if self.docker else 'process'}"]
        keys = "profile: 1g.5gb, retries: 1, stop_grace_period: 1s"
        if self.docker:
            keys += f", image: {BUSYBOX}, pull_policy: never, network_mode: none"
            keys += f", volumes: ['{self.notes}:{self.notes}'], environment: {{NOTES: '{self.notes}'}}"
        lines += [f"defaults: {{{keys}}}", "jobs:"]
        for number in range(self.jobs):
            work = f"{WORK}sleep {dice.uniform(_LEAST_S, _MOST_S):.2f}"
            code = 3 if dice.random() < 0.03 else 0
            lines.append(f"  j{number:04d}: {{command: {json.dumps(['sh', '-c', f'{work}; exit {code}'])}}}")
        return "\n".join(lines) + "\n"

    # What dies

    def _kill_supervisor(self, _: random.Random) -> None:
        pid = self.supervisor()
        if pid is None:
            self._resume()
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.killed["supervisor"] += 1
        time.sleep(0.05)
        self._resume()

    def _kill_job(self, dice: random.Random) -> None:
        alive = [r for r in self._records() if r.state is JobState.RUNNING and r.pid is not None]
        if not alive:
            return
        record = dice.choice(alive)
        assert record.pid is not None
        if record.pid_start is not None and _start_ticks(record.pid) != record.pid_start:
            return  # it has ended, and the pid may be another's
        with contextlib.suppress(OSError):
            os.kill(record.pid, signal.SIGKILL)
            self.killed["job"] += 1

    def _kill_engine(self, _: random.Random) -> None:
        assert self.restart_engine is not None
        self.restart_engine()
        self.killed["engine"] += 1

    def _resume(self) -> None:
        done = self.program.run("resume", RUN, "--wait-for", "60")
        assert done.code in (0, 4, 5), done

    def _settle(self) -> None:
        end = time.monotonic() + 60
        while self.supervisor() is not None:
            assert time.monotonic() < end, "the supervisor stays"
            time.sleep(0.1)

    # What must hold

    def _check(self) -> Mapping[str, int]:
        assert self.twice == set(), "two attempts of a job were alive at once"
        with self._ledger() as ledger:
            now = {record.job: record for record in ledger.records(RUN)}
            known = {(r.job, r.attempt): r for r in (*ledger.history(RUN), *now.values())}
        for (job, attempt), record in known.items():
            before = known.get((job, attempt - 1))
            if before is not None:
                assert before.state is not JobState.SUCCEEDED, f"{job} succeeded and ran again"
                assert (record.started_at or math.inf) >= (before.finished_at or 0.0)
        begun = Counter((job, int(n)) for job, n in map(str.split, (self.notes / "started").read_text().splitlines()))
        assert max(begun.values()) == 1, f"an attempt began twice: {begun.most_common(3)}"
        assert begun.keys() <= known.keys(), f"not recorded: {begun.keys() - known.keys()}"
        assert len(now) == self.jobs
        assert all(r.state.ended and r.closed for r in now.values())
        unexplained = [r.job for r in now.values() if r.state is not JobState.SUCCEEDED and not r.reason]
        assert unexplained == []
        owners = Counter((r.instance.gpu_uuid, r.instance.gi_id) for r in now.values() if r.instance is not None)
        assert set(owners.values()) <= {1}
        assert len(self.program.instances()) == len(owners) <= PLACES
        assert self._living() == []
        return {**Counter(f"{r.state.value}" for r in now.values()), "attempts": len(begun)}

    def _open(self) -> bool:
        with self._ledger() as ledger:
            queue = ledger.submissions.queue(RUN)
        assert queue is not None
        if not queue.told and self.supervisor() is None:
            self._resume()
        return not queue.told

    def supervisor(self) -> int | None:
        """The pid of the one that works here."""
        mark = f"MIGCTL_STATE_DIR={self.program.state}".encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                supervising = (
                    entry.name.isdigit() and b"migctl.engine.queueing.supervision" in (entry / "cmdline").read_bytes()
                )
                if supervising and mark in (entry / "environ").read_bytes().split(b"\0"):
                    return int(entry.name)
        return None

    def _watch(self) -> None:
        while not self.over.wait(_SAMPLE_S):
            attempts = Counter(job for job, _ in self._alive())
            self.twice |= {job for job, number in attempts.items() if number > 1}

    def _living(self) -> list[str]:
        return sorted({job for job, _ in self._alive()})

    def _alive(self) -> set[tuple[str, str]]:
        """Jobs and attempts that have a process, by what it carries."""
        mark = f"NOTES={self.notes}".encode()
        found: set[tuple[str, str]] = set()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
                if mark in words:
                    values = dict(word.decode("utf-8", "replace").split("=", 1) for word in words if b"=" in word)
                    if "MIGCTL_JOB" in values:
                        found.add((values["MIGCTL_JOB"], values.get("MIGCTL_ATTEMPT", "")))
        return found

    def _records(self) -> tuple[Record, ...]:
        with self._ledger() as ledger:
            return ledger.records(RUN)

    def _ledger(self) -> Ledger:
        return Ledger.open(self.program.state, write=False, now=time.time)


def _start_ticks(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None


def restarter(folder: Path, environ: Mapping[str, str]) -> Callable[[], None]:
    """Kills the private engine in `folder` and starts it again, with the containers that lived on."""
    script = Path(__file__).parents[2] / "scripts/dockerd"

    def restart() -> None:
        pid = int((folder / "docker.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.02)
        (folder / "docker.pid").unlink(missing_ok=True)
        subprocess.run(
            [script, "start", str(folder), "--live-restore"], check=True, env=dict(environ), stdout=subprocess.DEVNULL
        )

    return restart


def main(jobs: int, folder: Path, docker_folder: Path | None, seed: int) -> Mapping[str, Any]:
    """One campaign in a folder, for scripts/soak."""
    environ = dict(os.environ)
    if docker_folder is not None:
        environ["DOCKER_HOST"] = f"unix://{docker_folder}/docker.sock"
    program = Program(folder, **({"DOCKER_HOST": environ["DOCKER_HOST"]} if docker_folder is not None else {}))
    try:
        return Campaign(
            program=program,
            jobs=jobs,
            seed=seed,
            restart_engine=restarter(docker_folder, environ) if docker_folder is not None else None,
        ).run()
    finally:
        program.clean()
