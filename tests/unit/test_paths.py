"""Whose command it is, and where its things lie."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from migctl.errors import HostError
from migctl.host.caller import Caller, caller
from migctl.host.paths import default_run, make_private, make_shared, paths
from tests.support.other_user import NOBODY, SOMEBODY, as_user, needs_root, open_folder

ROOT = Caller(0, 0, "root", Path("/root"))
ANNA = Caller(1000, 1000, "anna", Path("/home/anna"))
SUDO_ANNA = Caller(1000, 1000, "anna", Path("/home/anna"), sudo=True)

STATES = [
    (ROOT, {}, "/var/lib/migctl"),
    (ROOT, {"XDG_STATE_HOME": "/x"}, "/var/lib/migctl"),
    (ANNA, {}, "/home/anna/.local/state/migctl"),
    (ANNA, {"XDG_STATE_HOME": "/x"}, "/x/migctl"),
    (ANNA, {"XDG_STATE_HOME": "relative"}, "/home/anna/.local/state/migctl"),
    (ANNA, {"XDG_STATE_HOME": ""}, "/home/anna/.local/state/migctl"),
    (SUDO_ANNA, {}, "/home/anna/.local/state/migctl"),
    (SUDO_ANNA, {"XDG_STATE_HOME": "/x"}, "/x/migctl"),
    (ROOT, {"MIGCTL_STATE_DIR": "/s"}, "/s"),
    (ANNA, {"MIGCTL_STATE_DIR": "/s", "XDG_STATE_HOME": "/x"}, "/s"),
    (ANNA, {"MIGCTL_STATE_DIR": ""}, "/home/anna/.local/state/migctl"),
]


@pytest.mark.parametrize(("who", "environ", "state"), STATES)
def test_the_state_is_the_callers(who: Caller, environ: dict[str, str], state: str) -> None:
    found = paths(environ, who)

    assert found.state == Path(state)
    assert found.sim_state == Path(state) / "simulator.json"


def test_named_places_are_taken_and_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = paths({"MIGCTL_STATE_DIR": "s", "MIGCTL_RUN_DIR": "r", "MIGCTL_SIM_STATE": "g.json"}, ANNA)

    assert (found.state, found.run, found.sim_state) == (tmp_path / "s", tmp_path / "r", tmp_path / "g.json")
    assert list(tmp_path.iterdir()) == []


def test_all_users_share_one_folder_whoever_came_first(tmp_path: Path) -> None:
    system, common = tmp_path / "run/migctl", tmp_path / "tmp/migctl-run"
    (tmp_path / "run").mkdir()
    (tmp_path / "tmp").mkdir()

    assert default_run(system, common) == system  # may be made
    common.mkdir()
    assert default_run(system, common) == common  # somebody uses it already
    system.mkdir()
    assert default_run(system, common) == system


@needs_root
def test_who_cannot_make_the_system_folder_uses_the_common_one() -> None:
    with open_folder() as top:
        system, common = top / "run/migctl", top / "tmp/migctl-run"
        system.parent.mkdir()

        assert as_user(SOMEBODY, lambda: str(default_run(system, common))) == str(common)


def test_a_private_folder_is_private_with_what_is_made_above_it(tmp_path: Path) -> None:
    me = caller(os.environ)
    make_private(tmp_path / "a/b/s", me)
    make_private(tmp_path / "a/b/s", me)

    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*")} == {0o700}


@needs_root
def test_under_sudo_all_that_is_made_becomes_the_callers(tmp_path: Path) -> None:
    make_private(tmp_path / "a/b/s", Caller(SOMEBODY, SOMEBODY, "x", tmp_path, sudo=True))

    assert {path.stat().st_uid for path in tmp_path.rglob("*")} == {SOMEBODY}
    assert tmp_path.stat().st_uid == 0


@needs_root
def test_somebody_elses_private_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    os.chown(tmp_path / "s", NOBODY, NOBODY)
    with pytest.raises(HostError, match="belongs to uid 65534, not to") as caught:
        make_private(tmp_path / "s", caller({}))

    assert caught.value.id == "state-dir-not-yours"


@pytest.mark.parametrize("make", [lambda p: make_private(p, caller({})), make_shared], ids=["private", "shared"])
def test_a_link_or_file_in_a_folders_place_is_refused(tmp_path: Path, make: object) -> None:
    assert callable(make)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    for name in ("link", "dangling", "file"):
        with pytest.raises(HostError) as caught:
            make(tmp_path / name)
        assert str(tmp_path / name) in caught.value.message
    assert not (tmp_path / "nowhere").exists()
    assert list((tmp_path / "real").iterdir()) == []


SHARED = [(0o700, True), (0o755, True), (0o775, True), (0o1777, True), (0o777, False)]


@pytest.mark.parametrize(("mode", "fine"), SHARED, ids=[oct(mode) for mode, _ in SHARED])
def test_a_shared_folder_that_all_may_write_must_be_sticky(tmp_path: Path, mode: int, fine: bool) -> None:
    run_dir = tmp_path / "r"
    run_dir.mkdir()
    run_dir.chmod(mode)
    if fine:
        make_shared(run_dir)
        assert run_dir.stat().st_mode & 0o7777 == mode
    else:
        with pytest.raises(HostError, match="not sticky"):
            make_shared(run_dir)


@needs_root
def test_a_users_folder_is_trusted_only_when_sticky_and_root_takes_it_over() -> None:
    with open_folder() as top:
        run_dir = top / "r"
        run_dir.mkdir()
        os.chown(run_dir, SOMEBODY, SOMEBODY)
        run_dir.chmod(0o755)
        assert "is not sticky" in str(as_user(NOBODY, lambda: make_shared(run_dir)))
        with pytest.raises(HostError, match="is not sticky"):
            make_shared(run_dir)
        run_dir.chmod(0o1777)
        assert as_user(NOBODY, lambda: make_shared(run_dir)) is None
        assert run_dir.stat().st_uid == SOMEBODY
        make_shared(run_dir)
        assert (run_dir.stat().st_uid, run_dir.stat().st_mode & 0o7777) == (0, 0o1777)


def test_without_sudo_the_caller_is_the_process() -> None:
    found = caller({"HOME": "/somewhere"})

    assert (found.uid, found.gid, found.home, found.sudo) == (
        os.getuid(),
        os.getgid(),
        Path("/somewhere"),
        False,
    )
    assert os.getgid() in found.groups


@needs_root
def test_under_sudo_the_caller_is_the_one_who_typed() -> None:
    entry = pwd.getpwuid(NOBODY)
    found = caller({"SUDO_UID": str(NOBODY), "SUDO_GID": str(entry.pw_gid), "HOME": "/root"})

    assert (found.uid, found.gid, found.name) == (NOBODY, entry.pw_gid, entry.pw_name)
    assert (found.home, found.sudo) == (Path(entry.pw_dir), True)
    assert entry.pw_gid in found.groups


@needs_root
def test_a_caller_without_an_entry_is_his_number() -> None:
    found = caller({"SUDO_UID": str(SOMEBODY), "SUDO_GID": "777", "USER": "root", "HOME": "/root"})

    assert (found.uid, found.gid, found.name, found.home) == (SOMEBODY, 777, str(SOMEBODY), Path("/"))
    assert found.groups == (777,)


STRANGE = ["", "0", "-1", "abc", "１２", "99999999999999999999", "4294967295", "1000 "]


@pytest.mark.parametrize("told", STRANGE)
def test_a_strange_sudo_uid_is_nobody(told: str) -> None:
    found = caller({"SUDO_UID": told, "SUDO_GID": told})

    assert (found.uid, found.sudo) == (os.getuid(), False)


@needs_root
def test_only_root_is_believed_to_be_under_sudo() -> None:
    assert as_user(NOBODY, lambda: caller({"SUDO_UID": "0", "SUDO_GID": "0"}).uid) == NOBODY
    assert as_user(NOBODY, lambda: caller({"SUDO_UID": str(SOMEBODY)}).uid) == NOBODY
