"""The shipped training's protocol with `migctl tune`, and the files of its image: nothing here needs PyTorch."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

TRAIN = Path(__file__).parents[2] / "compose/train"
LINE = re.compile(r"migctl: samples=(\d+) wait=(\d+\.\d+)")


@pytest.fixture
def throughput(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.delenv("MIGCTL_SAMPLES_FILE", raising=False)
    spec = importlib.util.spec_from_file_location("throughput", TRAIN / "throughput.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Clock:
    """The clock seam: time as the test has it."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(throughput: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(throughput, "time", clock)
    return clock


def test_the_first_batch_is_told_at_once(
    throughput: ModuleType, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    throughput.Throughput().add(32, 0.125)

    assert capsys.readouterr().out == "migctl: samples=32 wait=0.125\n"


def test_lines_carry_totals_and_come_at_most_once_a_second(
    throughput: ModuleType, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    speed = throughput.Throughput()
    for _ in range(100):
        speed.add(8, 0.01)
        clock.now += 0.03

    told = [(int(samples), float(wait)) for samples, wait in LINE.findall(capsys.readouterr().out)]

    assert len(told) == 3
    assert told == sorted(told)
    assert all(wait == pytest.approx(samples / 8 * 0.01) for samples, wait in told)


def test_a_file_gets_the_lines_and_stdout_none(
    throughput: ModuleType,
    clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "samples"
    path.write_text("migctl: samples=7 wait=0.000\n", "utf-8")
    monkeypatch.setenv("MIGCTL_SAMPLES_FILE", str(path))
    speed = throughput.Throughput()
    for _ in range(100):
        speed.add(1)
        clock.now += 0.01

    lines = path.read_text("utf-8").splitlines()

    assert lines[0] == "migctl: samples=7 wait=0.000"  # appended
    assert len(lines) == 1 + 4
    assert all(LINE.fullmatch(line) for line in lines)
    assert capsys.readouterr().out == ""


def test_a_training_of_days_does_not_fill_its_log(
    throughput: ModuleType, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    speed = throughput.Throughput()
    for _ in range(3 * 24 * 3600):
        speed.add(1)
        clock.now += 1

    assert len(capsys.readouterr().out.splitlines()) < 600


def test_the_last_line_is_told_whatever_the_time(
    throughput: ModuleType, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    speed = throughput.Throughput()
    speed.add(1)
    speed.add(1)
    speed.add(0, last=True)

    assert capsys.readouterr().out.splitlines()[-1] == "migctl: samples=2 wait=0.000"


def test_it_can_be_pasted_into_any_program() -> None:
    tree = ast.parse((TRAIN / "throughput.py").read_text("utf-8"))
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }

    assert imported <= sys.stdlib_module_names | {"__future__"}


def test_the_image_holds_every_file_that_the_training_imports() -> None:
    text = (TRAIN / "Dockerfile").read_text("utf-8")
    copied = {name for line in re.findall(r"(?m)^COPY (.*) \./$", text) for name in line.split()}
    own = {
        node.module
        for node in ast.walk(ast.parse((TRAIN / "train.py").read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and (TRAIN / f"{node.module}.py").exists()
    }

    assert {name for name in copied if not (TRAIN / name).exists()} == set()
    assert {f"{module}.py" for module in own} | {"train.py", "demo.py", "requirements.txt"} == copied
    assert 'CMD ["python", "/opt/train/train.py"]' in text
