"""More jobs than room, as a user sees it: commands, a detached supervisor, and what is left when it is killed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import Program

NOTE = 'echo "$MIGCTL_JOB" >>"$NOTES"'
"""What every job does first: the order of starts is the order of lines."""
GATE = "until test -e $NOTES.go; do sleep 0.05; done"
"""A job that ends when the test says so."""
_DEADLINE_S = 40.0


def plan_of(jobs: Mapping[str, str], *keys: str, name: str = "sweep", defaults: str = "profile: 1g.5gb") -> str:
    """A plan of process jobs: name → what follows the note, and further keys after `;;`."""
    lines = [f"name: {name}", "runtime: process", "oversubscribe: true", *keys, f"defaults: {{{defaults}}}", "jobs:"]
    for job, text in jobs.items():
        work, _, more = text.partition(";;")
        command = json.dumps(["sh", "-c", f"{NOTE}; {work.strip() or 'true'}"])
        lines.append(f"  {job}: {{command: {command}{', ' + more.strip() if more else ''}}}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def queue(program: Program) -> Program:
    program.environ["NOTES"] = str(program.folder / "notes")
    return program


def notes(program: Program) -> list[str]:
    """The jobs in the order in which they began."""
    path = program.folder / "notes"
    return path.read_text().split() if path.exists() else []


def supervisor(program: Program) -> int | None:
    """The pid of the one that works for this folder."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (
                entry.name.isdigit()
                and b"migctl.engine.queueing.supervision" in (entry / "cmdline").read_bytes()
                and f"MIGCTL_STATE_DIR={program.state}".encode() in (entry / "environ").read_bytes().split(b"\0")
            ):
                return int(entry.name)
    return None


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + _DEADLINE_S
    while not true():
        assert time.monotonic() < end, "it never was so"
        time.sleep(0.05)


def states(program: Program) -> dict[str, str]:
    return {name: job["state"] for name, job in program.jobs().items()}


def go(program: Program) -> None:
    """Open the gate."""
    (program.folder / "notes.go").touch()


def began(program: Program, *jobs: str) -> Callable[[], bool]:
    return lambda: set(jobs) <= set(notes(program))


def notices(program: Program) -> dict[str, Any]:
    return {one["id"]: one for one in program.json("status")["warnings"]}


def test_ten_jobs_go_through_seven_places(queue: Program) -> None:
    queue.plan(plan_of({f"j{n}": "sleep 0.2; echo out of $MIGCTL_JOB" for n in range(10)}))

    up = queue.run("up", "--wait").ended(0)

    assert "7 jobs started, 3 jobs waiting" in up.out
    assert sorted(notes(queue)) == sorted(f"j{n}" for n in range(10))
    assert set(states(queue).values()) == {"succeeded"}
    assert len(queue.instances()) == 7, "the three that came later took over what was there"
    assert queue.run("logs", "j0").ended(0).out == "out of j0\n"
    assert queue.run("logs", "j9").ended(0).out == "out of j9\n"
    until(lambda: supervisor(queue) is None)
    queue.run("down").ended(0)
    assert queue.instances() == []


def test_priority_goes_before_the_order_of_the_file_and_max_parallel_holds(queue: Program) -> None:
    queue.plan(plan_of({"a": "", "b": "", "c": ";; priority: 5", "d": ""}, "max_parallel: 1"))

    queue.run("up", "--wait").ended(0)

    assert notes(queue) == ["c", "a", "b", "d"]


def test_needs_and_stages_hold_jobs_back_and_a_failure_those_that_need_it(queue: Program) -> None:
    jobs = {
        "prepare": "exit 1",
        "train": ";; needs: [prepare]",
        "first": "sleep 0.3;; stage: 1",
        "second": ";; stage: 2",
    }
    queue.plan(plan_of(jobs))

    up = queue.run("up", "--wait").ended(8)

    assert notes(queue)[-1] == "second"
    assert "train" not in notes(queue)
    assert states(queue) == {"prepare": "failed", "train": "stopped", "first": "succeeded", "second": "succeeded"}
    assert "prepare" in queue.jobs()["train"]["reason"]
    assert "2 of 4 jobs did not succeed" in up.told


def test_one_after_another_each_has_the_whole_gpu(queue: Program) -> None:
    queue.plan(plan_of({"a": "sleep 0.1", "b": "sleep 0.1"}, "strategy: sequential", defaults="image: x"))

    queue.run("up", "--wait").ended(0)

    assert notes(queue) == ["a", "b"]
    assert {job["profile"] for job in queue.jobs().values()} == {"7g.40gb"}
    assert len(queue.instances()) == 1


def test_a_job_that_fails_is_tried_again_after_a_pause(queue: Program) -> None:
    queue.plan(plan_of({"flaky": f"test $(grep -c . {queue.folder}/notes) -ge 2;; retries: 2"}))

    queue.run("up").ended(0)
    waited = queue.run("wait").ended(0)

    job = queue.jobs()["flaky"]
    assert waited.out == "flaky: succeeded (exit code 0)\n"
    assert (job["state"], job["attempt"]) == ("succeeded", 2)
    assert notes(queue) == ["flaky", "flaky"]


def test_a_job_that_runs_too_long_is_ended_and_says_so(queue: Program) -> None:
    queue.plan(plan_of({"long": "exec sleep 600;; timeout: 1s, stop_grace_period: 1s", "next": ""}, "max_parallel: 1"))

    queue.run("up", "--wait").ended(8)

    jobs = queue.jobs()
    assert (jobs["long"]["state"], jobs["next"]["state"]) == ("failed", "succeeded")
    assert "timeout: it ran for more than 1 s" in jobs["long"]["reason"]


def test_with_fail_fast_the_first_failure_ends_everything(queue: Program) -> None:
    jobs = {"bad": "sleep 0.3; exit 3", "busy": "exec sleep 600;; stop_grace_period: 1s", "later": ""}
    queue.plan(plan_of(jobs, "fail_fast: true", "max_parallel: 2"))

    queue.run("up", "--wait").ended(8)

    found = queue.jobs()
    assert states(queue) == {"bad": "failed", "busy": "stopped", "later": "stopped"}
    assert "ended because bad failed" in found["busy"]["reason"]
    assert "not started: bad failed" in found["later"]["reason"]
    queue.plan(plan_of({**jobs, "bad": "true"}, "fail_fast: true", "max_parallel: 2"))
    queue.run("up", "--replace", "--retry").ended(0)
    until(began(queue, "later", "busy"))
    queue.run("stop", "busy").ended(0)


def test_between_two_starts_lies_the_pause_that_the_plan_wants(queue: Program) -> None:
    queue.plan(plan_of(dict.fromkeys("abc", "date +%s.%N >>$NOTES.times"), "stagger: 1s"))

    queue.run("up", "--wait").ended(0)

    times = [float(line) for line in (queue.folder / "notes.times").read_text().split()]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(pause > 0.9 for pause in pauses), pauses


def test_waiting_jobs_are_held_released_and_taken_out(queue: Program) -> None:
    queue.plan(plan_of(dict.fromkeys(("a", "b", "c"), "sleep 0.1") | {"first": "exec sleep 600;; priority: 9"},
                       "max_parallel: 1"))  # fmt: skip
    queue.run("up").ended(0)

    held = queue.run("hold", "a").ended(0)
    out = queue.run("stop", "b").ended(0)
    queue.run("stop", "first", "--timeout", "1").ended(0)
    until(began(queue, "c"))
    before = queue.jobs()
    released = queue.run("release", "a").ended(0)
    queue.run("wait").ended(8)

    assert (held.out, out.out, released.out) == (
        "sweep: held: a; what runs goes on\n",
        "stopped: b\n",
        "sweep: released: a\n",
    )
    assert (before["a"]["state"], before["a"]["reason"]) == ("queued", "held")
    assert before["b"]["state"] == "stopped"
    assert states(queue) == {"a": "succeeded", "b": "stopped", "c": "succeeded", "first": "stopped"}
    assert notes(queue) == ["first", "c", "a"]


def test_a_held_run_waits_until_it_is_released(queue: Program) -> None:
    queue.plan(plan_of({"a": GATE, "b": ""}, "max_parallel: 1"))
    queue.run("up").ended(0)

    queue.run("hold").ended(0)
    go(queue)
    until(lambda: states(queue)["a"] == "succeeded")
    timed_out = queue.run("wait", "--timeout", "0.5").ended(5)
    assert "run-held" in notices(queue)
    queue.run("release").ended(0)
    queue.run("wait").ended(0)

    assert "b" in timed_out.told
    assert notes(queue) == ["a", "b"]


def test_up_of_the_edited_plan_adds_removes_reorders_and_changes_what_waits(queue: Program) -> None:
    blocker = {"first": "exec sleep 600;; priority: 9"}
    queue.plan(plan_of({**blocker, "a": "", "b": "", "c": "echo old"}, "max_parallel: 1"))
    queue.run("up").ended(0)

    queue.plan(plan_of({**blocker, "c": "echo new", "new": "", "a": ""}, "max_parallel: 1"))
    again = queue.run("up").ended(0)
    queue.run("stop", "first", "--timeout", "1").ended(0)
    queue.run("wait").ended(8)

    assert "waiting: c, new, a" in again.out
    assert notes(queue) == ["first", "c", "new", "a"]
    assert list(queue.jobs()) == ["first", "c", "new", "a"]
    assert queue.run("logs", "c").ended(0).out == "new\n"


def test_logs_of_a_waiting_job_are_followed_from_its_start(queue: Program) -> None:
    queue.plan(plan_of({"a": f"{GATE}; echo says a", "b": "echo says b"}, "max_parallel: 1"))
    queue.run("up").ended(0)

    early = queue.run("logs", "b").ended(5)
    with queue.start("logs", "-f") as process:
        go(queue)
        followed, _ = process.communicate(timeout=60)

    assert "b has not begun: there is no log yet" in early.told
    assert followed == "a | says a\nb | says b\n"


def test_down_while_jobs_wait_starts_nothing_more(queue: Program) -> None:
    queue.plan(plan_of(dict.fromkeys("abcdefghij", "exec sleep 600")))
    queue.run("up").ended(0)

    queue.run("down", "--timeout", "0").ended(0)

    until(lambda: supervisor(queue) is None)
    assert len(notes(queue)) == 7
    assert queue.instances() == []
    assert queue.json("status")["runs"] == []
    assert sorted(path.name for path in (queue.state / "runs" / "sweep").glob("@*")) == ["@run.json"]


@pytest.mark.parametrize("plan_there", [True, False])
def test_a_killed_supervisor_is_missed_and_resume_starts_another(queue: Program, plan_there: bool) -> None:
    path = queue.plan(plan_of({"a": GATE, "b": "", "c": ""}, "max_parallel: 1"))
    queue.run("up").ended(0)
    pid = supervisor(queue)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: supervisor(queue) is None)
    go(queue)
    until(lambda: states(queue)["a"] == "succeeded")
    if not plan_there:
        path.unlink()

    shown = queue.run("status").ended(0)
    waited = queue.run("wait").ended(5)
    told = notices(queue)["not-supervised"]
    queue.run(*told["hint"].split()[1:]).ended(0)
    queue.run("wait").ended(0)

    assert "nobody supervises sweep" in " ".join(shown.out.split())
    assert "b, c wait, and nobody supervises sweep" in waited.told
    assert told["hint"] == "migctl resume sweep"
    assert notes(queue) == ["a", "b", "c"]


def test_two_runs_have_one_supervisor_and_the_end_of_one_is_room_for_the_other(queue: Program) -> None:
    queue.plan(plan_of({"a": "exec sleep 600", "b": ""}, "max_parallel: 1", "on_finish: down", name="one"), "one.yaml")
    queue.plan(plan_of({"big": "", "after": ";; needs: [big]"}, name="two", defaults="profile: 3g.20gb"), "two.yaml")
    queue.run("up", "one.yaml").ended(0)
    first = supervisor(queue)
    queue.run("up", "two.yaml").ended(0)
    second = supervisor(queue)
    queue.run("wait", "two").ended(0)

    queue.run("stop", "one/a", "--timeout", "1").ended(0)
    until(lambda: [run["name"] for run in queue.json("status")["runs"]] == ["two"])

    assert first == second is not None
    assert notes(queue) == ["a", "big", "after", "b"]
    until(lambda: supervisor(queue) is None)


def test_whoever_wants_to_know_is_told_of_ends_before_the_supervisor_goes(queue: Program) -> None:
    told = queue.folder / "told"
    notify = f"notify: [{{command: [sh, -c, 'sleep 0.5; cat >>{told}; echo >>{told}']}}]"
    queue.plan(plan_of({"a": "", "b": "exit 4"}, notify))

    queue.run("up", "--wait").ended(8)
    until(lambda: supervisor(queue) is None)

    events = [json.loads(line) for line in told.read_text().splitlines()]
    assert sorted((e["event"], e.get("job", ""), e.get("state", "")) for e in events) == [
        ("job", "a", "succeeded"),
        ("job", "b", "failed"),
        ("run", "", ""),
    ]
    assert next(e for e in events if e["event"] == "run")["jobs"] == {"succeeded": 1, "failed": 1}
    queue.run("up").ended(0)
    time.sleep(0.3)
    assert supervisor(queue) is None, "nothing has changed: nothing is told twice"


def test_a_supervisor_that_is_asked_to_end_leaves_the_jobs_alone(queue: Program) -> None:
    queue.plan(plan_of({"a": "exec sleep 600", "b": ""}, "max_parallel: 1"))
    queue.run("up").ended(0)
    pid = supervisor(queue)
    assert pid is not None

    os.kill(pid, signal.SIGTERM)
    until(lambda: supervisor(queue) is None)

    assert states(queue) == {"a": "running", "b": "queued"}
    assert not (queue.state / "supervisor.bell").exists()
    log = (queue.state / "supervisor.log").read_text()
    assert re.search(r"supervising, pid \d+", log)
    assert log.rstrip().endswith("done")


def test_up_with_a_queue_names_what_waits_in_json(queue: Program) -> None:
    queue.plan(plan_of(dict.fromkeys("abcdefgh", "exec sleep 600")))

    value = queue.json("up")

    assert value["waiting"] == ["h"] or [one["name"] for one in value["waiting"]] == ["h"], value
