"""What runs hold is told to all users, and nobody can speak for another."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.errors import HostError, PlanError
from migctl.host.caller import Caller
from migctl.host.claims import Claim, HeldCpus, drop_claim, read_claims, store_name, write_claim
from migctl.host.procfs import process_start_ticks
from tests.support.other_user import NOBODY, SOMEBODY, as_user, needs_root, open_folder

BOOT = "5f0e7a3c-boot"
ME = os.getuid()


def claim(run: str = "sweep", uid: int = ME, boot_id: str = BOOT) -> Claim:
    return Claim(
        uid=uid,
        user="set by the reader",
        run=run,
        cpus=CpuSet({0, 1, 8, 9}),
        gpus={"GPU-1": (Placement(0, MemorySlices(1)), Placement(4, MemorySlices(4))), "GPU-2": ()},
        boot_id=boot_id,
    )


def held(run_dir: Path, boot_id: str = BOOT) -> list[tuple[int, str]]:
    return [(c.uid, c.run) for c in read_claims(run_dir, boot_id)]


def caller(uid: int = ME) -> Caller:
    return Caller(uid, uid, str(uid), Path("/"))


def test_a_claim_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_claim(tmp_path / "r", claim())
    (found,) = read_claims(tmp_path / "r", BOOT)

    assert replace(found, user="set by the reader") == claim()
    assert found.user == "root" or ME != 0


def test_writing_again_replaces_and_dropping_removes(tmp_path: Path) -> None:
    run_dir = tmp_path / "r"
    write_claim(run_dir, claim())
    write_claim(run_dir, replace(claim(), cpus=CpuSet({3})))
    write_claim(run_dir, claim("other"))

    assert [c.cpus for c in read_claims(run_dir, BOOT) if c.run == "sweep"] == [CpuSet({3})]
    for _ in range(2):
        drop_claim(run_dir, caller(), "sweep")
        assert held(run_dir) == [(ME, "other")]
    assert len(list(run_dir.iterdir())) == 1


def test_two_state_directories_of_one_user_may_each_have_a_run_of_the_same_name(tmp_path: Path) -> None:
    run_dir, here, there = tmp_path / "r", store_name(tmp_path / "a"), store_name(tmp_path / "b")
    write_claim(run_dir, replace(claim(), store=here, cpus=CpuSet({1})))
    write_claim(run_dir, replace(claim(), store=there, cpus=CpuSet({2})))
    write_claim(run_dir, replace(claim(), store=here, cpus=CpuSet({3})))

    assert {c.store: c.cpus for c in read_claims(run_dir, BOOT)} == {here: CpuSet({3}), there: CpuSet({2})}
    drop_claim(run_dir, caller(), "sweep", there)
    assert [c.store for c in read_claims(run_dir, BOOT)] == [here]
    drop_claim(run_dir, caller(), "sweep", here)
    assert list(run_dir.iterdir()) == []


def test_a_state_directory_has_one_name_however_its_path_is_spelt(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")

    assert store_name(tmp_path / "link") == store_name(tmp_path / "b" / ".." / "a") == store_name(tmp_path / "a")
    assert store_name(tmp_path / "a") != store_name(tmp_path / "b")
    assert str(tmp_path) not in store_name(tmp_path / "a")


def test_claims_of_another_boot_are_over(tmp_path: Path) -> None:
    write_claim(tmp_path / "r", claim(boot_id="an earlier boot"))

    assert held(tmp_path / "r") == []


def test_reading_where_nothing_is_makes_nothing(tmp_path: Path) -> None:
    assert read_claims(tmp_path / "r", BOOT) == ()
    drop_claim(tmp_path / "r", caller(), "sweep")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_leads_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be the name of a run"):
        write_claim(tmp_path / "r", claim("../../etc/x"))


GOOD: dict[str, object] = {"uid": ME, "user": "x", "run": "sweep", "cpus": "0", "gpus": {}, "boot_id": BOOT}
BAD: list[object] = [
    "text",
    [],
    {},
    {**GOOD, "uid": True},
    {**GOOD, "uid": -1},
    {**GOOD, "uid": 1e300},
    {**GOOD, "uid": ME + 1},
    {**GOOD, "run": "another"},
    {**GOOD, "run": 7},
    {**GOOD, "boot_id": None},
    {**GOOD, "cpus": [0]},
    {**GOOD, "cpus": "0-99999999"},
    {**GOOD, "cpus": "zero"},
    {**GOOD, "store": 5},
    {**GOOD, "memory_mib": -1},
    {**GOOD, "gpus": []},
    {**GOOD, "gpus": {"GPU-1": [[0]]}},
    {**GOOD, "gpus": {"GPU-1": [[0, -1]]}},
    {**GOOD, "gpus": {"GPU-1": 5}},
    {**GOOD, "gpus": {"GPU\x1b[2J": []}},
]


@pytest.mark.parametrize("value", BAD, ids=str)
def test_a_file_that_is_not_exactly_a_claim_is_none(tmp_path: Path, value: object) -> None:
    path = tmp_path / f"{ME}-sweep.json"
    path.write_text(json.dumps(GOOD))
    assert held(tmp_path) == [(ME, "sweep")]

    path.write_text(json.dumps(value))
    assert held(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b" " * (2 << 20), b'{"uid": NaN}'])
def test_garbage_is_no_claim(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"{ME}-sweep.json").write_bytes(content)

    assert held(tmp_path) == []


def test_links_and_pipes_are_no_claims(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.write_text(json.dumps(GOOD))
    run_dir = tmp_path / "r"
    run_dir.mkdir()
    (run_dir / f"{ME}-sweep.json").symlink_to(real)
    os.mkfifo(run_dir / f"{ME}-pipe.json")
    (run_dir / f"{ME}-folder.json").mkdir()

    assert held(run_dir) == []


@needs_root
def test_root_claims_for_a_user_who_can_drop_it_himself() -> None:
    with open_folder() as top:
        run_dir = top / "r"
        write_claim(run_dir, claim(uid=SOMEBODY))

        assert held(run_dir) == [(SOMEBODY, "sweep")]
        assert as_user(NOBODY, lambda: held(run_dir)) == [[SOMEBODY, "sweep"]]
        assert as_user(SOMEBODY, lambda: write_claim(run_dir, claim(uid=SOMEBODY))) is None
        assert as_user(SOMEBODY, lambda: drop_claim(run_dir, caller(SOMEBODY), "sweep")) is None
        assert held(run_dir) == []


@needs_root
def test_nobody_can_speak_for_another_user_or_silence_him() -> None:
    with open_folder() as top:
        run_dir = top / "r"
        write_claim(run_dir, claim("mine"))
        path = run_dir / f"{SOMEBODY}-sweep.json"

        def attack() -> object:
            path.write_text(json.dumps({**GOOD, "uid": SOMEBODY}))
            path.chmod(0o666)
            drop_claim(run_dir, caller(0), "mine")
            return "forged"

        assert str(as_user(NOBODY, attack)).startswith("error: ")
        assert path.exists()
        assert held(run_dir) == [(0, "mine")]

        assert as_user(SOMEBODY, lambda: write_claim(run_dir, claim(uid=SOMEBODY))) is None
        assert as_user(SOMEBODY, lambda: write_claim(run_dir, claim(uid=SOMEBODY))) is None
        assert held(run_dir) == [(0, "mine"), (SOMEBODY, "sweep")]
        assert len(list(run_dir.glob(f"{SOMEBODY}-*"))) == 2
        assert as_user(SOMEBODY, lambda: drop_claim(run_dir, caller(SOMEBODY), "sweep")) is None
        assert held(run_dir) == [(0, "mine")]


@needs_root
def test_a_claim_with_a_hard_link_elsewhere_is_not_believed() -> None:
    with open_folder() as top:
        run_dir = top / "r"
        write_claim(run_dir, claim())
        (run_dir / f"{ME}-sweep.json").rename(top / "old")
        (run_dir / f"{ME}-sweep.json").hardlink_to(top / "old")

        assert held(run_dir) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="file") as caught:
        write_claim(tmp_path / "file", claim())

    assert caught.value.id == "run-dir-unusable"


def test_cpus_of_a_job_are_held_as_long_as_its_process_lives(tmp_path: Path) -> None:
    ticks = process_start_ticks(os.getpid())
    assert ticks is not None
    ended = subprocess.Popen(["true"])
    ended.wait()
    living = HeldCpus(CpuSet({4}), os.getpid(), ticks)
    write_claim(
        tmp_path / "r",
        replace(
            claim(),
            cpus=CpuSet({0}),
            passing=(living, HeldCpus(CpuSet({5}), ended.pid, ticks), HeldCpus(CpuSet({6}), os.getpid(), ticks + 1)),
        ),
    )
    (found,) = read_claims(tmp_path / "r", BOOT)

    assert found.cpus == CpuSet({0, 4})


@needs_root
def test_cpus_of_another_users_job_are_held_too() -> None:
    ticks = process_start_ticks(os.getpid())
    assert ticks is not None
    with open_folder() as folder:
        passing = (HeldCpus(CpuSet({4}), os.getpid(), ticks),)
        write_claim(folder / "r", replace(claim(), cpus=CpuSet(), passing=passing))

        assert as_user(NOBODY, lambda: [str(c.cpus) for c in read_claims(folder / "r", BOOT)]) == ["4"]
