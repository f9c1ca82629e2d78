"""As whom containers write to this machine's folders: what an engine shifts, and what `check` says of folders closed to them."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from migctl.core.others.idmap import IdMap, IdRange
from migctl.core.plan import Job, Plan, Volume
from migctl.engine.checks.check_volumes import volume_findings
from migctl.host.caller import Caller
from migctl.host.writable import unwritable
from migctl.runtimes.access import GpuAccess, Way
from migctl.runtimes.container_config import container_config
from migctl.runtimes.engine_ids import id_map, remaps
from migctl.runtimes.facts import RuntimeFacts
from tests.support.launches import job as a_job
from tests.support.launches import launch

REMAPPED: dict[str, Any] = {
    "SecurityOptions": ["name=seccomp,profile=default", "name=userns"],
    "DockerRootDir": "/var/lib/docker/100000.200000",
}
NOBODY = pwd.getpwnam("nobody")

# what the engine says, rootless → uid 0, 1000 and gid 1000 of a container are these of the machine
MAPS: list[tuple[str, dict[str, Any], bool, tuple[int, int | None, int | None] | None]] = [
    ("nothing is shifted", {"SecurityOptions": ["name=seccomp"]}, False, (0, 1000, 1000)),
    ("an engine that says nothing", {}, False, (0, 1000, 1000)),
    ("userns-remap", REMAPPED, False, (100000, 101000, 201000)),
    ("userns-remap that does not tell its range", {**REMAPPED, "DockerRootDir": "/srv/docker"}, False, None),
    ("rootless", {"SecurityOptions": ["name=rootless"]}, True, (NOBODY.pw_uid, 300999, 400999)),
]


@pytest.mark.parametrize(("case", "info", "rootless", "expected"), MAPS, ids=[row[0] for row in MAPS])
def test_users_of_containers_are_these_of_the_machine(
    tmp_path: Path, case: str, info: dict[str, Any], rootless: bool, expected: tuple[int, int | None, int | None] | None
) -> None:
    (tmp_path / "subuid").write_text("somebody:100:5\nnobody:300000:65536\n")
    (tmp_path / "subgid").write_text("nobody:400000:65536\n")

    found = id_map(info, rootless=rootless, owner=NOBODY.pw_uid, etc=tmp_path)

    told = (found.uids.root, found.uids.outside(1000), found.gids.outside(1000)) if found is not None else None
    assert told == expected
    assert remaps(info) == (case.startswith("userns"))
    assert found is None or found.shifts == (case not in ("nothing is shifted", "an engine that says nothing"))


def test_a_rootless_user_without_a_range_of_ids_has_only_root_inside(tmp_path: Path) -> None:
    found = id_map({}, rootless=True, owner=NOBODY.pw_uid, etc=tmp_path)

    assert found is not None
    assert (found.uids.outside(0), found.uids.outside(1000)) == (NOBODY.pw_uid, None)


ME = os.getuid()
OTHER, GROUP = ME + 4711, os.getgid() + 4711
# mode, the writer's uid and groups → whether it could write
MODES = [
    (0o755, ME, [], True),
    (0o555, ME, [], False),
    (0o644, ME, [], False),  # no file can be made in a folder that may not be entered
    (0o755, OTHER, [GROUP], False),
    (0o775, OTHER, [os.getgid()], True),
    (0o705, OTHER, [os.getgid()], False),  # the group's bits count, not everybody's
    (0o777, OTHER, [GROUP], True),
    (0o1777, OTHER, [GROUP], True),
    (0o000, 0, [], True),
]


@pytest.mark.parametrize(("mode", "uid", "groups", "can"), MODES)
def test_the_mode_of_a_folder_says_who_can_write(
    tmp_path: Path, mode: int, uid: int, groups: list[int], can: bool
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)
    why = unwritable(folder, uid, frozenset(groups))
    folder.chmod(0o700)

    assert (why is None) == (can or uid == 0)
    assert why is None or f"has mode {mode:o}" in why


def test_nothing_is_said_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert unwritable(tmp_path / "none", OTHER, frozenset()) is None


CALLER = Caller(1000, 1000, "me", Path("/"))


def findings(folder: Path, facts: RuntimeFacts, **changes: Any) -> list[tuple[str, str]]:
    volumes = changes.pop("volumes", (Volume("/out", str(folder)),))
    jobs = tuple(Job(name=name, origin=name, volumes=volumes, **changes) for name in ("a", "b"))
    plan = Plan(name="p", path="", folder="/", jobs=jobs)
    return [(f.message, f.hint or "") for f in volume_findings(plan, CALLER, facts)]


def facts(**changes: Any) -> RuntimeFacts:
    return RuntimeFacts(**{"name": "docker", "endpoint": "unix:///e", "cpus": None, "gpu_access": "x", **changes})


REMAP = facts(ids=IdMap(IdRange(100000, 100001), IdRange(100000, 100001)))


def test_check_names_the_folder_its_jobs_and_the_user_that_cannot_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    ((message, hint),) = findings(tmp_path, REMAP)

    assert message.startswith(f"a, b: uid 101000, which is uid 1000 in the container, cannot write to {tmp_path}")
    assert "has mode 755" in message
    assert f"setfacl -m u:101000:rwx {tmp_path}" in hint
    ((plain, _),) = findings(tmp_path, facts(), user=f"{OTHER}:{GROUP}")
    assert plain.startswith(f"a, b: uid {OTHER}, cannot write")


SILENT: list[tuple[str, RuntimeFacts, dict[str, Any]]] = [
    ("read-only", REMAP, {"read_only": True}),
    ("a name of the image", REMAP, {"user": "trainer"}),
    ("the image's own user", REMAP, {"user": "image"}),
    ("ids are shifted nobody knows how", facts(ids=None), {}),
    ("an engine elsewhere", facts(ids=REMAP.ids, local=False), {}),
    ("root without any shift", facts(), {"user": "0:0"}),
]


@pytest.mark.parametrize(("case", "engine", "changes"), SILENT, ids=[row[0] for row in SILENT])
def test_nothing_is_said_where_nothing_is_known_to_be_wrong(
    tmp_path: Path, case: str, engine: RuntimeFacts, changes: dict[str, Any]
) -> None:
    tmp_path.chmod(0o755)
    volumes = (Volume("/out", str(tmp_path), read_only=changes.pop("read_only", False)), Volume("/tmp", kind="tmpfs"))

    assert findings(tmp_path, engine, volumes=volumes, **changes) == []


@pytest.mark.parametrize(("own", "expected"), [(None, "0:0"), ("1000:1000", "1000:1000"), ("image", None)])
def test_in_a_rootless_engine_a_job_is_the_caller_by_being_root_inside(own: str | None, expected: str | None) -> None:
    """Uid 1000 inside is a stranger's number outside, who could not write to the caller's folders."""
    wish = launch(a_job(user=own), image_id="i", user=None if own == "image" else own or "1000:1000")
    config = container_config(wish, GpuAccess(Way.NONE), image_sets_cuda=False, open_files=None, rootless=True)

    assert config.get("User") == expected
