"""What `up` leaves for its supervisor on disk: read again as it was, refused where broken, never followed out of the folder."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.plan import ByProfile, Job, Notify, Plan
from migctl.core.queueing.entries import Entry, Queue, requeued
from migctl.core.queueing.submission import Submission, without_places
from migctl.errors import HostError, Notice, PlanError, Where
from migctl.store.ledger import Ledger
from tests.support.store_values import NOW, reading, run, writing

JOBS = tuple(Job(name=name, origin=name, request=ByProfile("1g.5gb"), command=("x", name)) for name in "abc")
PLAN = Plan(
    name="sweep",
    path="/plans/sweep.yaml",
    folder="/plans",
    jobs=JOBS,
    notify=(Notify(command=("tell",), on=("run",)),),
    max_parallel=2,
    stagger_s=1.5,
)
SUBMISSION = Submission(plan=PLAN, environ=(("SECRET", "s3cret ünïcode"),), images=(("a", "sha256:1"),))
QUEUE = Queue(
    entries=tuple(Entry(job=name, origin="sweep", submitted_at=NOW) for name in "abc"),
    held=True,
    held_jobs=("a",),
    stopped=("b",),
    wave=(1, 2, 7),
    reason="the machine was restarted",
)


def submitted(state: Path) -> Path:
    with writing(state) as ledger:
        ledger.save_run(run())
        ledger.submissions.submit("sweep", SUBMISSION, QUEUE)
        ledger.submissions.save_waits("sweep", {"c": "no room"})
    return state / "runs" / "sweep"


def test_what_was_submitted_is_read_again_and_is_the_owners_alone(tmp_path: Path) -> None:
    folder = submitted(tmp_path)

    with reading(tmp_path) as ledger:
        assert ledger.submissions.submission("sweep") == SUBMISSION
        assert ledger.submissions.queue("sweep") == QUEUE
        assert ledger.submissions.waits("sweep") == {"c": "no room"}
        assert ledger.records("sweep") == ()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == dict.fromkeys(("@plan.json", "@queue.json", "@waits.json", "@run.json"), 0o600)


def test_where_keys_stood_in_the_file_is_not_kept(tmp_path: Path) -> None:
    there = Where("/plans/sweep.yaml", 3, 4)
    placed = replace(
        PLAN,
        places=(("gpu", there),),
        notices=(Notice("x", "said already"),),
        jobs=(replace(JOBS[0], where=there, places=(("cpus", there),)),),
    )

    kept = without_places(placed)

    assert kept == replace(PLAN, jobs=JOBS[:1])
    assert (kept.places, kept.jobs[0].places) == ((), ())


def test_a_new_submission_is_told_apart_and_a_queue_that_changes_is_none(tmp_path: Path) -> None:
    submitted(tmp_path)
    with writing(tmp_path) as ledger:
        first = ledger.submissions.revision("sweep")
        ledger.submissions.save_queue("sweep", replace(QUEUE, held=False))
        same = ledger.submissions.revision("sweep")
        ledger.submissions.submit("sweep", replace(SUBMISSION, images=()), QUEUE)
        other = ledger.submissions.revision("sweep")

    assert first == same != other


def test_why_jobs_wait_is_written_only_where_it_has_changed(tmp_path: Path) -> None:
    submitted(tmp_path)
    with writing(tmp_path) as ledger:
        ledger.submissions.save_waits("sweep", {"c": "x"})
        before = ledger.submissions.waits_revision("sweep")
        ledger.submissions.save_waits("sweep", {"c": "x"})
        same = ledger.submissions.waits_revision("sweep")
        ledger.submissions.save_waits("sweep", {"c": "y"})

        assert before == same != ledger.submissions.waits_revision("sweep")


def test_what_is_withdrawn_is_gone_and_the_run_stays(tmp_path: Path) -> None:
    folder = submitted(tmp_path)
    with writing(tmp_path) as ledger:
        ledger.submissions.withdraw("sweep")
        ledger.submissions.withdraw("sweep")
        ledger.submissions.withdraw("never-there")

        assert ledger.submissions.queue("sweep") is None
        assert ledger.run("sweep") is not None
    assert [path.name for path in folder.iterdir()] == ["@run.json"]


def _text(text: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(text) and None  # type: ignore[return-value]  # written for its effect


def _newer(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))


def _link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere.json"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


BROKEN = (
    ("half of it", _text(b'{"version":1,"que'), "queue-broken"),
    ("nothing", _text(b""), "queue-broken"),
    ("a list", _text(b"[]"), "queue-broken"),
    ("no text", _text(b"\xff\xfe"), "queue-broken"),
    ("what a newer migctl wrote", _newer, None),
    ("a link to somewhere else", _link, None),
    ("a pipe", _pipe, None),
)


@pytest.mark.parametrize("name", ["@plan.json", "@queue.json"])
@pytest.mark.parametrize(("_words", "spoil", "kind"), BROKEN, ids=[words for words, *_ in BROKEN])
def test_a_file_that_holds_something_else_is_refused_by_name(
    tmp_path: Path, name: str, _words: str, spoil: Callable[[Path], None], kind: str | None
) -> None:
    path = submitted(tmp_path) / name
    spoil(path)

    with reading(tmp_path) as ledger, pytest.raises(HostError) as refused:
        _read(ledger, name)

    assert str(path) in f"{refused.value.message} {refused.value.where}"
    if kind is not None:
        assert refused.value.id == kind
        assert refused.value.hint


def _read(ledger: Ledger, name: str) -> object:
    return ledger.submissions.queue("sweep") if name == "@queue.json" else ledger.submissions.submission("sweep")


def test_a_broken_list_of_reasons_is_no_obstacle(tmp_path: Path) -> None:
    (submitted(tmp_path) / "@waits.json").write_text("{")

    with reading(tmp_path) as ledger:
        assert ledger.submissions.waits("sweep") == {}


def test_reading_makes_nothing_where_nothing_is(tmp_path: Path) -> None:
    with reading(tmp_path / "none") as ledger:
        assert ledger.submissions.queue("sweep") is None
        assert ledger.submissions.submission("sweep") is None
        assert ledger.submissions.revision("sweep") is None
        with pytest.raises(RuntimeError):
            ledger.submissions.save_queue("sweep", QUEUE)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["../sweep", "a/b", "@plan.json", ""])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    submitted(tmp_path)
    with writing(tmp_path) as ledger:
        for attempt in (
            lambda: ledger.submissions.queue(name),
            lambda: ledger.submissions.submit(name, SUBMISSION, QUEUE),
            lambda: ledger.submissions.withdraw(name),
        ):
            with pytest.raises(PlanError):
                attempt()


def test_a_plan_that_is_given_again_keeps_since_when_its_jobs_wait() -> None:
    longer = replace(PLAN, jobs=(JOBS[2], *JOBS[:1], Job(name="new", origin="new")))
    old = replace(QUEUE, held=False, reason="", told=True, held_jobs=("a", "b"))

    again = requeued(old, longer, NOW + 60)
    once_more = requeued(old, longer, NOW + 60, again=True)

    assert [(e.job, e.submitted_at - NOW) for e in again.entries] == [("c", 0.0), ("a", 0.0), ("new", 60.0)]
    assert (again.held_jobs, again.stopped, again.told, again.wave) == (("a",), (), False, (1, 2, 7))
    assert once_more == again


HOLDS = (
    # held, reason, stopped → what stays of it when the plan is given again, and with --retry
    (True, "", (), (True, "", ()), (True, "", ())),
    (True, "the machine was restarted", (), (False, "", ()), (False, "", ())),
    (False, "not started: x failed", ("a",), (False, "not started: x failed", ("a",)), (False, "", ())),
    (False, "", ("a", "gone"), (False, "", ("a",)), (False, "", ())),
)


@pytest.mark.parametrize(("held", "reason", "stopped", "plain", "retried"), HOLDS)
def test_what_was_said_about_the_queue_outlives_another_up(
    held: bool, reason: str, stopped: tuple[str, ...], plain: object, retried: object
) -> None:
    old = replace(QUEUE, held=held, reason=reason, stopped=stopped)

    found = [requeued(old, PLAN, NOW), requeued(old, PLAN, NOW, again=True)]

    assert [(q.held, q.reason, q.stopped) for q in found] == [plain, retried]
