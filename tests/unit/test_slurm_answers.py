"""What Slurm's programs print and complain about, of several versions, and what is made of it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from migctl.core.cluster.clusterrun import ClusterJob
from migctl.core.cluster.slurmstate import STATES, Begun, Ended, Told, settled, state_of, with_needs
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.record import JobState
from migctl.errors import Busy, DoesNotFit, HostError, MigctlError, PlanError
from migctl.slurm import answers
from migctl.slurm.failures import failure
from migctl.slurm.tellings import Tellings, begun, ended

JOB = ClusterJob(name="a", digest="d", unit="7", profile="1g.5gb", num_workers=2)
LONG = "it ran longer than its time limit"
MEMORY = "it used more memory than it had asked for"
LIMITS = "(job submit limit, user's size and/or time limits)"
BEGUN = Begun(at=100.0, node="mig1", cpus=CpuSet.parse("0-1"), num_workers=4)


def told(state: str, index: int | None = None, **more: Any) -> Told:
    """What squeue says of job 7."""
    return Told(unit="7", index=index, state=state, name="r.a", **more)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "7|RUNNING|mig1|1764517000|N/A|r.a|None|migctl-ab",
            told("RUNNING", node="mig1", reason="None", comment="migctl-ab", started_at=1764517000.0),
        ),
        ("7_3|PENDING||N/A|N/A|r.a|Resources|x|y z", told("PENDING", 3, reason="Resources", comment="x|y z")),
        (
            "7|RUNNING|mig1|2026-11-30T10:00:00|NONE|r.a|None|",
            told(
                "RUNNING",
                node="mig1",
                reason="None",
                started_at=datetime.fromisoformat("2026-11-30T10:00:00").timestamp(),
            ),
        ),
    ],
)
def test_a_line_of_squeue_is_read(line: str, expected: Told) -> None:
    assert list(answers.jobs(line)) == [expected]


@pytest.mark.parametrize(
    "line", ["", "7", "7+1|RUNNING|a|b|c|d|e|f", "7_[0-3]|PENDING||||a|b|c", "slurm_load_jobs error: x"]
)
def test_a_line_that_is_no_job_of_ours_to_read_is_left_out(line: str) -> None:
    assert list(answers.jobs(line)) == []


@pytest.mark.parametrize(("text", "expected"), [("0:0", 0), ("3:0", 3), ("0:9", 137), ("", None), ("x:y", None)])
def test_exit_codes_of_the_accounting_are_those_of_a_shell(text: str, expected: int | None) -> None:
    assert answers.exit_code(text) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [("4711\n", "4711"), ("4711;north\n", "4711"), ("sbatch: hello\n12\n", "12"), ("nothing", None)],
)
def test_the_id_of_a_submission_is_found(said: str, expected: str | None) -> None:
    assert answers.submitted(said) == expected


@pytest.mark.parametrize(
    ("said", "kind", "name"),
    [
        ("Batch job submission failed: Requested node configuration is not available", DoesNotFit, "slurm-never-fits"),
        ("invalid partition specified: x\nsbatch: error: Invalid partition name specified", PlanError, "no-partition"),
        ("Invalid account or account/partition combination specified", PlanError, "slurm-account"),
        ("Batch job submission failed: Invalid qos specification", PlanError, "slurm-qos"),
        (
            f"QOSMaxSubmitJobPerUserLimit\nsbatch: error: Job violates accounting/QOS policy {LIMITS}",
            Busy,
            "slurm-limit",
        ),
        ("Unable to allocate resources: Invalid generic resource (gres) specification", PlanError, "slurm-gres"),
        ("Requested time limit is invalid (missing or exceeds some limit)", PlanError, "slurm-time"),
        ("unrecognized option '--container-image=i'", PlanError, "slurm-option"),
        ("Unable to contact slurm controller (connect failure)", HostError, "slurm-away"),
        ("Batch job submission failed: Socket timed out on send/recv operation", Busy, "slurm-slow"),
        ("If munged is up, restart with --num-threads=10", HostError, "slurm-auth"),
        ("something nobody knows", HostError, "slurm-failed"),
    ],
)
def test_each_complaint_of_slurm_is_an_error_with_a_way_out(said: str, kind: type[MigctlError], name: str) -> None:
    found = failure(["sbatch"], 1, f"sbatch: error: {said}", where="job a")

    assert (type(found), found.id) == (kind, name)
    assert found.hint
    assert "\n" not in found.message


def test_a_program_that_is_missing_and_one_that_never_answers_are_told_apart() -> None:
    assert failure(["sbatch"], 127, "").id == "no-slurm"
    assert failure(["sbatch"], -1, "").exit_code == 5


@pytest.mark.parametrize("word", sorted(STATES))
def test_every_state_of_slurm_is_one_of_ours(word: str) -> None:
    assert state_of(word) is STATES[word]
    assert state_of(f"{word} by 1000") is STATES[word]


@pytest.mark.parametrize(
    ("begin", "end", "seen", "state", "code", "reason"),
    [
        (
            None,
            None,
            told("PENDING", reason="Resources"),
            "queued",
            None,
            "no free device, cores or memory (Resources)",
        ),
        (None, None, told("PENDING", reason="Strange"), "queued", None, "Strange"),
        (BEGUN, None, told("RUNNING", node="mig1"), "running", None, None),
        (BEGUN, None, told("COMPLETING"), "running", None, None),
        (BEGUN, Ended(at=200, exit_code=0, stopped=False), None, "succeeded", 0, None),
        (BEGUN, Ended(at=200, exit_code=3, stopped=False), None, "failed", 3, None),
        (BEGUN, Ended(at=200, exit_code=143, stopped=True), None, "stopped", 143, None),
        (BEGUN, Ended(at=200, exit_code=0, stopped=True), None, "stopped", 0, None),
        (BEGUN, Ended(at=200, exit_code=1, stopped=False), told("CANCELLED"), "stopped", 1, None),
        (BEGUN, Ended(at=200, exit_code=143, stopped=True), told("TIMEOUT"), "failed", 143, LONG),
        (BEGUN, Ended(at=200, exit_code=137, stopped=False), told("OUT_OF_MEMORY"), "failed", 137, MEMORY),
        (BEGUN, None, None, "lost", None, "it began and left no end: it was killed, or its node failed"),
        (None, None, None, "lost", None, "Slurm does not know it any more, and it never began"),
        (BEGUN, None, told("NODE_FAIL"), "lost", None, "its node failed"),
        (BEGUN, None, told("COMPLETED"), "succeeded", 0, None),
        (None, None, told("CANCELLED"), "stopped", None, "cancelled"),
        (BEGUN, None, told("NEVER_HEARD_OF"), "running", None, "Slurm calls its state NEVER_HEARD_OF"),
    ],
)
def test_a_job_is_what_it_told_itself_and_else_what_slurm_says(
    begin: Begun | None, end: Ended | None, seen: Told | None, state: str, code: int | None, reason: str | None
) -> None:
    found = settled(JOB, begin, end, seen)

    assert (found.state, found.exit_code, found.reason) == (state, code, reason)


def test_a_job_that_has_begun_says_where_it_is_and_what_it_got() -> None:
    found = settled(JOB, BEGUN, None, told("RUNNING"))

    assert (found.node, str(found.cpuset), found.num_workers, found.started_at) == ("mig1", "0-1", 4, 100.0)


def test_one_that_was_queued_again_has_no_node_and_no_cores() -> None:
    found = settled(JOB, BEGUN, None, told("REQUEUED"))

    assert (found.state, found.node, found.started_at, len(found.cpuset)) == (JobState.QUEUED, None, None, 0)


def test_what_is_recorded_as_ended_stays_so_whatever_slurm_says_of_its_id_later() -> None:
    over = settled(JOB, BEGUN, Ended(at=200, exit_code=0, stopped=False), None)

    assert settled(over, None, None, told("RUNNING")) is over


def test_a_job_that_was_thrown_out_because_of_a_need_says_which() -> None:
    failed = ClusterJob(name="a", digest="d", unit="7", state=JobState.FAILED)
    behind = ClusterJob(name="b", digest="d", unit="8", state=JobState.LOST, needs=("a",))

    found = with_needs({"a": failed, "b": behind})

    assert (found["b"].state, found["b"].reason) == ("stopped", "will not run: a, which it needs, did not succeed")


@pytest.mark.parametrize("text", ["", "1764517025", "x n 0-1 2", "1764517025 n 0-", "1764517025 n 0-1 two"])
def test_half_a_word_of_a_job_counts_as_none(text: str) -> None:
    assert begun(text) is None
    assert ended(text) is None


def test_what_jobs_tell_is_read_once_and_taken_back_when_a_job_begins_anew(tmp_path: Path) -> None:
    tellings = Tellings(tmp_path / "there")
    assert tellings.read() == ({}, {})
    tellings.make()
    (tmp_path / "there/7_1.begin").write_text("100 mig1 0-1 4 MIG-x\n", "utf-8")
    (tmp_path / "there/7_1.end").write_text("3 0 200\n", "utf-8")
    (tmp_path / "there/7_1.new").write_text("", "utf-8")

    begins, ends = tellings.read()
    (tmp_path / "there/7_1.end").unlink()

    assert begins["7_1"] == Begun(at=100.0, node="mig1", cpus=CpuSet.parse("0-1"), num_workers=4, mig_uuid="MIG-x")
    assert ends == {"7_1": Ended(at=200.0, exit_code=3, stopped=False)}
    assert tellings.read() == ({"7_1": begins["7_1"]}, {})
