"""Whether a started job is on its CPUs: right, wrong, ended, or not to be told, each said as what it is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.observed import Observed, Unit
from migctl.core.runs.record import JobState, Record
from migctl.core.runs.settle import settle
from migctl.runtimes import proc
from migctl.runtimes.container_readback import cpus_inside
from migctl.runtimes.readback import Found, cpus_of

OWN = os.getpid()
TICKS = 4711
STAT = f"{OWN} (job) S " + " ".join(["0"] * 18) + f" {TICKS} 0"
WANTED = CpuSet.parse("2-3")
NOBODY = 2**22 + 9
UNIT = Unit(
    handle="c", run="r", job="j", token="t", state=JobState.RUNNING, pid=OWN, pid_start=TICKS, cpus=CpuSet.parse("2-3")
)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc of which this process sees what a test puts there."""
    monkeypatch.setattr(proc, "PROC", tmp_path)
    folder = tmp_path / str(OWN)
    folder.mkdir()
    (folder / "stat").write_text(STAT)
    return folder


# (what /proc/PID/status says, ok, words of the reason)
STATUS: list[tuple[str, bool | None, str]] = [
    ("Name:\tjob\nCpus_allowed_list:\t2-3\n", True, ""),
    ("Cpus_allowed_list:\t0-3\n", False, "not on its CPUs: wanted 2-3, the kernel allows 0-3"),
    ("Name:\tjob\n", None, "has no Cpus_allowed_list"),
]


@pytest.mark.parametrize(("status", "ok", "reason"), STATUS)
def test_the_kernels_word_counts(kernel: Path, status: str, ok: bool | None, reason: str) -> None:
    (kernel / "status").write_text(status)

    found = cpus_of(OWN, TICKS, WANTED)

    assert found.ok is ok
    assert reason in found.reason
    assert cpus_inside(UNIT, CpuSet(), local=True) == found


def test_what_cannot_be_read_of_a_living_process_is_neither_right_nor_wrong(kernel: Path) -> None:
    (kernel / "status").mkdir()  # no permission stops root, who runs the tests in places
    found = cpus_of(OWN, TICKS, WANTED)

    assert found.ok is None
    assert found.reason.endswith("cannot be read: Is a directory")
    assert found.told("its CPUs") == f"its CPUs could not be verified: {found.reason}"


def test_a_living_process_that_proc_hides_is_not_taken_for_one_that_ended(kernel: Path) -> None:
    (kernel / "stat").unlink()
    kernel.rmdir()

    assert cpus_of(OWN, TICKS, WANTED).ok is None


def test_of_a_process_that_ended_nothing_need_be_said(kernel: Path) -> None:
    (kernel / "status").write_text("Cpus_allowed_list:\t0-1\n")

    assert cpus_of(NOBODY, 1, WANTED) == Found(True)
    assert cpus_of(OWN, TICKS - 1, WANTED) == Found(True)


def test_without_the_process_the_engines_word_can_prove_a_fault_but_nothing_right() -> None:
    far = replace(UNIT, pid=None)

    assert cpus_inside(far, WANTED, local=False) == Found(None, "the engine is on another machine")
    assert cpus_inside(far, WANTED, local=True) == Found(None, "the engine does not tell its process")
    wrong = cpus_inside(replace(far, cpus=CpuSet()), WANTED, local=False)
    assert (wrong.ok, wrong.reason) == (False, "not on its CPUs: wanted 2-3, the engine gave it all")
    assert cpus_inside(replace(UNIT, cpus=CpuSet()), CpuSet(), local=True) == Found(True)


def test_what_the_start_left_unknown_stays_said_while_the_job_runs() -> None:
    record = Record(
        run="r", job="j", token="t", runtime="docker", strategy="mig", digest="", spec="", state=JobState.RUNNING
    )
    reason = Found(None, "the engine is on another machine").told("its CPUs")
    assert reason is not None

    def later(unit: Unit, before: str | None) -> str | None:
        return settle(replace(record, reason=before), Observed(boot_id="", gpus=(), units=(unit,))).reason

    assert later(UNIT, reason) == reason
    assert later(UNIT, "paused") is None
    assert later(replace(UNIT, reason="paused"), reason) == "paused"
    assert later(replace(UNIT, state=JobState.FAILED, exit_code=3, reason="exit code 3"), reason) == "exit code 3"
