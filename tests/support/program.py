"""The real program as processes, each test's in folders of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BOARD = "sim:a100-40gb"


class Program:
    """`migctl` as a user of one folder calls it, on a simulated GPU."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.python = sys.executable
        self.prefix: tuple[str, ...] = ()
        """Words before the program: `setpriv …`."""
        self.state = folder / "state"
        self.simulator = folder / "simulator.json"
        self.claims = folder / "run"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MIGCTL_", "SUDO_")) and k != "COLUMNS"}
        self.environ = {
            **kept,
            "PYTHONPATH": str(ROOT),
            "LC_ALL": "C.UTF-8",
            "MIGCTL_NVML": BOARD,
            "MIGCTL_STATE_DIR": str(self.state),
            "MIGCTL_RUN_DIR": str(self.claims),
            "MIGCTL_SIM_STATE": str(self.simulator),
            "MIGCTL_RECORDING": "off",
            **environ,
        }

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        """The command's process, not waited for."""
        return subprocess.Popen(
            [*self.prefix, self.python, "-m", "migctl", *words],
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **environ: str) -> Done:
        """The command, ended; whatever it says, it never says a traceback and never colours a pipe."""
        with self.start(*words, **environ) as process:
            try:
                out, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        done = Done(words, process.returncode, out, err)
        assert "Traceback" not in err, done
        assert "\x1b" not in out + err, done
        return done

    def up(self, *words: str, **environ: str) -> Done:
        """`migctl up` that must succeed."""
        return self.run("up", *words, **environ).ended(0)

    def json(self, *words: str, **environ: str) -> Any:
        """The one object that a command prints with --json."""
        return json.loads(self.run(*words, "--json", **environ).out)

    def jobs(self) -> Mapping[str, Any]:
        """Job → what `status` says of it."""
        return {job["name"]: job for run in self.json("status")["runs"] for job in run["jobs"]}

    def log(self, run: str, job: str, attempt: int = 1) -> str:
        """What an attempt of a process job has written so far, read without a command: for tests that wait for it."""
        path = self.state / "runs" / run / job / str(attempt) / "log"
        return path.read_text("utf-8") if path.exists() else ""

    def plan(self, text: str, name: str = "plan.yaml") -> Path:
        """A plan file in the folder."""
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path

    def instances(self, gpu: int = 0) -> list[Any]:
        """What is on the simulated GPU, read from its state file and not through migctl."""
        if not self.simulator.exists():
            return []
        found: list[Any] = json.loads(self.simulator.read_text("utf-8"))["gpus"][gpu]["instances"]
        return found

    def clean(self) -> None:
        """End what a test left; what has a job or an instance has a claim or a queue, and most tests leave neither."""
        claims = Path(self.environ["MIGCTL_RUN_DIR"]).glob("*.json")
        queues = Path(self.environ["MIGCTL_STATE_DIR"]).glob("runs/*/@queue.json")
        if not any(claims) and not any(queues):
            return
        with contextlib.suppress(subprocess.TimeoutExpired), self.start("down", "--all", "--timeout", "0") as process:
            process.communicate(timeout=60)


class Done:
    """An ended command, whose text is the whole story where an assertion fails."""

    def __init__(self, words: tuple[str, ...], code: int, out: str, err: str) -> None:
        self.words, self.code, self.out, self.err = words, code, out, err

    def __repr__(self) -> str:
        return f"$ migctl {' '.join(self.words)}\n[exit {self.code}]\n{self.out}\n{self.err}"

    @property
    def told(self) -> str:
        """What stderr says, its lines joined: where a line is folded is of no interest here."""
        return " ".join(self.err.split())

    def ended(self, code: int) -> Done:
        """This, once its exit code is as expected."""
        assert self.code == code, self
        return self
