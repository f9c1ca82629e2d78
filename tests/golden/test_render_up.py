"""What `up` says it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.core.runs.record import JobState, Record
from migctl.core.runs.run import Run
from migctl.core.views.up import UpView
from migctl.errors import Notice
from migctl.render.up_text import up_text
from tests.support.render_values import PLAIN

RUN = Run(name="night", plan_path="/plans/night.yaml", owner_uid=1000, runtime="process", strategy="mig", nvml="")
AGAIN = Notice("not-run-again", "not run again: b failed (exit code 3)", hint="migctl up --retry runs it again")


def record(job: str, state: JobState, start: int) -> Record:
    return Record(
        run="night",
        job=job,
        token=job,
        runtime="process",
        strategy="mig",
        state=state,
        digest="",
        spec="",
        profile="1g.5gb",
        placement=Placement(start, MemorySlices(1)),
        cpus=CpuSet.parse(f"{2 * start}-{2 * start + 1}"),
        num_workers=2,
    )


RECORDS = {
    "a": record("a", JobState.RUNNING, 0),
    "b": record("b", JobState.FAILED, 1),
    "c": record("c", JobState.SUCCEEDED, 2),
}


@dataclass(frozen=True)
class Case:
    """What was done, in the words of its heading."""

    heading: str
    started: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    taken_out: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()


CASES = [
    Case("a new run", started=("a",)),
    Case("everything there", kept=("a", "c")),
    Case("one has failed", kept=("a", "b", "c"), notices=(AGAIN,)),
    Case("one is run again, the others are left", started=("a",), kept=("c",)),
    Case("one is no longer wanted", kept=("a",), taken_out=("old",)),
    Case("one is replaced, one is no longer wanted", started=("a",), kept=("c",), taken_out=("old",)),
]


def test_each_outcome_of_up_says_what_was_done_and_what_was_not(golden: Callable[[str, str], None]) -> None:
    told = []
    for quiet in (False, True):
        for case in CASES:
            view = UpView(
                run=RUN,
                records=RECORDS,
                started=case.started,
                kept=case.kept,
                taken_out=case.taken_out,
                notices=case.notices,
            )
            text = up_text(view, PLAIN, simulated="", quiet=quiet)
            told.append(f"## {case.heading}{', quiet' if quiet else ''}\n{text}")
    golden("render/up", "\n".join(told))


def test_a_job_that_will_not_run_is_not_said_to_wait() -> None:
    view = UpView(run=RUN, records=RECORDS, kept=("b",), never={"d": "will not run: b, which it needs, failed"})

    told = up_text(view, PLAIN, simulated="", quiet=False)

    assert told.startswith("night: nothing started; not run again: b (failed)\n")
    assert "stopped: d: will not run: b, which it needs, failed\n" in told
    assert "waiting" not in told
