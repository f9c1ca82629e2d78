"""`tune --write`: one number goes into the plan, everything else stays byte for byte."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migctl import planfile
from migctl.errors import Busy, HostError, PlanError, Problems
from migctl.host.replace import replace_file
from migctl.planfile.edit import with_num_workers


def edited(text: str, job: str = "a", workers: int = 7) -> str:
    return with_num_workers(text.encode(), "plan.yaml", job, workers).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # a number that is there
        ("jobs:\n  a:\n    num_workers: 4   # four\n", "jobs:\n  a:\n    num_workers: 7   # four\n"),
        ("jobs:\n  a:\n    num_workers: auto\n    image: x\n", "jobs:\n  a:\n    num_workers: 7\n    image: x\n"),
        ("jobs:\n  a:\n    num_workers: '4'\n", "jobs:\n  a:\n    num_workers: 7\n"),
        ("jobs:\n  a: {image: x, num_workers: 4}\n", "jobs:\n  a: {image: x, num_workers: 7}\n"),
        # none is there: the first key, and a comment above the next one stays with it
        ("jobs:\n  a:\n    # why\n    image: x # y\n", "jobs:\n  a:\n    num_workers: 7\n    # why\n    image: x # y\n"),
        ("jobs:\n  a: # hi\n\n    image: x\n", "jobs:\n  a: # hi\n    num_workers: 7\n\n    image: x\n"),
        ("jobs:\n  b:\n    image: y\n  a:\n    image: x\n", "jobs:\n  b:\n    image: y\n  a:\n    num_workers: 7\n    image: x\n"),
        ("jobs:\n    a:\n            image: x", "jobs:\n    a:\n            num_workers: 7\n            image: x"),
        # a job of defaults only
        ("jobs:\n  a:\n  b:\n    image: x\n", "jobs:\n  a:\n    num_workers: 7\n  b:\n    image: x\n"),
        ("jobs:\n  a:", "jobs:\n  a:\n    num_workers: 7"),
        # flow style
        ("jobs:\n  a: {}\n", "jobs:\n  a: {num_workers: 7}\n"),
        ("jobs:\n  a: { image: x }\n", "jobs:\n  a: { num_workers: 7, image: x }\n"),
        ("jobs:\n  a: {\n    image: x }\n", "jobs:\n  a: {num_workers: 7,\n    image: x }\n"),
        ('{"jobs": {"a": {"image": "x"}}}', '{"jobs": {"a": {"num_workers": 7, "image": "x"}}}'),
        # line ends, byte order mark, other scripts
        ("jobs:\r\n  a:\r\n    image: x\r\n", "jobs:\r\n  a:\r\n    num_workers: 7\r\n    image: x\r\n"),
        ("\ufeffjobs:\n  a:\n    num_workers: 4\n", "\ufeffjobs:\n  a:\n    num_workers: 7\n"),
        ("# 학습 🙂\njobs:\n  a:\n    num_workers: 4 # 넷\n", "# 학습 🙂\njobs:\n  a:\n    num_workers: 7 # 넷\n"),
        # merged keys: the job's own key wins
        (
            "x-b: &b\n  num_workers: 3\njobs:\n  a:\n    <<: *b\n",
            "x-b: &b\n  num_workers: 3\njobs:\n  a:\n    num_workers: 7\n    <<: *b\n",
        ),
    ],
)  # fmt: skip
def test_only_the_number_changes(before: str, after: str) -> None:
    assert edited(before) == after
    assert edited(after, workers=9) == after.replace("num_workers: 7", "num_workers: 9").replace(
        '"num_workers": 7', '"num_workers": 9'
    )


def test_json_stays_json() -> None:
    text = json.dumps({"jobs": {"a": {"image": "x", "environment": {"A": "b"}}}}, indent=2)

    assert json.loads(edited(text))["jobs"]["a"]["num_workers"] == 7


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("jobs:\n  a: &x\n    image: x\n  b: *x\n", "anchor"),
        ("jobs:\n  b: &x\n    image: x\n  a: *x\n", "alias"),
        ("x-j: &j\n  a:\n    image: x\njobs: *j\n", "not written under jobs:"),
        ("x-j: &j\n  a:\n    image: x\njobs:\n  <<: *j\n", "alias"),
        ("jobs:\n  a:\n    num_workers: ${N}\n", "more than a number"),
        ("jobs:\n  a:\n    num_workers: &n 3\n  b:\n    num_workers: *n\n", "more than a number"),
        ("x-n: &n 3\njobs:\n  a:\n    num_workers: *n\n", "num_workers"),
        ("jobs:\n  ? a\n  : image: x\n", "line of its own"),
        ("jobs:\n  a: ~\n", "no keys"),
        ("jobs:\n  b:\n    image: x\n", "not written under jobs:"),
        ("jobs: &all\n  a:\n    image: x\nx-more: *all\n", "more than this one number"),
    ],
)
def test_what_cannot_be_done_without_touching_more_is_refused_with_the_way_out(text: str, why: str) -> None:
    with pytest.raises(PlanError) as caught:
        edited(text)

    assert caught.value.id == "cannot-edit"
    assert why in caught.value.message
    assert caught.value.hint == "write `num_workers: 7` by hand"


def test_text_that_is_no_yaml_by_now_is_refused() -> None:
    with pytest.raises(Problems):
        edited("jobs: [\n")


_TEXTS = st.sampled_from(
    ["image: x", "command: [a, b]", "command: |\n      one\n      two", "environment: {A: '#'}", "labels:\n      b: c"]
)
_COMMENT = st.sampled_from(["", "    # a comment\n", "\n", "    # two\n\n"])


@given(
    keys=st.lists(st.tuples(_COMMENT, _TEXTS), min_size=1, max_size=4, unique_by=lambda pair: pair[1].split(":")[0]),
    tail=st.sampled_from(["", "  b:\n    image: y\n", "\n# the end\n", "  b: {image: y}\nname: n\n"]),
    crlf=st.booleans(),
)
def test_taking_the_line_out_again_gives_the_file_as_it_was(keys: list[tuple[str, str]], tail: str, crlf: bool) -> None:
    text = "defaults: {command: c}\njobs:\n  a:\n" + "".join(f"{comment}    {key}\n" for comment, key in keys) + tail
    text = text.replace("\n", "\r\n") if crlf else text
    end = "\r\n" if crlf else "\n"

    after = edited(text)

    assert after.replace(f"    num_workers: 7{end}", "", 1) == text
    plan = planfile.loads(after, "plan.yaml", Path("/"), {}, runtime="process")
    assert {job.name: job.num_workers for job in plan.jobs}["a"] == 7


def test_a_file_is_replaced_with_its_mode_through_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "plan.yaml", tmp_path / "link.yaml"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)

    replace_file(link, b"old", b"new")

    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o7777 == 0o640
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.yaml", "plan.yaml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_owner_of_a_file_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_bytes(b"old")
    os.chown(path, 1234, 1235)

    replace_file(path, b"old", b"new")

    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


def test_extended_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no extended attributes")

    replace_file(path, b"old", b"new")

    assert os.getxattr(path, "user.note") == b"mine"


def test_a_file_that_was_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_bytes(b"somebody's")

    with pytest.raises(Busy) as caught:
        replace_file(path, b"old", b"new")

    assert caught.value.id == "file-changed"
    assert path.read_bytes() == b"somebody's"


def test_hard_links_are_not_parted(tmp_path: Path) -> None:
    path, other = tmp_path / "plan.yaml", tmp_path / "other.yaml"
    path.write_bytes(b"old")
    other.hardlink_to(path)

    with pytest.raises(PlanError) as caught:
        replace_file(path, b"old", b"new")

    assert caught.value.id == "hard-link"
    assert other.read_bytes() == b"old"


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError) as caught:
        replace_file(tmp_path / "plan.yaml", b"old", b"new")

    assert caught.value.id == "unwritable"
