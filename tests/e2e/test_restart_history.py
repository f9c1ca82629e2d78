"""Restarting jobs where they are, and looking back at runs until they are forgotten."""

from __future__ import annotations

import json
import time

import pytest

from migctl.nvml.simstate import SimState
from tests.support.program import Program

PLAN = """name: night
runtime: process
jobs:
  one: {profile: 1g.5gb, command: [sh, -c, 'echo $MIGCTL_ATTEMPT $MIGCTL_MIG_UUID $MIGCTL_CPUSET; exec sleep 600']}
  two: {profile: 2g.10gb, command: [sh, -c, 'exit 3']}
"""


def test_a_restarted_job_is_a_new_attempt_on_the_same_instance_and_cores(program: Program) -> None:
    program.plan(PLAN)
    program.up()
    before, there = program.jobs(), program.instances()

    restarted = json.loads(program.run("restart", "one", "two", "--json").ended(0).out)

    after = program.jobs()
    assert [(job["name"], job["attempt"]) for job in restarted["restarted"]] == [("one", 2), ("two", 2)]
    assert program.instances() == there
    for job in ("one", "two"):
        assert after[job]["attempt"] == 2
        assert [after[job][key] for key in ("mig_uuid", "cpus", "gi_id")] == [
            before[job][key] for key in ("mig_uuid", "cpus", "gi_id")
        ]
    assert after["one"]["pid"] != before["one"]["pid"]
    assert program.run("logs", "one").ended(0).out.startswith(f"2 {before['one']['mig_uuid']} ")


def test_what_has_changed_or_not_begun_is_not_restarted_and_nothing_is_ended(program: Program) -> None:
    program.plan(PLAN)
    program.up()
    program.plan(PLAN.replace("sleep 600", "sleep 700"))

    refused = program.run("restart", "one").ended(2)

    assert "one has changed in the plan since it was started" in refused.told
    assert "migctl up --replace" in refused.told
    assert program.jobs()["one"]["state"] == "running"
    assert program.jobs()["one"]["attempt"] == 1


def test_history_keeps_every_attempt_until_the_run_is_forgotten(program: Program) -> None:
    program.plan(PLAN)
    program.up()
    program.run("restart", "one").ended(0)

    living = program.run("rm", "night").ended(2)
    program.run("down").ended(0)
    (run,) = program.json("history", "night")["runs"]
    (short,) = program.json("history")["runs"]

    assert "migctl down night, then migctl rm night" in living.told
    assert [(a["job"], a["attempt"], a["state"]) for a in run["attempts"]] == [
        ("one", 1, "stopped"),
        ("one", 2, "stopped"),
        ("two", 1, "failed"),
    ]
    assert run["ended_at"] is not None
    assert run == short
    assert program.run("rm", "night").ended(0).out == "night: forgotten, with its logs\n"
    assert program.json("history") == {"version": 1, "runs": []}
    assert not (program.state / "runs/night").exists()


def test_the_logs_of_an_undone_run_are_shown_until_it_is_forgotten(program: Program) -> None:
    program.plan("""name: night
runtime: process
jobs:
  one: {profile: 1g.5gb, command: [sh, -c, 'echo one $MIGCTL_ATTEMPT']}
  two: {profile: 2g.10gb, command: [sh, -c, 'echo two; echo more']}
""")
    program.run("up", "--wait").ended(0)
    program.run("restart", "one").ended(0)
    program.run("wait").ended(0)
    program.run("down").ended(0)

    assert program.run("logs", "night").ended(0).out == "one | one 2\ntwo | two\ntwo | more\n"
    assert program.run("logs").ended(0).out == program.run("logs", "plan.yaml", "--follow").ended(0).out
    assert program.run("logs", "night/two", "--tail", "1").ended(0).out == "more\n"
    assert program.json("logs", "night/one")["jobs"] == [{"name": "one", "lines": ["one 2"]}]
    assert "no job is called night/three" in program.run("logs", "night/three").ended(2).told

    program.run("rm", "night").ended(0)
    program.run("logs", "night").ended(2)


def test_prune_forgets_ended_runs_and_leaves_living_ones(program: Program) -> None:
    program.plan(PLAN)
    program.plan(PLAN.replace("name: night", "name: day"), "day.yaml")
    program.up()
    program.run("down", "night").ended(0)
    program.up("day.yaml")

    pruned = program.run("history", "--prune").ended(0)

    assert pruned.out == "forgotten: night\n"
    assert [run["name"] for run in program.json("history")["runs"]] == ["day"]
    assert program.jobs()["one"]["state"] == "running"


def test_status_says_when_a_run_is_expected_to_end_with_and_without_a_queue(program: Program) -> None:
    jobs = "{replicas: 2, profile: 7g.40gb, expect: 1h, command: [sleep, '600']}"
    program.plan(f"name: turns\nruntime: process\njobs: {{big: {jobs}}}\n", "turns.yaml")
    program.plan(PLAN.replace("sleep 600']", "sleep 600'], expect: 2h").replace("two: {", "two: {expect: 1m, "))
    program.up()
    (alone,) = program.json("status", "night")["runs"]
    program.run("down", "night").ended(0)
    program.up("turns.yaml")
    queued = {"expected_end_at": None}
    deadline = time.monotonic() + 20
    while queued["expected_end_at"] is None and time.monotonic() < deadline:
        (queued,) = program.json("status", "turns")["runs"]

    one = alone["jobs"][0]
    assert one["expected_end_at"] == one["started_at"] + 7200
    assert alone["expected_end_at"] == one["expected_end_at"]
    first, second = queued["jobs"]
    assert abs(second["expected_end_at"] - first["started_at"] - 7200) < 60
    assert queued["expected_end_at"] == second["expected_end_at"]


@pytest.mark.parametrize("words", [("down", "night"), ("status", "night"), ("wait", "night")])
def test_a_run_that_was_taken_down_is_not_said_to_have_never_been(program: Program, words: tuple[str, ...]) -> None:
    program.plan(PLAN)
    program.up()
    program.run("down").ended(0)

    told = program.run(*words).ended(2).told

    assert "night was taken down" in told
    assert "migctl history night" in told


def test_an_attempt_that_a_killed_up_only_wrote_down_is_no_longer_starting_after_down(program: Program) -> None:
    program.plan(PLAN)
    state = SimState.create(program.simulator, "a100-40gb")
    state.delays_s = {"create": 1.5}
    state.save(program.simulator)
    up = program.start("up")
    deadline = time.monotonic() + 30
    while not program.instances():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    up.kill()
    up.communicate(timeout=60)

    program.run("down", "night").ended(0)

    (run,) = program.json("history", "night")["runs"]
    assert {attempt["state"] for attempt in run["attempts"]} == {"stopped"}
    assert program.instances() == []
