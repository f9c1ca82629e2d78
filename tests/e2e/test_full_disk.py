"""A state disk that is full: nothing new is begun, what was begun is undone, and ending jobs goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from migctl.runtimes import proc
from tests.support.program import Program
from tests.support.small_disk import Disk

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small file system")

PLAN = """\
name: long
runtime: process
oversubscribe: true
defaults: {profile: 1g.5gb, stop_grace_period: 1s, command: [sleep, "600"]}
jobs: {a: {}, b: {}}
"""


@pytest.fixture
def sizes(program: Program, tmp_path: Path) -> Iterator[list[Disk]]:
    disks: list[Disk] = []
    yield disks
    for disk in disks:
        disk.free()
        program.clean()
        disk.close()


def on_disk(program: Program, disks: list[Disk], size: str, *, simulator: bool = False) -> Disk:
    """The program with its state on a disk of this size."""
    disk = Disk(program.folder / "disk", size)
    disks.append(disk)
    program.state = disk.folder / "state"
    program.environ["MIGCTL_STATE_DIR"] = str(program.state)
    if simulator:
        program.simulator = disk.folder / "simulator.json"
        program.environ["MIGCTL_SIM_STATE"] = str(program.simulator)
    program.plan(PLAN)
    return disk


def alive(these: list[int]) -> list[int]:
    return [pid for pid in these if proc.is_alive(pid, None)]


@pytest.mark.parametrize("simulator", [False, True], ids=["gpu elsewhere", "simulated gpu on it"])
def test_stop_and_down_end_the_jobs_and_remove_the_instances(
    program: Program, sizes: list[Disk], *, simulator: bool
) -> None:
    disk = on_disk(program, sizes, "2m", simulator=simulator)
    program.up()
    pids = [job["pid"] for job in program.jobs().values()]
    disk.fill()

    program.run("stop", "a").ended(0)
    assert alive(pids) == pids[1:]
    disk.fill()
    down = program.run("down", "long")
    assert alive(pids) == []
    assert program.instances() == []
    assert program.jobs() == {}
    assert list(program.claims.glob("*.json")) == []
    if down.code:
        # Not even "ended" could be written.
        assert "the jobs and their instances are gone" in down.ended(6).told
        assert "make room, then migctl down long" in down.told
    disk.free()
    program.run("down", "--all").ended(0)
    assert program.json("status")["runs"] == []
    program.up()
    assert {job["state"] for job in program.jobs().values()} == {"running"}


def test_how_jobs_end_meanwhile_is_known_and_nothing_runs_a_second_time(program: Program, sizes: list[Disk]) -> None:
    disk = on_disk(program, sizes, "2m")
    program.plan(PLAN.replace('[sleep, "600"]', "[sh, -c, 'while [ ! -e end ]; do sleep 0.1; done; exit 3']"))
    program.up()
    disk.fill()

    (program.folder / "end").touch()
    program.run("wait").ended(8)
    assert {(job["state"], job["exit_code"]) for job in program.jobs().values()} == {("failed", 3)}
    disk.free()
    program.up()
    program.run("resume").ended(0)
    assert {(job["state"], job["attempt"]) for job in program.jobs().values()} == {("failed", 1)}


def test_up_on_it_begins_nothing(program: Program, sizes: list[Disk]) -> None:
    disk = on_disk(program, sizes, "2m")
    program.up()
    program.run("down").ended(0)
    disk.fill()

    assert "Nothing was recorded" in program.run("up").ended(5).told
    assert program.instances() == []
    assert program.jobs() == {}


@pytest.mark.parametrize("size", [f"{kib}k" for kib in (120, 140, 160, 180, 200, 220, 240)])
def test_up_that_runs_out_of_room_half_way_undoes_what_it_had_made(
    program: Program, sizes: list[Disk], size: str
) -> None:
    on_disk(program, sizes, size)
    up = program.run("up")

    if up.code == 0:
        assert {job["state"] for job in program.jobs().values()} == {"running"}
    elif up.code == 6:
        assert "migctl down long" in up.told
    else:
        assert up.code == 5, up
        assert program.instances() == []
        assert program.jobs() == {}
        assert list(program.claims.glob("*.json")) == []
