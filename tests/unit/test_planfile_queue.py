"""The queue's keys of a plan: what they become, and what contradicts itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from migctl import planfile
from migctl.core.choices import Finish, Reboot, RetryOn, Strategy
from migctl.core.plan import Job, MpsShare, Notify, Plan
from migctl.errors import Problems, Where
from migctl.planfile.expand import MOST_JOBS
from migctl.planfile.needs import MOST_NEEDS
from migctl.planfile.turn_fields import MOST_ON_ONE_INSTANCE, MOST_RETRIES

JOB = "jobs:\n  a:\n    image: i\n    "


def plan(text: str, folder: Path = Path("/nowhere"), **more: planfile.Value) -> Plan:
    return planfile.loads(text, "plan.yaml", folder, {"N": "3", "HOOK": "https://hooks.example/T0"}, **more)


def told(text: str, **more: planfile.Value) -> list[tuple[str, str]]:
    """Kind and place of every mistake."""
    with pytest.raises(Problems) as caught:
        plan(text, Path("/nowhere"), **more)
    return [(error.id, str(error.where).removeprefix("plan.yaml:")) for error in caught.value.all]


def needs(made: Plan) -> dict[str, tuple[str, ...]]:
    return {job.name: job.needs for job in made.jobs}


VALUES = (
    ("stage: 0", "stage", 0),
    ("stage:", "stage", None),
    ("priority: -3", "priority", -3),
    ("priority: ${N}", "priority", 3),
    ("retries: 100", "retries", 100),
    ("retries: 0", "retry_on", (RetryOn.FAILED, RetryOn.LOST)),
    ("retries: 1\n    retry_on: oom", "retry_on", (RetryOn.OOM,)),
    ("retries: 1\n    retry_on: [timeout, failed, timeout]", "retry_on", (RetryOn.TIMEOUT, RetryOn.FAILED)),
    ("timeout: 1h30m", "timeout_s", 5400.0),
    ("expect: 90s", "expect_s", 90.0),
    ("resumable: true", "resumable", True),
    ("snapshot: false", "snapshot", False),
    ("mps: false", "mps", None),
    ("mps:", "mps", None),
    ("mps: true", "mps", MpsShare()),
    ("mps: {active_threads: 30}", "mps", MpsShare(active_threads_percent=30)),
    ("mps: {active_threads: '${N}', memory: 4g}", "mps", MpsShare(active_threads_percent=3, memory_mib=4096)),
    ("mps: {memory: 512m, active_threads: }", "mps", MpsShare(memory_mib=512)),
    ("per_instance: 48", "per_instance", 48),
    ("needs: []", "needs", ()),
)


@pytest.mark.parametrize(("text", "field", "value"), VALUES, ids=lambda value: repr(value)[:40])
def test_a_jobs_key_means(text: str, field: str, value: object) -> None:
    (job,) = plan(JOB + text).jobs

    assert getattr(job, field) == value


def test_a_job_without_these_keys_has_the_cores_own_defaults() -> None:
    (job,) = plan("jobs: {a: {image: i}}").jobs

    assert job == Job(name="a", origin="a", image="i", where=job.where)


def test_the_plans_keys_mean() -> None:
    made = plan(
        "strategy: sequential\nfail_fast: true\nstagger: 5s\non_finish: down\non_reboot: resume\nnotify: mail me\n"
        "jobs: {a: {image: i}}"
    )

    assert made.strategy is Strategy.SEQUENTIAL
    assert (made.fail_fast, made.stagger_s) == (True, 5.0)
    assert (made.on_finish, made.on_reboot) == (Finish.DOWN, Reboot.RESUME)
    assert made.notify == (Notify(command=("mail", "me")),)
    assert made.place("strategy") == Where("plan.yaml", 1, 11, "strategy: sequential")


NOTIFY = (
    ("notify-send 'it ended'", (Notify(command=("notify-send", "it ended")),)),
    ("[notify-send, it ended, 3]", (Notify(command=("notify-send", "it ended", "3")),)),
    ("{command: mail me, on: failure}", (Notify(command=("mail", "me"), on=("failure",)),)),
    ("{command: [mail, me], on: [run, failure, run]}", (Notify(command=("mail", "me"), on=("run", "failure")),)),
    ("{url: '${HOOK}'}", (Notify(url="https://hooks.example/T0"),)),
    ("{url: 'http://[::1]:8080/x?y=1', on: run}", (Notify(url="http://[::1]:8080/x?y=1", on=("run",)),)),
    (
        "[mail me, [log, it], {url: '${HOOK}'}]",
        (Notify(command=("mail", "me")), Notify(command=("log", "it")), Notify(url="https://hooks.example/T0")),
    ),
)


@pytest.mark.parametrize(("text", "value"), NOTIFY, ids=lambda value: repr(value)[:30])
def test_whom_to_tell_is_a_command_a_webhook_or_several_of_them(text: str, value: tuple[Notify, ...]) -> None:
    assert plan(f"notify: {text}\njobs: {{a: {{image: i}}}}").notify == value


def test_the_name_of_a_key_means_all_its_jobs_and_an_expanded_name_one_of_them() -> None:
    made = plan(
        "defaults: {image: i}\njobs:\n  train: {matrix: {lr: [0.1, a/b]}, replicas: 2, command: 'x ${matrix.lr}'}\n"
        "  all: {needs: train}\n  one: {needs: [train-lr0.1-2, train-lr0.1-2]}\n  '7': {needs: all}\n  last: {needs: 7}\n"
    )

    group = ("train-lr0.1-1", "train-lr0.1-2", "train-lra-b-1", "train-lra-b-2")
    assert needs(made) == {
        **dict.fromkeys(group, ()),
        "all": group,
        "one": ("train-lr0.1-2",),
        "7": ("all",),
        "last": ("7",),
    }


def test_each_variant_needs_its_own_partner_however_its_value_is_spelt() -> None:
    made = plan(
        "defaults: {image: i, command: 'x ${matrix.lr}', matrix: {lr: [0.1, a/b, " + "v" * 70 + "]}}\n"
        "jobs: {train: {}, eval: {needs: ['train-lr${matrix.lr}']}}\n"
    )

    train, evaluate = made.jobs[:3], made.jobs[3:]
    assert [job.needs for job in evaluate] == [(job.name,) for job in train]


def test_a_jobs_own_needs_replace_those_of_the_defaults() -> None:
    made = plan("defaults: {image: i, needs: [a]}\njobs: {a: {needs: []}, b: {}, c: {needs: b}}")

    assert needs(made) == {"a": (), "b": ("a",), "c": ("b",)}


# Jobs, one a line, from the third line on; kinds and places; words of message and hint of the first.
CONTRADICTIONS = (
    ("a: {needs: [b, tarin]}\n  train: {}\n  b: {}", [("unknown-job", "3:18")], "needs 'tarin'", "did you mean train?"),
    ("a: {needs: t-l1}\n  t: {matrix: {l: [2]}}", [("unknown-job", "3:14")], "'t-l1'", "did you mean t-l2?"),
    ("a: {needs: t-9zz}\n  t: {matrix: {l: [2]}}", [("unknown-job", "3:14")], "'t-9zz'", "t means all of them"),
    ("a: {needs: {b: c}}\n  b: {}", [("bad-value", "3:14")], "names of jobs, got a mapping", "write [b]"),
    ("a: {needs: [[b]]}\n  b: {}", [("bad-value", "3:15")], "needs[0] must be the name of a job", "[NAME, NAME]"),
    ("a: {needs: [on]}", [("quote-it", "3:15")], "on is a truth value", 'quote it: "on"'),
    ("a: {needs: ['']}", [("bad-value", "3:15")], "an empty text", "needs: []"),
    ("a: {needs: [b, a]}\n  b: {}", [("needs-itself", "3:18")], "job a needs itself", "delete it"),
    ("a: {needs: a, replicas: 3}", [("needs-itself", "3:14")], "job a needs itself", "delete it"),
    ("a: {needs: [c]}\n  b: {needs: a}\n  c: {needs: b}", [("needs-cycle", "4:14")], "a → c → b → a", "delete one"),
    (
        "a: {matrix: {s: [1, 2]}, needs: ['b-s${matrix.s}']}\n  b: {matrix: {s: [1, 2]}, needs: ['a-s${matrix.s}']}",
        [("needs-cycle", "4:35")],
        "a-s1 → b-s1 → a-s1",
        "delete one",
    ),
    ("a: {needs: b, stage: 1}\n  b: {stage: 2}", [("needs-later-stage", "3:14")], "begins only when stage 1", "stage 2 or"),
    (
        "a: {needs: b, stage: 1}\n  b: {needs: c}\n  c: {stage: 2}",
        [("needs-later-stage", "3:14")],
        "needs c of stage 2 through b",
        "give a stage 2",
    ),
    ("a: {stage: -1}", [("bad-value", "3:14")], "at least 0", None),
    ("a: {retries: 101}", [("bad-value", "3:16")], "from 0 to 100, got 101", None),
    ("a: {retry_on: []}", [("bad-value", "3:17")], "an empty list", "retries: 0"),
    ("a: {retry_on: [lost, ooom]}", [("bad-choice", "3:24")], "failed, oom, lost or timeout", "did you mean oom?"),
    ("a: {timeout: 0}", [("bad-value", "3:16")], "longer than nothing", "leave the key away"),
    ("a: {expect: 2}", [("bad-value", "3:15")], "a time like 1m30s", "write 2s"),
    ("a: {mps: yes}", [("bad-value", "3:12")], "true, false or a mapping of limits", "write true"),
    ("a: {mps: {}}", [("bad-value", "3:12")], "an empty mapping", "write mps: true"),
    ("a: {mps: {active_threads: 30%}}", [("bad-value", "3:29")], "active_threads, which must be", "write 30"),
    ("a: {mps: {active_threads: 0}}", [("bad-value", "3:29")], "from 1 to 100, got 0", None),
    ("a: {mps: {memory: 4}}", [("bad-value", "3:21")], "takes memory, which is 4 bytes", "4m or 4g"),
    ("a: {mps: {threads: 4}}", [("unknown-key", "3:13")], "unknown key 'threads'", "active_threads"),
    ("a: {per_instance: 49}", [("bad-value", "3:21")], "from 1 to 48, got 49", None),
    ("a: {mps: {memory: 6g}, profile: 1g.5gb}", [("mps-memory", "3:12")], "more than a whole 1g.5gb", "larger profile"),
    ("a: {mps: true, ipc: private}", [("mps-ipc", "3:23")], "one IPC namespace", "delete"),
    (
        "a: {mps: true, user: 1000}\n  b: {mps: true, user: '1001'}\n  c: {user: 7}",
        [("mps-of-two-users", "4:24")],
        "jobs a and b share MPS",
        "the same user",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("jobs", "found", "message", "hint"), CONTRADICTIONS, ids=lambda value: repr(value)[:30])
def test_what_contradicts_itself_is_told(
    jobs: str, found: list[tuple[str, str]], message: str, hint: str | None
) -> None:
    with pytest.raises(Problems) as caught:
        plan(f"defaults: {{image: i, command: 'x'}}\njobs:\n  {jobs}")

    assert [(error.id, str(error.where).removeprefix("plan.yaml:")) for error in caught.value.all] == found
    assert message in caught.value.all[0].message
    assert (hint or "") in (caught.value.all[0].hint or "")


TOLD_WRONG = (
    ("''", "1:9", "names no program"),
    ("[]", "1:9", "an empty list"),
    ("{url: 'ftp://h/x'}", "1:15", "http:// or https://"),
    ("{url: 'https:///x'}", "1:15", "http:// or https://"),
    ("{url: 'https://h:99999/x'}", "1:15", "http:// or https://"),
    ("{url: 'https://h/a b'}", "1:15", "http:// or https://"),
    ("https://hooks.example/T0", "1:9", "as a program"),
    ("{command: x, url: 'https://h'}", "1:9", "both a command and a url"),
    ("[{on: run}]", "1:10", "neither a command nor a url"),
    ("{command: x, on: []}", "1:9", "an empty list as on"),
    ("{command: x, on: [job, jobs]}", "1:32", "job, failure or run"),
    ("{comand: x}", "1:10", "unknown key 'comand'"),
    ("[a, {command: 'x ''y'}]", "1:23", "a quote is not closed"),
)


@pytest.mark.parametrize(("text", "at", "message"), TOLD_WRONG, ids=lambda value: repr(value)[:30])
def test_a_mistake_in_whom_to_tell_is_told_at_its_place(text: str, at: str, message: str) -> None:
    with pytest.raises(Problems) as caught:
        plan(f"notify: {text}\njobs: {{a: {{image: i}}}}")

    (error,) = caught.value.all
    assert str(error.where) == f"plan.yaml:{at}"
    assert message in error.message


def test_a_webhooks_address_is_never_shown_since_it_is_all_the_secret_there_is() -> None:
    with pytest.raises(Problems) as caught:
        planfile.loads("notify: {url: '${H}'}\njobs: {a: {image: i}}", "p", Path("/nowhere"), {"H": "hooks/SECRET"})

    assert "SECRET" not in str(caught.value.all[0])


STRATEGIES: tuple[tuple[str, str, list[str]], ...] = (
    ("sequential", "mps: true", ["mps-without-sharing"]),
    ("sequential", "mps: false", []),
    ("shared", "mps: true, memory: 4g", []),
    ("shared", "mps: {memory: 2g}, memory: 4g", ["mps-memory"]),
    ("mig", "mps: {memory: 2g}, memory: 4g, per_instance: 2", []),
)


@pytest.mark.parametrize(("strategy", "keys", "found"), STRATEGIES)
def test_mps_needs_somebody_to_share_with_and_room_for_what_the_job_declares(
    strategy: str, keys: str, found: list[str]
) -> None:
    text = f"strategy: {strategy}\njobs: {{a: {{image: i, {keys}}}}}"

    assert [kind for kind, _ in told(text)] == found if found else plan(text).notices == ()


def test_jobs_on_different_gpus_or_instances_may_share_mps_as_different_users() -> None:
    users = "a: {mps: true, user: 1, %s}, b: {mps: true, user: 2, %s}"

    for a, b in (("gpu: 0", "gpu: 1"), ("profile: 1g.5gb", "profile: 2g.10gb")):
        assert plan(f"defaults: {{image: i}}\njobs: {{{users % (a, b)}}}").notices == ()
    text = "defaults: {{image: i, command: x}}\nstrategy: {}\njobs: {{{}}}"
    apart = users % ("memory: 1g", "memory: 2g")
    assert [kind for kind, _ in told(text.format("shared", apart))] == ["mps-of-two-users"]
    assert {notice.id for notice in plan(text.format("shared", apart), runtime="process").notices} == {
        "container-only-keys"
    }


NOTICES = (
    ("docker", "retry_on: oom", "retry-on-unused", "runs once"),
    ("docker", "timeout: 1h\n    expect: 2h", "expect-beyond-timeout", "longer than its timeout"),
    ("docker", "snapshot: true", "nothing-to-copy", "no volume mounts the plan's folder"),
    ("docker", "snapshot: true\n    volumes: ['/tmp:/t', 'named:/n']", "nothing-to-copy", "the plan's folder"),
    ("docker", "profile: 1g.5gb\n    per_instance: 3\n    mps: {memory: 2g}", "mps-memory", "6144 MiB of a 1g.5gb"),
)


@pytest.mark.parametrize(("runtime", "text", "kind", "message"), NOTICES)
def test_a_key_without_the_effect_that_it_promises_is_noticed(
    runtime: str, text: str, kind: str, message: str, tmp_path: Path
) -> None:
    (notice,) = plan(f"jobs:\n  a:\n    image: i\n    {text}\n", tmp_path, runtime=runtime).notices

    assert (notice.id, notice.where is not None, bool(notice.hint)) == (kind, True, True)
    assert message in notice.message


@pytest.mark.parametrize(
    "text",
    [
        "snapshot: true, volumes: ['.:/w']",
        "snapshot: true, volumes: ['./src:/w']",
        "retries: 2, retry_on: [oom]",
        "timeout: 2h, expect: 2h",
        "profile: 1g.10gb, per_instance: 2, mps: {memory: 5g}",
    ],
)
def test_nothing_is_noticed_where_the_key_has_its_effect(text: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()

    assert plan(f"jobs: {{a: {{image: i, {text}}}}}", tmp_path).notices == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("notify: mail me && log", "no-shell"),
        ("notify: [mail me, log it]", "one-command"),
        ("strategy: sequential\nmax_parallel: 2", "one-at-a-time"),
        ("strategy: mig\ndefaults: {mps: true}", "mps-alone"),
    ],
)
def test_a_plans_key_that_means_something_else_than_it_seems_is_noticed(text: str, kind: str) -> None:
    assert [notice.id for notice in plan(f"{text}\njobs: {{a: {{image: i}}}}").notices] == [kind]


def test_a_snapshot_of_a_process_always_has_its_folder_to_copy() -> None:
    assert plan("runtime: process\njobs: {a: {command: x, snapshot: true}}").notices == ()


def test_a_need_of_a_job_with_a_mistake_of_its_own_is_not_a_second_mistake() -> None:
    text = "defaults: {image: i}\njobs:\n  a: 3\n  b: {needs: a}\n  c: {matrix: {x: []}}\n  d: {needs: c-x1}\n"

    assert [kind for kind, _ in told(text)] == ["bad-job", "bad-matrix"]


def test_groups_that_wait_for_whole_groups_are_what_stages_are_for() -> None:
    text = "defaults: {image: i}\njobs: {a: {replicas: 500}, b: {replicas: 500, needs: a}}"

    assert told(text) == [("too-many-needs", "2:54")]


DOCUMENT = Path(__file__).parents[2] / "docs" / "plan.md"


def test_the_plans_of_the_document_are_good_and_show_every_key_of_the_queue(tmp_path: Path) -> None:
    text = DOCUMENT.read_text("utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)

    assert len(blocks) == 4
    for block in blocks:
        assert plan(block, tmp_path).notices == ()
    keys = "needs stage priority retries retry_on timeout expect resumable snapshot mps per_instance fail_fast stagger"
    for key in f"{keys} max_parallel on_finish on_reboot notify".split():
        assert f"`{key}" in text


def test_the_document_tells_the_limits_that_hold() -> None:
    text = DOCUMENT.read_text("utf-8")

    for limit in (MOST_JOBS, MOST_NEEDS):
        assert f"{limit:,}" in text
    for limit in (MOST_RETRIES, MOST_ON_ONE_INSTANCE):
        assert str(limit) in text
