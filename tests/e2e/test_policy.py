"""The administrator's policy as users meet it: exit 4, the rule, its line and its owner, and nothing changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from migctl.host.policyfile import POLICY
from migctl.nvml.simstate import SimState
from tests.support.other_user import NOBODY, SOMEBODY, open_folder
from tests.support.program import Program
from tests.support.users import User, needs_setpriv, shared_machine

pytestmark = pytest.mark.skipif(POLICY.exists(), reason="this machine has a policy of its own, which nothing replaces")

TWO_JOBS = """\
name: night
runtime: process
oversubscribe: true
jobs:
  a: {profile: 2g.10gb, command: [sleep, "600"]}
  b: {profile: 3g.20gb, command: [sleep, "600"]}
"""


def governed(program: Program, text: str) -> Path:
    path = program.folder / "policy.yaml"
    path.write_text(f"contact: gpu@example.org\n{text}")
    program.environ["MIGCTL_POLICY"] = str(path)
    return path


def test_up_stops_at_a_broken_rule_and_check_and_plan_tell_it(program: Program) -> None:
    program.plan(TWO_JOBS)
    path = governed(program, "max_slices: 4\n")
    rule = f"rule max_slices of root, {path}:2" if os.geteuid() == 0 else "rule max_slices of "
    refused = program.json("up")["errors"]

    assert [(e["id"], e["exit_code"]) for e in refused] == [("policy-max-slices", 4)]
    assert "night takes 5 slices; one user may hold 4" in refused[0]["message"]
    assert rule in refused[0]["message"]
    assert refused[0]["position"] == {"file": str(path), "line": 2, "column": 1}
    assert "ask gpu@example.org" in refused[0]["hint"]
    assert "max_slices: 4" in program.run("up").ended(4).err
    program.run("up", "--dry-run").ended(4)
    assert program.instances() == []
    assert not program.claims.exists() or list(program.claims.glob("*.json")) == []

    findings = {f["id"]: f for f in program.json("check")["findings"]}
    assert findings["policy"]["message"].endswith(": max_slices")
    assert findings["policy-max-slices"]["level"] == "failure"
    plan = program.json("plan")
    assert any("one user may hold 4" in w["message"] for w in plan["warnings"])
    assert len(plan["jobs"]) == 2


def test_what_runs_already_goes_on_when_the_rules_get_stricter(program: Program) -> None:
    program.plan(TWO_JOBS)
    program.up()
    governed(program, "max_slices: 1\n")

    program.up()
    assert {job["state"] for job in program.jobs().values()} == {"running"}
    program.run("down").ended(0)
    assert program.instances() == []


def test_with_a_policy_that_is_not_believed_nothing_starts_and_everything_can_end(program: Program) -> None:
    program.plan(TWO_JOBS)
    program.up()
    path = governed(program, "")
    path.chmod(0o666)
    other = program.plan(TWO_JOBS.replace("night", "day"), "day.yaml")

    assert "others than" in program.run("up", str(other)).ended(4).told
    assert "policy-untrusted" in [f["id"] for f in program.json("check")["findings"]]
    program.run("status").ended(0)
    program.run("down").ended(0)


def test_the_mig_mode_stays_where_the_policy_says_so(program: Program) -> None:
    program.plan(TWO_JOBS)
    governed(program, "enable_mig: false\n")
    off = {"MIGCTL_NVML": "sim:a100-40gb:off"}

    assert "the MIG mode of GPU 0 may not be changed" in program.run("up", "--enable-mig", **off).ended(4).told
    assert not program.simulator.exists() or not SimState.load(program.simulator).gpus[0].current


def test_gpus_and_cores_that_are_not_for_users_are_planned_around(program: Program) -> None:
    program.environ["MIGCTL_NVML"] = "sim:a100-40gbx2"
    program.plan(TWO_JOBS + "gpu: all\n")
    governed(program, "gpu: 1\n" + ("reserve_cores: 1\n" if (os.cpu_count() or 1) > 1 else ""))
    program.up()

    assert program.instances(0) == []
    assert len(program.instances(1)) == 2
    if (os.cpu_count() or 1) > 1:
        assert all(not job["cpus"].startswith("0") for job in program.jobs().values())
    named = program.plan(TWO_JOBS.replace("night", "day") + "gpu: 0\n", "day.yaml")
    assert "GPU 0 (NVIDIA A100-SXM4-40GB) is not one that you may use" in program.run("up", str(named)).ended(4).told


@pytest.fixture
def machine() -> Iterator[Path]:
    with open_folder() as folder:
        yield shared_machine(folder)


@needs_setpriv
def test_sums_are_each_users_own_over_all_runs_and_state_directories(machine: Path) -> None:
    anna, bert = (User(machine, uid, name) for uid, name in ((NOBODY, "anna"), (SOMEBODY, "bert")))
    policy = machine / "rules" / "policy.yaml"
    policy.parent.mkdir()
    policy.write_text("max_slices: 3\n")
    # One core each: that is all that a small machine has for two users.
    plan = "".join(line for line in TWO_JOBS.splitlines(keepends=True) if "3g.20gb" not in line)
    other = str(anna.folder / "other")
    try:
        for user in (anna, bert):
            user.environ["MIGCTL_POLICY"] = str(policy)
            user.owned(user.plan(plan))
            user.up()
        bert.run("down").ended(0)
        refused = anna.run("up", "--state-dir", other).ended(4)
        assert (
            "takes 2 slices beside 2 of your other runs; one user may hold 3 (rule max_slices of root" in refused.told
        )
        anna.run("down").ended(0)
        anna.up("--state-dir", other)
    finally:
        anna.run("down", "--all", "--timeout", "0", "--state-dir", other)
        anna.clean()
        bert.clean()
    assert anna.instances() == []
