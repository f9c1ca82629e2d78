"""The policy file: believed only where no user can have written it, and read with every mistake at its place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from migctl.core.policy import MountRule
from migctl.errors import HostError, Problems, Where
from migctl.host.caller import Caller
from migctl.host.policyfile import read_policy
from migctl.planfile.policy import parse
from tests.support.other_user import NOBODY, as_user, needs_root, open_folder

FILE = "/etc/migctl/policy.yaml"
ME = Caller(os.getuid(), os.getgid(), "me", Path("/"))


def read(text: str) -> object:
    return parse(text.encode(), FILE, "root")


@dataclass(frozen=True)
class Mistake:
    text: str
    place: str
    says: str
    hint: str = "the file is root's"


MISTAKES = [
    Mistake("max_slice: 3", "1:1", "max_slice is no rule of a policy", "did you mean max_slices?"),
    Mistake("gpu: 0\nmax_slices: many", "2:13", "max_slices must be a whole number, got 'many'"),
    Mistake("max_cores: -1", "1:12", "max_cores must be at least 0"),
    Mistake("max_cores: 010", "1:12", "10 is", ""),
    Mistake("enable_mig: yes", "1:13", "enable_mig must be true or false", "write true"),
    Mistake("gpu: [A100]", "1:7", "gpu must be an index", "write {model: A100}"),
    Mistake("mounts: [data]", "1:10", "mounts must be absolute paths"),
    Mistake("mounts: ['/data:rx']", "1:10", "takes :ro or :rw"),
    Mistake("mounts: /data", "1:9", "mounts must be a list", "write [a, b]"),
    Mistake("images: [1.10]", "1:10", "1.10 is a number for YAML", ""),
    Mistake("users: [anna]", "1:8", "users must be a mapping from a name to rules, got a list"),
    Mistake("users:\n  anna: 3", "2:9", "users.anna must be a mapping of rules"),
    Mistake("users:\n  anna: {max_slice: 3}", "2:10", "max_slice is no rule of users.anna", "did you mean max_slices?"),
    Mistake("users:\n  anna: {contact: x}", "2:10", "contact is no rule of users.anna", "there are gpu"),
    Mistake("users:\n  '../x': {}", "2:3", "'../x' cannot be the name of a user"),
    Mistake("max_cores: 1\nmax_cores: 2", "2:1", "max_cores stands twice"),
    Mistake("- gpu: 0", "1:1", "a policy is a mapping of rules, here is a list"),
    Mistake("gpu: [", "1:7", "this is not YAML"),
]


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case.text[:30])
def test_a_mistake_is_told_at_its_place_and_nothing_is_started_until_it_is_mended(case: Mistake) -> None:
    with pytest.raises(Problems) as caught:
        read(case.text)

    (error,) = caught.value.all
    assert isinstance(error, HostError)
    assert error.id == "policy-invalid"
    assert isinstance(error.where, Where)
    assert str(error.where) == f"{FILE}:{case.place}"
    assert case.says in error.message
    assert case.hint in (error.hint or "")
    assert "root's" in (error.hint or "")


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(Problems) as caught:
        read("max_slices: a\nmax_cores: b\nwhatever: c\n")

    assert [str(error.where) for error in caught.value.all] == [f"{FILE}:1:13", f"{FILE}:2:12", f"{FILE}:3:1"]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "x-note: any\n", "max_cores:\n"])
def test_a_policy_without_rules_allows_everything(text: str) -> None:
    made = parse(text.encode(), FILE, "root")

    assert made.of("anna", 1000, ["students"]).given == ()


def test_folders_are_read_with_what_may_be_done_below_them() -> None:
    made = parse(b"mounts: [/data:ro, ~, ~/sets, /scratch:rw]", FILE, "root")

    assert made.everybody.mounts is not None
    assert made.everybody.mounts.value == (
        MountRule("/data", read_only=True),
        MountRule("~"),
        MountRule("~/sets"),
        MountRule("/scratch"),
    )


def test_not_utf8_is_told_as_the_policys_mistake() -> None:
    with pytest.raises(Problems) as caught:
        parse(b"contact: \xff", FILE, "root")

    assert "policy file is not UTF-8" in caught.value.all[0].message


def made(folder: Path, mode: int = 0o644) -> Path:
    path = folder / "policy.yaml"
    path.write_text("max_cores: 1\n")
    path.chmod(mode)
    return path


def test_without_a_policy_there_is_none(tmp_path: Path) -> None:
    assert read_policy({}, ME, tmp_path / "no" / "policy.yaml") is None


def test_where_there_is_no_policy_to_get_round_a_file_may_be_named(tmp_path: Path) -> None:
    found = read_policy({"MIGCTL_POLICY": str(made(tmp_path))}, ME, tmp_path / "no.yaml")

    assert found is not None
    assert found.data == b"max_cores: 1\n"


def _link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


TRICKS: list[tuple[str, Callable[[Path], object], str]] = [
    ("writable by a group", lambda path: path.chmod(0o664), "others than .* may write to it"),
    ("writable by all", lambda path: path.chmod(0o646), "others than .* may write to it"),
    ("a link", _link, "it is a link"),
    ("a fifo", _fifo, "no ordinary file"),
    ("a folder", lambda path: (path.unlink(), path.mkdir()), "no ordinary file"),
    ("in a folder that others may write", lambda path: path.parent.chmod(0o777), "others than .* may write"),
    ("too large", lambda path: path.write_bytes(b"#" * (1 << 20 | 1)), "larger than 1 MiB"),
]


@pytest.mark.parametrize(("name", "trick", "says"), TRICKS, ids=[name for name, _, _ in TRICKS])
def test_a_file_that_a_user_could_have_written_is_not_believed(
    tmp_path: Path, name: str, trick: Callable[[Path], object], says: str
) -> None:
    path = made(tmp_path)
    trick(path)
    with pytest.raises(HostError, match=says) as caught:
        read_policy({"MIGCTL_POLICY": str(path)}, ME, tmp_path / "no.yaml")

    assert caught.value.id == "policy-untrusted"
    assert "nothing is started here" in caught.value.message


@needs_root
def test_a_policy_that_is_not_roots_is_not_believed() -> None:
    with open_folder() as folder:
        path = made(folder)
        os.chown(path, NOBODY, NOBODY)
        with pytest.raises(HostError, match="belongs to nobody, not to root"):
            read_policy({}, ME, path)
        with pytest.raises(HostError, match="belongs to nobody, not to root"):
            read_policy({"MIGCTL_POLICY": str(path)}, ME, folder / "no.yaml")


@needs_root
def test_a_user_cannot_put_another_policy_in_the_place_of_the_administrators() -> None:
    with open_folder() as folder:
        path = made(folder)
        (folder / "mine").mkdir()
        mine = made(folder / "mine")
        mine.write_text("# everything\n")
        for other in (mine, mine.parent):
            os.chown(other, NOBODY, NOBODY)
        environ = {"MIGCTL_POLICY": str(mine)}

        def ask(system: Path, caller: Caller) -> str:
            found = read_policy(environ, caller, system)
            return "" if found is None else found.data.decode()

        nobody = Caller(NOBODY, NOBODY, "nobody", Path("/"))
        assert as_user(NOBODY, lambda: ask(path, nobody)) == "max_cores: 1\n"
        # Only where there is nothing to get round.
        assert as_user(NOBODY, lambda: ask(folder / "no.yaml", nobody)) == "# everything\n"
        # Under sudo root acts for the user, who may have told sudo to keep the variable.
        assert ask(path, Caller(NOBODY, NOBODY, "nobody", Path("/"), sudo=True)) == "max_cores: 1\n"
        os.chown(mine, 0, 0)
        os.chown(mine.parent, 0, 0)
        assert ask(path, Caller(0, 0, "root", Path("/"))) == "# everything\n"


@needs_root
def test_a_policy_that_users_may_not_read_stops_them_instead_of_allowing_everything() -> None:
    with open_folder() as folder:
        path = made(folder, 0o600)
        nobody = Caller(NOBODY, NOBODY, "nobody", Path("/"))
        told = as_user(NOBODY, lambda: str(read_policy({}, nobody, path)))
        (folder / "closed").mkdir(mode=0o700)
        made(folder / "closed")
        hidden = as_user(NOBODY, lambda: str(read_policy({}, nobody, folder / "closed" / "policy.yaml")))

    assert "cannot be read: Permission denied" in json.dumps(told)
    assert "cannot be read: Permission denied" in json.dumps(hidden)
