"""What keys mean in `status --watch`: a pure step from what is shown and a key to what is shown then, and what is to be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, assert_never

from migctl.core.runs.record import JobState
from migctl.core.seeing.watchrows import Row, moved, selected
from migctl.core.views.watch import Sort, Wishes


class Mode(StrEnum):
    """What keys are for at present."""

    JOBS = "jobs"
    FILTER = "filter"
    """Letters become part of the pattern."""
    CONFIRM = "confirm"
    """A stop waits for its confirmation."""
    LOG = "log"
    HELP = "help"


class Do(StrEnum):
    """What is to be done."""

    LEAVE = "leave"
    READ_LOG = "read-log"
    STOP = "stop"
    HOLD = "hold"
    RELEASE = "release"
    LOOK = "look"
    """Ask for everything anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Something to be done, and to which job."""

    do: Do
    run: str = ""
    job: str = ""
    """Nothing: the whole run."""

    @property
    def name(self) -> str:
        """`run/job`, or the run."""
        return f"{self.run}/{self.job}" if self.job else self.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the person at the keyboard has chosen."""

    mode: Mode = Mode.JOBS
    sort: Sort = Sort.PLAN
    pattern: str = ""
    before: str = ""
    """The pattern before it was edited, to which Escape goes back."""
    selected: str = ""
    """`run/job`."""
    order: Order | None = None
    """What waits for its confirmation, or whose log is shown."""
    back: int = 0
    """Lines of the log that lie below the screen."""
    answer: str = ""
    """What came of the last order."""

    @property
    def wishes(self) -> Wishes:
        """This as it is drawn."""
        return Wishes(sort=self.sort, pattern=self.pattern, selected=self.selected, keys=self.line)

    @property
    def line(self) -> str:
        """The last line of the screen."""
        match self.mode:
            case Mode.FILTER:
                return f"only jobs with: {self.pattern}_   enter: keep   esc: as before"
            case Mode.CONFIRM:
                name = self.order.name if self.order is not None else ""
                return f"stop {name}? SIGTERM now, SIGKILL after its grace; its instance and log stay.   y: stop   n: leave it"
            case Mode.LOG:
                return "up, down: scroll   end: newest   l, esc: back   q: quit"
            case Mode.HELP:
                return "any key: back"
            case Mode.JOBS:
                return self.answer or KEYS
            case _:
                assert_never(self.mode)


KEYS: Final = "q quit  up/down select  s sort  / filter  l log  x stop  h hold  ? all keys"
HELP: Final = (
    ("up, down, k, j", "select a job; page up, page down, home and end go further"),
    ("esc", "select none; then the most urgent of all jobs is shown below"),
    ("s, S", "sort by: plan, urgency, cpu, wait, gpu, memory, name"),
    ("/", "show only jobs whose name, run, state or verdict holds a text"),
    ("l, enter", "the selected job's log"),
    ("x", "stop the selected job, after a confirmation; one that waits is taken out of its queue"),
    ("h", "hold the selected job if it waits, else all that waits in its run; again: release"),
    ("r", "look at everything again now"),
    ("q, ctrl+c", "quit; jobs go on"),
)
"""Keys and what they do."""
_SORTS: Final = tuple(Sort)
_PAGE: Final = 10
_MOVES: Final = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "pageup": -_PAGE,
    "pagedown": _PAGE,
    "home": -(10**6),
    "end": 10**6,
}
_LONGEST: Final = 60
"""Letters of a pattern."""


def pressed(desk: Desk, key: str, letter: str, shown: Sequence[Row]) -> tuple[Desk, Order | None]:
    """The desk after a key, and what is to be done.

    Args:
        desk: as it is.
        key: its name: `up`, `escape`, `a`.
        letter: what it writes; nothing for keys that write nothing.
        shown: the jobs on the screen.
    """
    desk = replace(desk, answer="")
    if key == "ctrl+c":
        return desk, Order(do=Do.LEAVE)
    match desk.mode:
        case Mode.FILTER:
            return _filtering(desk, key, letter), None
        case Mode.CONFIRM:
            order = desk.order if letter.lower() == "y" else None
            return replace(desk, mode=Mode.JOBS, order=None, answer="" if order else "left as it is"), order
        case Mode.LOG:
            return _reading(desk, key)
        case Mode.HELP:
            return replace(desk, mode=Mode.JOBS), Order(do=Do.LEAVE) if key == "q" else None
        case Mode.JOBS:
            return _choosing(desk, key, letter, shown)
        case _:
            assert_never(desk.mode)


def _choosing(desk: Desk, key: str, letter: str, shown: Sequence[Row]) -> tuple[Desk, Order | None]:
    if key in _MOVES:
        return replace(desk, selected=moved(shown, desk.selected, _MOVES[key])), None
    place = selected(shown, desk.selected)
    row = shown[place] if place is not None else None
    match letter or key:
        case "q":
            return desk, Order(do=Do.LEAVE)
        case "escape":
            return replace(desk, selected="", pattern="" if not desk.selected else desk.pattern), None
        case "s" | "S":
            step = 1 if letter == "s" else -1
            return replace(desk, sort=_SORTS[(_SORTS.index(desk.sort) + step) % len(_SORTS)]), None
        case "/":
            return replace(desk, mode=Mode.FILTER, before=desk.pattern), None
        case "?":
            return replace(desk, mode=Mode.HELP), None
        case "r":
            return replace(desk, answer="looking"), Order(do=Do.LOOK)
        case "l" | "enter" | "\r" | "x" | "h" if row is None:
            return replace(desk, answer="select a job first: up, down"), None
        case "l" | "enter" | "\r" if row is not None:
            order = Order(do=Do.READ_LOG, run=row.run.name, job=row.job.name)
            return replace(desk, mode=Mode.LOG, order=order, back=0), order
        case "x" if row is not None:
            if row.job.state.ended:
                return replace(desk, answer=f"{row.name} has ended: {row.job.state.value}"), None
            return replace(desk, mode=Mode.CONFIRM, order=Order(do=Do.STOP, run=row.run.name, job=row.job.name)), None
        case "h" if row is not None:
            return _holding(desk, row)
        case _:
            return desk, None


def _holding(desk: Desk, row: Row) -> tuple[Desk, Order | None]:
    """A job that waits by itself; with one that runs, all that waits in its run."""
    waits = [job for job in row.run.jobs if job.state is JobState.QUEUED]
    if not waits:
        return replace(desk, answer=f"nothing of {row.run.name} waits"), None
    if row.job.state is JobState.QUEUED:
        do = Do.RELEASE if (row.job.reason or "").startswith("held") else Do.HOLD
        # Where the whole run is held, one job of it cannot be let go by itself.
        whole = do is Do.RELEASE and all((job.reason or "").startswith("held") for job in waits)
        return desk, Order(do=do, run=row.run.name, job="" if whole else row.job.name)
    held = all((job.reason or "").startswith("held") for job in waits)
    return desk, Order(do=Do.RELEASE if held else Do.HOLD, run=row.run.name)


def _filtering(desk: Desk, key: str, letter: str) -> Desk:
    match key:
        case "escape":
            return replace(desk, mode=Mode.JOBS, pattern=desk.before)
        case "enter":
            return replace(desk, mode=Mode.JOBS)
        case "backspace":
            return replace(desk, pattern=desk.pattern[:-1])
        case "ctrl+u":
            return replace(desk, pattern="")
        case _:
            taken = letter if letter.isprintable() and len(desk.pattern) < _LONGEST else ""
            return replace(desk, pattern=desk.pattern + taken)


def _reading(desk: Desk, key: str) -> tuple[Desk, Order | None]:
    if key in ("escape", "l", "enter"):
        return replace(desk, mode=Mode.JOBS, order=None, back=0), None
    if key == "q":
        return desk, Order(do=Do.LEAVE)
    if key == "end":
        return replace(desk, back=0), None
    if key in _MOVES:
        return replace(desk, back=max(0, min(10**6, desk.back - _MOVES[key]))), None
    return desk, None
