"""Copies of a job's source: what is copied, that it is a real copy, and where the job then finds it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from migctl.core.choices import RuntimeName
from migctl.core.plan import Job, Plan, Volume
from migctl.core.sourcecopy import moved_folder, on_copy, outermost, parts
from migctl.host.copying import copy, extent

HOME = "/home/kim/project"


def plan_of(*sources: str, runtime: RuntimeName = RuntimeName.DOCKER) -> tuple[Plan, Job]:
    volumes = tuple(Volume(target=f"/m{n}", source=source) for n, source in enumerate(sources))
    job = Job(name="a", origin="a", volumes=volumes, snapshot=True)
    return Plan(name="p", path=f"{HOME}/plan.yaml", folder=HOME, jobs=(job,), runtime=runtime), job


@pytest.mark.parametrize(
    ("sources", "copied"),
    [
        ([HOME], {"."}),
        ([f"{HOME}/src", f"{HOME}/conf.yaml", "/data"], {"src", "conf.yaml"}),
        (["/home/kim", "/home/kim/project2"], set()),
        ([], set()),
        ([f"{HOME}/data"], set()),
    ],
    ids=["the folder", "parts of it", "what only begins alike, or holds it", "nothing", "a link that leads out"],
)
def test_what_a_container_mounts_of_the_plans_folder_is_copied(sources: list[str], copied: set[str]) -> None:
    plan, job = plan_of(*sources)

    assert parts(plan, job, lambda path: "/mnt/data" if path == f"{HOME}/data" else path) == copied


def test_a_process_has_the_whole_folder() -> None:
    plan, job = plan_of(runtime=RuntimeName.PROCESS)

    assert parts(plan, job, lambda path: path) == {"."}
    assert moved_folder(f"{HOME}/src", HOME, "/copy") == "/copy/src"
    assert moved_folder("/elsewhere", HOME, "/copy") == "/elsewhere"


def test_what_lies_in_another_part_is_copied_once() -> None:
    assert outermost({"src", "src/deep", "src2"}) == ("src", "src2")
    assert outermost({".", "src"}) == (".",)


def test_a_job_mounts_the_copy_where_there_is_one_and_everything_else_as_before() -> None:
    _, job = plan_of(HOME, f"{HOME}/src", f"{HOME}/data", "/data")

    moved = on_copy(job, HOME, "/copy", lambda path: path != "/copy/data")

    assert [v.source for v in moved.volumes] == ["/copy", "/copy/src", f"{HOME}/data", "/data"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "source"
    (top / ".git").mkdir(parents=True)
    (top / ".git/HEAD").write_text("ref: refs/heads/main")
    (top / "deep").mkdir()
    (top / "deep/train.py").write_text("print(1)\n")
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    (top / "inside").symlink_to("deep/train.py")
    (top / "deep/outside").symlink_to("../../data")
    os.mkfifo(top / "pipe")
    (top / "locked").mkdir()
    (top / "locked/x").write_text("x")
    (top / "locked").chmod(0o500)
    return top


def test_a_copy_shares_nothing_with_its_original(source: Path, tmp_path: Path) -> None:
    there = tmp_path / "copy"

    copy(source, there, lambda _: False, resolve=False)

    assert sorted(str(p.relative_to(there)) for p in there.rglob("*")) == [
        "deep", "deep/outside", "deep/train.py", "inside", "locked", "locked/x", "run.sh",
    ]  # fmt: skip
    assert (there / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (there / "inside").readlink() == Path("deep/train.py")
    assert (there / "deep/outside").readlink() == Path("../../data")
    for path in (p for p in there.rglob("*") if p.is_file() and not p.is_symlink()):
        assert path.stat().st_nlink == 1
        assert path.stat().st_ino != (source / path.relative_to(there)).stat().st_ino
    (source / "deep/train.py").write_text("print(2)\n")
    assert (there / "deep/train.py").read_text() == "print(1)\n"


def test_a_link_out_of_the_source_leads_there_from_a_process_too(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / "far/away/copy", lambda _: False, resolve=True)

    assert (tmp_path / "far/away/copy/deep/outside").readlink() == tmp_path / "data"
    assert (tmp_path / "far/away/copy/inside").readlink() == Path("deep/train.py")


def test_a_single_file_is_copied_and_what_is_left_out_counts_for_nothing(source: Path, tmp_path: Path) -> None:
    copy(source / "run.sh", tmp_path / "copy/run.sh", lambda _: False, resolve=False)

    assert (tmp_path / "copy/run.sh").read_text() == "#!/bin/sh\n"
    whole, without = extent(source, lambda _: False), extent(source, lambda path: path.name == "deep")
    assert whole.size_bytes == 9 + 10 + 1
    assert whole.largest[0] == ("run.sh", 10)
    assert without.size_bytes == 10 + 1
