"""What came of the proof: medians with their spread, targets, Markdown tables, and the README's part."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from overload_cases import Situation
from overload_picture import Bar, Group, picture
from overload_runs import Outcome
from rounds import ROOT

BEGIN, END = "<!-- overload: begin -->", "<!-- overload: end -->"
FIGURES = ("done_s", "total_per_s", "watched_per_s", "p95_ms", "processes", "memory_mib", "switches_per_s")


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and when it was measured."""

    processor: str
    cores: int
    logical: int
    memory_gib: int
    kernel: str
    python: str
    date: str
    rounds: int

    def __str__(self) -> str:
        threads = f" ({self.logical} logical CPUs)" if self.logical != self.cores else ""
        return (
            f"{self.date}, {self.processor}, {self.cores} cores{threads}, {self.memory_gib} GiB, Linux {self.kernel}, "
            f"Python {self.python}, {self.rounds} {'round' if self.rounds == 1 else 'rounds'}"
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and most of the rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(slots=True)
class Measured:
    """All rounds of one arrangement of one situation."""

    situation: str
    arrangement: str
    label: str
    outcomes: list[Outcome] = field(default_factory=list)

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Measured:
        """What was saved as JSON."""
        return cls(**{**saved, "outcomes": [Outcome(**one) for one in saved["outcomes"]]})

    def spread(self, figure: str) -> Spread | None:
        """Of one figure; `None` where it was not measured."""
        values = [value for one in self.outcomes if (value := getattr(one, figure)) is not None]
        return Spread.of(values) if values else None

    def against(self, other: Measured, figure: str) -> Spread | None:
        """How many times the other's figure this one is, round by round."""
        pairs = [(getattr(a, figure), getattr(b, figure)) for a, b in zip(self.outcomes, other.outcomes, strict=False)]
        ratios = [mine / theirs for mine, theirs in pairs if mine is not None and theirs]
        return Spread.of(ratios) if ratios else None


class Results:
    """All that was measured, found by name."""

    def __init__(self, measured: Sequence[Measured]) -> None:
        self.situations = list(dict.fromkeys(one.situation for one in measured))
        self.measured = measured

    def rows(self, situation: str) -> list[Measured]:
        return [one for one in self.measured if one.situation == situation]

    def get(self, situation: str, arrangement: str) -> Measured | None:
        """One that has figures."""
        return next((one for one in self.rows(situation) if one.arrangement == arrangement and one.outcomes), None)

    def naive(self, situation: str) -> Measured | None:
        return self.get(situation, "naive-8") or self.get(situation, "naive")


# What was promised: situation, arrangement, the one it is compared with, figure, least or most, times.
TARGETS = (
    ("neighbour", "migctl", "naive", "watched_per_s", "at least", 2.0),
    ("neighbour", "migctl", "naive", "p95_ms", "at most", 0.35),
    ("neighbour", "migctl", "naive", "total_per_s", "at least", 1.0),
    ("main-process", "migctl", "naive", "total_per_s", "at least", 1.3),
    *(
        target
        for step in ("sleep", "spin")
        for target in (
            (f"equal-2-{step}", "migctl", "naive-8", "total_per_s", "at least", 0.95),
            (f"equal-2-{step}", "migctl", "naive-8", "p95_ms", "at most", 0.6),
            (f"equal-2-{step}", "migctl", "naive-8", "memory_mib", "at most", 0.5),
        )
    ),
    *(
        (situation, mine, theirs, "total_per_s", "at least", 0.95)
        for situation, mine, theirs in (
            ("equal-2-sleep", "migctl", "careful"),
            ("equal-2-spin", "migctl", "careful"),
            ("equal-4-sleep", "migctl", "careful"),
            ("equal-4-spin", "migctl", "careful"),
            ("neighbour", "migctl", "careful"),
            ("neighbour-ends", "migctl", "careful"),
            ("main-process", "migctl", "careful-threads"),
            ("main-process", "migctl-workers", "careful"),
            ("numeric", "migctl", "careful"),
        )
    ),
)
WORDS = {
    "total_per_s": "samples/s in total",
    "watched_per_s": "samples/s",
    "p95_ms": "p95 of the batch time",
    "memory_mib": "memory",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A target and whether it is reached."""

    text: str
    good: bool


def targets(measured: Sequence[Measured]) -> list[Line]:
    """Every target of what was measured."""
    results, found = Results(measured), []
    for situation, mine, theirs, figure, word, times in TARGETS:
        own, other = results.get(situation, mine), results.get(situation, theirs)
        ratio = own.against(other, figure) if own and other else None
        if ratio is None:
            continue
        good = ratio.median >= times if word == "at least" else ratio.median <= times
        found.append(
            Line(
                f"{'ok  ' if good else 'MISS'}  {situation}: {mine} against {theirs}, {WORDS[figure]}: {ratio.median:.2f} × "
                f"({ratio.least:.2f} to {ratio.most:.2f}; {word} {times:g} ×)",
                good,
            )
        )
    return found


def number(value: float) -> str:
    """Three digits are enough."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(spread: Spread | None, times: float = 1) -> str:
    """`median (least to most)`."""
    if spread is None:
        return "n/a"
    shown = [number(times * value) for value in (spread.median, spread.least, spread.most)]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} ({shown[1]} to {shown[2]})"


def summary(machine: Machine, measured: Sequence[Measured], situations: Mapping[str, Situation]) -> str:
    """Every figure of every arrangement, as Markdown."""
    results = Results(measured)
    parts = [f"Measured on {machine}; medians, and the least and most of the rounds. {quietness(measured)}\n"]
    for key in results.situations:
        situation = situations[key]
        whose = f"samples/s, {situation.watched}" if situation.watched else "samples/s, slowest"
        whose_p95 = f"p95 batch, {situation.watched}, ms" if situation.watched else "p95 batch, ms"
        note = f" ({situation.note})" if situation.note else ""
        parts.append(f"### {situation.title[0].upper()}{situation.title[1:]}{note}\n")
        parts.append(
            f"| | done, s | samples/s in total | {whose} | {whose_p95} | processes | memory, MiB | switches/s |"
        )
        parts.append("|---|---|---|---|---|---|---|---|")
        parts.extend(
            f"| {one.label} | " + " | ".join(cell(one.spread(figure)) for figure in FIGURES) + " |"
            for one in results.rows(key)
        )
        parts.append("")
    return "\n".join(parts)


def quietness(measured: Sequence[Measured]) -> str:
    """How much others used meanwhile: what makes the figures doubtful."""
    others = [o.others for one in measured for o in one.outcomes if not math.isnan(o.others)]
    if not others:
        return ""
    middle = statistics.median(others)
    doubt = "; the machine was not quiet: measure again" if middle > 0.05 else ""
    return f"Others used {middle:.1%} of the CPU time (median; at most {max(others):.0%}){doubt}."


def own_rows(results: Results, key: str) -> list[Measured]:
    """What is compared with naive: by hand and migctl."""
    base = results.naive(key)
    return [one for one in results.rows(key) if one is not base and one.outcomes and one.arrangement != "naive-cpus"]


def comparison(results: Results, situations: Mapping[str, Situation]) -> str:
    """The README's table: how many times the naive figure each is."""
    rows = [
        "| | | samples/s in total | slowest or light one | p95 of the batch time | memory | processes |",
        "|---|---|---|---|---|---|---|",
    ]
    for key in results.situations:
        base, title = results.naive(key), situations[key].title
        if base is None:
            continue
        for one in own_rows(results, key):
            ratios = [one.against(base, f) for f in ("total_per_s", "watched_per_s", "p95_ms", "memory_mib")]
            shown = [f"{cell(ratio)} ×" if ratio else "n/a" for ratio in ratios]
            counts = [spread.median if (spread := each.spread("processes")) else None for each in (one, base)]
            count = f"{counts[0]:.0f} of {counts[1]:.0f}" if None not in counts else "n/a"
            rows.append(f"| {title} | {one.label} | {' | '.join(shown)} | {count} |")
            title = ""
    return "\n".join(rows)


def groups(results: Results, situations: Mapping[str, Situation]) -> list[Group]:
    """What the picture shows of each situation that has a naive arrangement."""
    found = []
    for key in results.situations:
        base = results.naive(key)
        if base is None:
            continue
        bars = []
        for one in own_rows(results, key):
            ratios = {
                figure: one.against(base, figure) for figure in ("total_per_s", "watched_per_s", "p95_ms", "memory_mib")
            }
            shown = {f: (r.median, r.least, r.most) for f, r in ratios.items() if r is not None}
            bars.append(Bar(one.label, one.arrangement.startswith(("migctl", "queue")), shown))
        found.append(Group(situations[key].title, tuple(bars)))
    return found


def turns_text(results: Results) -> str:
    """One after another against at once, in words."""
    at_once = results.get("turns", "parallel")
    if at_once is None or (base := at_once.spread("done_s")) is None:
        return ""
    parts = [f"at once, on half a GPU each: {number(base.median)} s"]
    for key in ("turns", "turns-all"):
        one = results.get("turns", key)
        if one and (done := one.spread("done_s")):
            parts.append(f"{one.label}: {number(done.median)} s")
    return f"The same two trainings {'; '.join(parts)} until both are done."


def write_docs(machine: Machine, measured: Sequence[Measured], situations: Mapping[str, Situation]) -> None:
    """The picture, docs/overload.md with every figure, and the README between its two marks.

    Raises:
        SystemExit: the README has no marks.
    """
    results = Results(measured)
    (ROOT / "docs").mkdir(exist_ok=True)
    (ROOT / "docs/overload.svg").write_text(picture(groups(results, situations), str(machine)), "utf-8")
    missed = [f"- {line.text.removeprefix('MISS').strip()}" for line in targets(measured) if not line.good]
    behind = "\n\n## Targets that were missed\n\n" + "\n".join(missed) + "\n" if missed else ""
    heading = "# Trainings at once, measured\n\n`python scripts/bench/overload.py --readme` writes this page anew.\n\n"
    (ROOT / "docs/overload.md").write_text(
        heading + summary(machine, measured, situations).rstrip() + "\n" + behind, "utf-8"
    )
    text = (
        f"{BEGIN}\n![What migctl and careful work by hand change, against naive trainings](docs/overload.svg)\n\n"
        f"{comparison(results, situations)}\n\n"
        f"Times the naive arrangement's figure, medians of the rounds (least to most); "
        f"processes with migctl's supervisors. {machine}. "
        f"{quietness(measured)} {turns_text(results)} [Every figure](docs/overload.md).\n{END}"
    )
    readme = ROOT / "README.md"
    before = readme.read_text("utf-8")
    if BEGIN not in before or END not in before:
        raise SystemExit(f"README.md has no {BEGIN} and {END}")
    readme.write_text(re.sub(f"(?s){BEGIN}.*?{END}", lambda _: text, before), "utf-8")
