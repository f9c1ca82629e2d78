"""Several real users of one machine: without root, beside each other, and through sudo."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from migctl.nvml.simstate import SimState
from tests.support.other_user import NOBODY, SOMEBODY, open_folder
from tests.support.users import User, needs_setpriv, shared_machine

pytestmark = needs_setpriv

ONE_JOB = """\
name: night
runtime: process
oversubscribe: true
jobs:
  {job}: {{profile: {profile}, command: [sh, -c, "id -u; exec sleep 600"]}}
"""


@pytest.fixture
def machine() -> Iterator[Path]:
    with open_folder() as folder:
        yield shared_machine(folder)


@pytest.fixture
def two(machine: Path) -> Iterator[tuple[User, User]]:
    anna, bert = User(machine, NOBODY, "anna"), User(machine, SOMEBODY, "bert")
    yield anna, bert
    anna.clean()
    bert.clean()


def wrote(user: User, job: str, profile: str) -> None:
    user.owned(user.plan(ONE_JOB.format(job=job, profile=profile)))


def test_two_users_respect_each_others_claims_and_cannot_reach_each_others_things(two: tuple[User, User]) -> None:
    anna, bert = two
    wrote(anna, "a", "4g.20gb")
    wrote(bert, "b", "4g.20gb")
    anna.up()

    # There is no room for a second 4g, and whose the first is, is told without any record of hers.
    refused = bert.run("up").ended(5)
    assert "night" in refused.told

    wrote(bert, "b", "3g.20gb")
    bert.up()
    seen = bert.json("status")
    assert [run["name"] for run in seen["runs"]] == ["night"]
    owners = {i["owner"] for i in seen["gpus"][0]["instances"]}
    assert "night/b" in owners
    assert any(owner.endswith("/night") for owner in owners), owners

    claims = sorted(anna.claims.glob("*.json"))
    assert sorted(path.stat().st_uid for path in claims) == sorted([NOBODY, SOMEBODY])
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in claims)
    assert stat.S_IMODE(anna.claims.stat().st_mode) == 0o1777

    # Same name, and still each ends only his own.
    bert.run("down").ended(0)
    assert [i["owner"] for i in anna.json("status")["gpus"][0]["instances"]] == ["night/a"]
    assert anna.jobs()["a"]["state"] == "running"


def test_neither_user_can_read_or_remove_what_is_the_others(two: tuple[User, User]) -> None:
    anna, bert = two
    wrote(anna, "a", "1g.5gb")
    anna.up()
    (claim,) = anna.claims.glob("*.json")

    assert bert.run("status", "--state-dir", str(anna.state)).code != 0
    assert "a" not in bert.jobs()
    bert.run("down", "night").ended(2)
    bert.run("down", "night", "--state-dir", str(anna.state)).ended(4)
    removed = os.spawnvp(os.P_WAIT, "setpriv", [*bert.prefix, "rm", "-f", str(claim)])
    assert removed != 0
    assert claim.exists()
    assert anna.jobs()["a"]["state"] == "running"
    # What a job writes is the user's too.
    assert anna.run("logs", "a").ended(0).out.split() == [str(NOBODY)]
    assert stat.S_IMODE(anna.state.stat().st_mode) == 0o700


def test_one_user_with_two_state_directories_has_two_runs_of_one_name(machine: Path) -> None:
    anna = User(machine, NOBODY, "anna")
    wrote(anna, "a", "1g.5gb")
    other = str(anna.folder / "other")
    anna.up()
    anna.up("--state-dir", other)
    try:
        held = [json.loads(path.read_text())["gpus"] for path in sorted(anna.claims.glob("*.json"))]
        assert len(held) == 2
        assert held[0] != held[1]
        anna.run("down", "--state-dir", other).ended(0)
        assert len(list(anna.claims.glob("*.json"))) == 1
        assert anna.jobs()["a"]["state"] == "running"
    finally:
        anna.run("down", "--all", "--timeout", "0", "--state-dir", other)
        anna.clean()


READING = [
    ("status",),
    ("status", "--json"),
    ("plan",),
    ("profiles",),
    ("workers",),
    ("logs", "a"),
    ("up", "--dry-run"),
    ("schema",),
    ("check", "--runtime", "process"),
]


def test_everything_that_reads_works_without_root(machine: Path) -> None:
    anna = User(machine, NOBODY, "anna")
    wrote(anna, "a", "1g.5gb")
    anna.up()
    try:
        for words in READING:
            done = anna.run(*words).ended(0)
            assert done.out, done
    finally:
        anna.clean()


def without_rights(machine: Path) -> User:
    state = SimState.create(machine / "simulator.json", "a100-40gb")
    state.add_foreign_instance(0, "3g.20gb", 4)
    state.no_permission = True
    state.save(machine / "simulator.json")
    anna = User(machine, NOBODY, "anna")
    wrote(anna, "a", "1g.5gb")
    return anna


def test_without_the_right_to_make_instances_nothing_is_changed_and_the_whole_sudo_line_is_told(machine: Path) -> None:
    anna = without_rights(machine)
    plan = str(anna.folder / "plan.yaml")
    refused = anna.run("up", plan).ended(4)
    kept = "DOCKER_HOST,MIGCTL_NVML,MIGCTL_RECORDING,MIGCTL_RUN_DIR,MIGCTL_SIM_STATE,MIGCTL_STATE_DIR,PYTHONPATH"

    assert "1 instance can be seen there" in refused.told
    # On one line, however narrow the terminal: it is there to be copied.
    assert any(
        f"sudo --preserve-env={kept}" in line and f"-m migctl up {plan}" in line for line in refused.err.split("\n")
    )
    assert anna.json("up", plan)["errors"][0]["hint"].startswith(f"sudo --preserve-env={kept}")
    assert list(anna.claims.glob("*.json")) == []
    assert len(anna.instances()) == 1


def test_without_rights_status_profiles_and_check_tell_what_can_be_seen(machine: Path) -> None:
    anna = without_rights(machine)
    (gpu,) = anna.json("status")["gpus"]

    assert "needs root" in gpu["instances_reason"]
    assert [i["placement"] for i in gpu["instances"]] != [{"start": 4, "size": 4}]
    anna.run("status").ended(0)
    anna.run("profiles").ended(0)
    anna.run("workers").ended(0)
    findings = {f["id"]: f for f in anna.json("check", "--runtime", "process")["findings"]}
    assert findings["instances-hidden"]["hint"].startswith("sudo --preserve-env=")
    # A plan answers with the reason, and for an empty board without asking the GPU.
    assert "only root may read" in anna.run("plan").ended(4).told
    assert "1g.5gb" in anna.run("plan", "--on", "a100-40gb").ended(0).out


def test_under_sudo_everything_is_the_calling_users(machine: Path) -> None:
    sudo = User(machine, 0, "root", SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY), SUDO_USER="nobody")
    sudo.prefix = ()
    anna = User(machine, NOBODY, "anna")
    sudo.folder = anna.folder
    sudo.plan(ONE_JOB.format(job="a", profile="1g.5gb"))
    state = machine / "shared-state"
    try:
        sudo.up("--state-dir", str(state))
        kept = [path for path in (state, *state.rglob("*")) if not path.is_symlink()]
        (claim,) = sudo.claims.glob("*.json")

        assert {path.stat().st_uid for path in kept} == {NOBODY}, kept
        assert claim.stat().st_uid == NOBODY
        # The user goes on without sudo: his run, his logs, his job.
        assert anna.run("logs", "a", "--state-dir", str(state)).ended(0).out.split() == [str(NOBODY)]
        assert "running" in anna.run("status", "--state-dir", str(state)).ended(0).out
        found = {f["id"]: f for f in sudo.json("check", "--runtime", "process")["findings"]}
        assert found["acting-for"]["message"].endswith(f"(uid {NOBODY})")
    finally:
        anna.run("down", "--all", "--timeout", "0", "--state-dir", str(state)).ended(0)
    assert list(sudo.claims.glob("*.json")) == []


def test_what_sudo_took_out_of_the_environment_is_told(machine: Path) -> None:
    """A program named sudo between the shell and migctl, as the real one is seen in /proc."""
    root = User(machine, 0, "root")
    root.prefix = ()
    sudo = machine / "sudo"
    # comm is the name of the file that was started: a copy of env, which then runs python.
    sudo.write_text(
        "#!/bin/sh\n"
        f'env -u MIGCTL_STATE_DIR -u DOCKER_HOST SUDO_UID={NOBODY} SUDO_GID={NOBODY} HOME={machine} "$@"\n'
        "exit $?\n"
    )
    sudo.chmod(0o755)
    root.prefix = (str(sudo),)
    assert "did not hand on DOCKER_HOST" in " ".join(root.run("status").ended(0).out.split())
    findings = {f["id"]: f for f in root.json("check", "--runtime", "process")["findings"]}

    assert findings["sudo-environment"]["level"] == "warning"
    assert "did not hand on DOCKER_HOST, MIGCTL_STATE_DIR" in findings["sudo-environment"]["message"]
    assert findings["sudo-environment"]["hint"].startswith("sudo --preserve-env=DOCKER_HOST,MIGCTL_STATE_DIR")
