"""Which code a job ran: read from a checkout as git leaves it, and compared over the jobs of a run."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.code import Code
from migctl.core.othercode import other_code
from migctl.host.gitstate import code_of
from tests.support.store_values import record

A, B = "a" * 40, "b" * 40
NO_GIT = {"PATH": "/nowhere"}
with_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git here")


def checkout(top: Path, **files: str) -> Path:
    for name, text in files.items():
        path = top / ".git" / name.replace("__", "/").replace("_", "-")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return top


def test_the_commit_is_read_without_git(tmp_path: Path) -> None:
    loose = checkout(tmp_path / "loose", HEAD="ref: refs/heads/main\n", refs__heads__main=f"{A}\n")
    packed = checkout(tmp_path / "packed", HEAD="ref: refs/heads/main\n", packed_refs=f"# pack\n{B} refs/heads/main\n")
    detached = checkout(tmp_path / "detached", HEAD=f"{A}\n")
    (loose / "deep/er").mkdir(parents=True)

    assert code_of(loose / "deep/er", NO_GIT) == Code(commit=A)
    assert code_of(packed, NO_GIT) == Code(commit=B)
    assert code_of(detached, NO_GIT) == Code(commit=A)


@pytest.mark.parametrize(
    "head",
    ["", "ref: refs/heads/none", "ref: ../../secret", "ref: /etc/passwd", "ref: HEAD", "zzzz", "\0"],
)
def test_what_is_no_commit_is_none(head: str, tmp_path: Path) -> None:
    assert code_of(checkout(tmp_path, HEAD=head), NO_GIT) is None


def test_where_nothing_is_checked_out_there_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("no pointer")

    assert code_of(tmp_path, NO_GIT) is None


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    top.mkdir()
    (top / "train.py").write_text("print(1)\n")
    git(top, "init", "-q")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "first")
    return top


def git(top: Path, *words: str) -> str:
    named = ["-c", "user.name=kim", "-c", "user.email=kim@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *named, *words], cwd=top, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@with_git
def test_edits_make_it_dirty_and_equal_edits_are_equal(repository: Path) -> None:
    clean = code_of(repository, os.environ)
    (repository / "train.py").write_text("print(2)\n")
    edited = code_of(repository, os.environ)
    (repository / "train.py").write_text("print(3)\n")
    again = code_of(repository, os.environ)
    (repository / "train.py").write_text("print(2)\n")
    (repository / "output.log").write_text("not the source's")

    assert clean == Code(commit=git(repository, "rev-parse", "HEAD"), dirty=False)
    assert edited is not None
    assert edited.dirty
    assert again is not None
    assert again.changes != edited.changes
    assert code_of(repository, os.environ) == edited


@with_git
def test_a_worktree_and_packed_branches_are_read_as_git_reads_them(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "other", "../tree")
    git(repository, "pack-refs", "--all")

    head = git(repository, "rev-parse", "HEAD")

    assert code_of(repository.parent / "tree", NO_GIT) == Code(commit=head)
    assert code_of(repository, NO_GIT) == Code(commit=head)


@with_git
def test_what_a_checkout_names_as_its_programs_is_not_run(repository: Path, tmp_path: Path) -> None:
    for name in ("core.fsmonitor", "diff.external", "core.pager"):
        git(repository, "config", name, f"touch {tmp_path}/ran; echo")

    (repository / "train.py").write_text("print(2)\n")
    found = code_of(repository, os.environ)

    assert found is not None
    assert found.dirty
    assert not (tmp_path / "ran").exists()


def test_jobs_that_ran_other_code_than_the_first_are_named() -> None:
    ran = [
        replace(record(job), started_at=at, code=code)
        for job, at, code in (
            ("late", 9.0, Code(commit=B, dirty=False)),
            ("first", 1.0, Code(commit=A, dirty=False)),
            ("same", 2.0, Code(commit=A, dirty=False)),
            ("unknown", 3.0, Code(commit=A)),
            ("edited", 4.0, Code(commit=A, dirty=True, changes="0123456789")),
        )
    ]

    notice = other_code("night", [*ran, record("bare")])

    assert notice is not None
    assert notice.message == (
        "not all jobs of night ran the same code: first ran aaaaaaaaaa; edited: aaaaaaaaaa + edits 01234567; late: bbbbbbbbbb"
    )
    assert other_code("night", ran[1:4]) is None
    assert other_code("night", []) is None
