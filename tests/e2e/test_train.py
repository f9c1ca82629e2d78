"""compose/train/train.py with real PyTorch on CPUs: alone, and as a job of `migctl up`."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engines import missing
from tests.support.program import Program

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "compose/train/train.py"
LINE = re.compile(r"(?m)^migctl: samples=(\d+) wait=(\d+\.\d+)$")


@pytest.fixture(scope="module", autouse=True)
def _pytorch() -> None:
    if lacking := [name for name in ("torch", "PIL", "numpy") if importlib.util.find_spec(name) is None]:
        missing(f"not installed: {', '.join(lacking)} (pip install --group bench)")


class Training:
    """The script in a folder of its own, every warning an error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.checkpoint = folder / "train.pt"
        # One thread each: several tests share the machine, and threads of PyTorch spin while they wait for each other.
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MIGCTL_")}
        self.environ = {**kept, "OMP_NUM_THREADS": "1"}

    def words(self, *options: str) -> list[str]:
        batch = () if "MIGCTL_BATCH_SIZE" in self.environ else ("--batch-size", "8")
        return [sys.executable, "-W", "error", str(SCRIPT), "--size", "16", *batch, *options]

    def start(self, *options: str, **environ: str) -> subprocess.Popen[bytes]:
        """In a session of its own, with its output in `log`."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.words(*options),
                cwd=self.folder,
                env=self.environ | environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def run(self, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*options),
            cwd=self.folder,
            env=self.environ | environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def await_log(self, pattern: str) -> str:
        end = time.monotonic() + 90
        while not (found := re.search(pattern, self.log.read_text("utf-8"))):
            assert time.monotonic() < end, self.log.read_text("utf-8")
            time.sleep(0.05)
        return found[0]

    def saved_step(self) -> int:
        """The checkpoint's step; it is whole, or this fails."""
        import torch

        return int(torch.load(self.checkpoint, weights_only=True)["step"])


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path)


@pytest.fixture
def endless(training: Training) -> Iterator[subprocess.Popen[bytes]]:
    """One that has started to train, with two workers, and would go on for hours."""
    process = training.start("--samples", "8000000", "--workers", "2", "--checkpoint-every", "5")
    try:
        training.await_log(LINE.pattern)
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def alive(session: int) -> list[int]:
    """Processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                fields = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_it_trains_to_the_end_tells_its_speed_and_resume_finds_nothing_left(training: Training) -> None:
    done = training.run("--samples", "100", "--epochs", "2", "--workers", "2")

    told = [int(samples) for samples, _ in LINE.findall(done.stdout)]
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert told == sorted(told)
    assert told[-1] == 200
    assert training.saved_step() == 26  # thirteen batches an epoch, the last one of four

    again = training.run("--samples", "100", "--epochs", "2", "--workers", "2", "--resume")

    assert again.returncode == 0, again.stdout + again.stderr
    assert "goes on at step 26" in again.stdout
    assert training.saved_step() == 26


def test_it_takes_what_migctl_hands_over_and_keeps_nothing_of_a_trial(training: Training) -> None:
    path = training.folder / "samples"
    training.environ |= {
        "MIGCTL_JOB": "alpha",
        "MIGCTL_NUM_WORKERS": "0",
        "MIGCTL_BATCH_SIZE": "20",
        "MIGCTL_SAMPLES_FILE": str(path),
    }
    done = training.run("--samples", "40", "--resume")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "alpha: no GPU, 0 workers, batch size 20" in done.stdout
    assert list(training.folder.glob("*.pt")) == []
    assert path.read_text("utf-8").splitlines()[-1].startswith("migctl: samples=40 wait=")
    assert "migctl:" not in done.stdout


def test_sigterm_to_the_whole_group_costs_no_checkpoint_and_resume_goes_on(
    training: Training, endless: subprocess.Popen[bytes]
) -> None:
    os.killpg(endless.pid, signal.SIGTERM)

    assert endless.wait(60) == 143
    step = int(training.await_log(r"stopped at step \d+").split()[-1])
    assert "killed by signal" not in training.log.read_text("utf-8")
    assert training.saved_step() == step
    assert alive(endless.pid) == []

    again = training.start("--samples", "8000000", "--workers", "1", "--resume")
    training.await_log(f"goes on at step {step}\n")
    again.terminate()
    assert again.wait(60) == 143
    assert training.saved_step() > step


def test_a_kill_leaves_a_whole_checkpoint_and_no_workers(training: Training, endless: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while not training.checkpoint.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert len(alive(endless.pid)) == 3  # itself and two workers
    endless.kill()
    endless.wait()

    assert training.saved_step() % 5 == 0
    while alive(endless.pid):  # a worker looks for its parent every five seconds
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_folder_of_pictures_is_a_dataset(training: Training) -> None:
    make = (
        "from PIL import Image; import pathlib\n"
        "for name, colour in (('cat', 'red'), ('dog', 'blue')):\n"
        "    pathlib.Path('data', name).mkdir(parents=True)\n"
        "    for number in range(12): Image.new('RGB', (40, 30), colour).save(f'data/{name}/{number}.png')\n"
        "pathlib.Path('data/cat/notes.txt').write_text('no picture')\n"
        "Image.new('L', (1, 1)).save('data/dog/tiny.JPG')\n"
    )
    subprocess.run([sys.executable, "-c", make], cwd=training.folder, check=True)

    done = training.run("--data", "data", "--workers", "2", "--epochs", "3")

    assert done.returncode == 0, done.stdout + done.stderr
    assert LINE.findall(done.stdout)[-1][0] == str(3 * 25)


def test_a_folder_without_pictures_is_an_error_that_says_what_is_expected(training: Training) -> None:
    (training.folder / "empty/class").mkdir(parents=True)
    done = training.run("--data", "empty")

    assert done.returncode == 1
    assert done.stderr == "empty: no pictures; expected one folder a class: empty/CLASS/PICTURE.jpg\n"


def written_plan(folder: Path, matrix: dict[str, list[str]], *options: str) -> Path:
    """Trainings as processes; PyTorch's warning of too many workers, like any other, would fail them."""
    words = [sys.executable, "-W", "error", str(SCRIPT), "--size", "16", "--resume", *options]
    jobs = {
        "train": {
            "matrix": matrix,
            "profile": "1g.5gb",
            "batch_size": 256,
            "batch_size_memory": "40GB",
            "command": [*words, "--lr", "${matrix.lr}"],
        }
    }
    path = folder / "plan.yaml"
    text = {"name": "real", "runtime": "process", "oversubscribe": True, "jobs": jobs}
    path.write_text(json.dumps(text), "utf-8")
    return path


def test_two_trainings_of_a_plan_get_their_share_and_end(program: Program, tmp_path: Path) -> None:
    plan = written_plan(tmp_path, {"lr": ["0.1", "0.01"]}, "--samples", "60")

    program.up(str(plan), "--wait")
    logs = program.run("logs", "real")

    for name, job in program.jobs().items():
        said = re.search(rf"{re.escape(name)}: no GPU, (\d+) workers, batch size (\d+), \d+ CPUs \[(.*)\]", logs.out)
        assert said is not None, logs.out
        assert int(said[1]) == job["num_workers"]
        assert 1 <= int(said[2]) < 256
        assert said[3].replace(", ", ",") in {job["cpus"], job["cpus"].replace("-", ",")}
    assert logs.out.count("migctl: samples=60 ") == 2


def test_stop_keeps_the_checkpoint_and_a_retry_goes_on(program: Program, tmp_path: Path) -> None:
    plan = written_plan(tmp_path, {"lr": ["0.1"]}, "--samples", "8000000")
    program.up(str(plan))
    end = time.monotonic() + 120
    while "migctl: samples=" not in program.log("real", "train-lr0.1"):
        assert time.monotonic() < end
        time.sleep(0.1)

    program.run("stop", "real/train-lr0.1").ended(0)

    assert program.jobs()["train-lr0.1"]["state"] == "stopped"
    assert (tmp_path / "train-lr0.1.pt").exists()

    program.up(str(plan), "--retry")
    while "goes on at step " not in program.log("real", "train-lr0.1", 2):
        assert time.monotonic() < end
        time.sleep(0.1)
