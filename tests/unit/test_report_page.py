"""The report's page as a text: it is whole, says what it knows, and no text of a job is a part of its markup."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from migctl.core.runs.record import JobState
from migctl.core.seeing.tracks import Sample
from migctl.core.views.report import ReportJob, ReportView
from migctl.render.report.clock import Clock, Span
from migctl.render.report.heatmap import level
from migctl.render.report.json_report import report_json
from migctl.render.report.markdown import markdown, plain
from migctl.render.report.markup import Markup, joined, tag
from migctl.render.report.page import ELSEWHERE, NOT_WATCHED, page
from migctl.render.report.series import extent, laid, of_job
from migctl.render.report.style import (
    CURVES_DARK,
    CURVES_LIGHT,
    JOBS_DARK,
    JOBS_LIGHT,
    schemes,
)
from tests.support import report_values as values

VOID = {"br", "hr", "meta", "line", "rect", "path", "use", "circle", "stop", "col"}
VIEWS = {
    "watched": values.night(),
    "not watched": values.night(watched=False),
    "hostile": values.hostile(),
    "nothing begun": replace(values.night(watched=False), attempts=(), gpus=()),
    "on a cluster": replace(
        values.night(watched=False),
        engine="slurm",
        gpus=(),
        attempts=tuple(replace(a, gpu_uuid=None, placement=None) for a in values.night(watched=False).attempts),
    ),
    "nothing at all": replace(values.night(watched=False), attempts=(), gpus=(), waiting=(), plan=(), created_at=None),
}


class Reader(HTMLParser):
    """The elements of a page, and whether each is ended where it should be."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.elements)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader


@pytest.mark.parametrize("name", VIEWS)
def test_a_page_is_whole_and_needs_nothing_from_outside(name: str) -> None:
    text = page(VIEWS[name])
    seen = read(text)
    ids = Counter(attributes["id"] for _, attributes in seen.elements if "id" in attributes)
    used = {a["href"] for t, a in seen.elements if t == "a" and a.get("href")}

    assert (seen.open, seen.wrong) == ([], [])
    assert [key for key, times in ids.items() if times > 1] == []
    assert {href for href in used if not (href or "").startswith("#")} == set()
    assert {(href or "")[1:] for href in used} <= set(ids)
    assert {t for t, _ in seen.elements} & {
        "script",
        "img",
        "link",
        "iframe",
        "object",
        "embed",
        "form",
        "base",
    } == set()
    assert [a for _, a in seen.elements if any(key.startswith("on") or key in ("src", "style") for key in a)] == []
    assert "default-src 'none'" in next(a["content"] or "" for _, a in seen.elements if a.get("http-equiv"))


@pytest.mark.parametrize("name", VIEWS)
def test_who_does_not_see_the_page_is_told_the_same(name: str) -> None:
    seen = read(page(VIEWS[name]))
    labelled = [a for t, a in seen.elements if t == "svg"]
    levels = [int(t[1]) for t, _ in seen.elements if re.fullmatch(r"h[1-6]", t)]

    assert seen.count("title") == len(labelled) + 1 + sum(t == "g" for t, _ in seen.elements)
    assert seen.count("desc") == len(labelled)
    assert all(a.get("role") == "img" and a.get("aria-labelledby") for a in labelled)
    assert seen.count("caption") == seen.count("table")
    assert all(a.get("scope") in ("col", "row") for t, a in seen.elements if t == "th")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert next(a for t, a in seen.elements if t == "html")["lang"] == "en"
    assert seen.count("main") == 1


def sharing(*times: tuple[float, float]) -> ReportView:
    """A run whose jobs sit on one 2g.10gb of the night's GPU, at these times of ten minutes."""
    one = replace(
        next(a for a in values.night(watched=False).attempts if a.job == "wide"),
        state=JobState.SUCCEEDED,
    )
    attempts = tuple(
        replace(one, job=f"seat-{n}", started_at=values.NOW - 600 + begin, finished_at=values.NOW - 600 + end)
        for n, (begin, end) in enumerate(times)
    )
    return replace(
        values.night(watched=False),
        attempts=attempts,
        waiting=(),
        plan=(),
        created_at=values.NOW - 600,
        state="succeeded",
    )


def test_slices_that_jobs_share_are_held_once() -> None:
    text = markdown(sharing((0, 600), (0, 600), (0, 300)))

    assert "memory slices held **25\N{NO-BREAK SPACE}%**" in text


def test_jobs_that_share_an_instance_are_drawn_beside_each_other() -> None:
    bars = [
        (float(attributes["y"] or 0), float(attributes["height"] or 0))
        for name, attributes in read(page(sharing((0, 600), (0, 200), (0, 600), (200, 600)))).elements
        if name == "rect" and (attributes.get("class") or "").startswith("bar ")
    ]

    assert len(bars) == 4
    assert len(set(bars)) == 3, "the last one has the row of the second"
    assert all(y + height <= other for (y, height), (other, _) in itertools.pairwise(sorted(set(bars))))


def test_a_run_that_nobody_watched_says_so_and_draws_no_zero() -> None:
    text = page(values.night(watched=False))

    assert text.count(tag("p", NOT_WATCHED, class_="none")) == 3
    assert 'class="curve' not in text
    assert 'id="gantt-0-t"' in text


def test_the_table_of_jobs_says_how_each_went_and_what_held_it_back() -> None:
    text = page(values.night())

    assert "waits for data: CPU-bound (94\u00a0% of the time)" in text
    assert "out of GPU memory in its slice" in text
    assert "waits for baseline" in text
    assert "Jobs held" in text


def test_a_run_on_a_cluster_is_not_said_to_be_on_this_machine() -> None:
    text = page(VIEWS["on a cluster"])

    assert "6 jobs on slurm" in text
    assert "Written on" in text
    assert '<td class="keep">3g.20gb</td>' in text


def test_a_run_on_a_cluster_says_why_it_has_no_figures_and_no_keys() -> None:
    view = replace(VIEWS["on a cluster"], plan=(ReportJob(name="tr-1", keys=()),))
    text = markdown(view)

    assert ELSEWHERE in text
    assert page(view).count(tag("p", ELSEWHERE, class_="none")) == 3
    assert "MIGCTL_RECORDING" not in text + page(view)
    assert "| tr-1 | n/a: not recorded here |" in text
    assert report_json(view)["jobs"] == [{"name": "tr-1", "keys": None}]


def test_no_text_is_markup() -> None:
    text = page(values.hostile())

    assert "<script" not in text
    assert "<img" not in text
    assert text.count("</style>") == 1
    assert text.count("</title>") == text.count("<title")
    assert "\x00" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_markdown_and_json_hold_no_markup_either() -> None:
    told = markdown(values.hostile())

    assert "<script" not in told.replace(r"\<", "")
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in told.splitlines() if line.startswith("| 2")} <= {9, 10}
    assert json.loads(json.dumps(report_json(values.hostile())))["name"] == values.HOSTILE


def test_a_cell_of_markdown_stays_in_its_cell() -> None:
    assert plain("a|b\nc*d*`e`") == r"a\|b<br>c\*d\*\`e\`"


def test_markup_escapes_everything_but_markup() -> None:
    assert tag("p", "a < b & c", Markup("<b>x</b>"), None, ["y"], class_='"') == (
        '<p class="&quot;">a &lt; b &amp; c<b>x</b>y</p>'
    )
    assert tag("rect", x=1.0, y=2.346, rx=None) == '<rect x="1" y="2.35"/>'
    assert joined("a", None, [Markup("<br>")]) == "a<br>"


def sample(at: float, seconds: float, value: float | None) -> Sample:
    return Sample(at_s=at, seconds=seconds, jobs={"a": {} if value is None else {"x": value}})


@pytest.mark.parametrize(
    ("samples", "highest", "expected"),
    [
        ([], False, (None, None, None, None)),
        ([(10, 10, 1.0)], False, (1.0, None, None, None)),
        ([(10, 10, 0.0)], False, (0.0, None, None, None)),
        ([(20, 20, 2.0)], False, (2.0, 2.0, None, None)),
        ([(5, 5, 1.0), (10, 5, 3.0)], False, (2.0, None, None, None)),
        ([(5, 5, 1.0), (10, 5, 3.0)], True, (3.0, None, None, None)),
        ([(5, 5, -3.0), (10, 5, -1.0)], True, (-1.0, None, None, None)),
        ([(10, 10, None), (40, 10, 4.0)], False, (None, None, None, 4.0)),
        ([(-5, 20, 9.0), (60, 10, 9.0)], False, (None, None, None, None)),
    ],
)
def test_samples_are_laid_where_they_were_measured_and_nowhere_else(
    samples: list[tuple[float, float, float | None]], highest: bool, expected: tuple[float | None, ...]
) -> None:
    found = laid([sample(*s) for s in samples], Span(0, 40), 4, of_job("a", "x"), highest=highest)

    assert found == expected


def test_the_numbers_of_a_series_leave_out_what_is_not_known() -> None:
    numbers = extent((None, 2.0, 4.0, None))

    assert numbers is not None
    assert (numbers.least, numbers.mean, numbers.most, numbers.last) == (2.0, 3.0, 4.0, 4.0)
    assert extent((None, None)) is None


@pytest.mark.parametrize(
    ("length", "most"), [(1, 9), (10, 10), (95, 10), (3600, 10), (86400, 10), (30 * 86400, 10), (2000 * 86400, 300)]
)
def test_an_axis_has_a_few_round_marks(length: float, most: int) -> None:
    marks = Span(1_764_500_123.0, 1_764_500_123.0 + length).marks(Clock(32_400, "KST"))

    assert len(marks) <= most
    assert [at for at, _ in marks] == sorted(at for at, _ in marks)


def test_times_are_in_the_machines_zone() -> None:
    assert Clock(32_400, "KST").full(0.0) == "1970-01-01 09:00:00"
    assert Clock().full(None) == "n/a"


@pytest.mark.parametrize(("value", "step"), [(0.0, 0), (0.14, 0), (0.15, 1), (0.999, 6), (1.0, 6), (-0.1, 0), (1.5, 6)])
def test_the_scale_of_the_heat_map_has_seven_steps(value: float, step: int) -> None:
    assert level(value) == step


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_a_contrast_of_four_and_a_half_and_lines_of_three(scheme: int) -> None:
    named = schemes()[scheme]
    bars = (JOBS_LIGHT, JOBS_DARK)[scheme]
    curves = (CURVES_LIGHT, CURVES_DARK)[scheme]
    texts = [(named[ink], named[ground]) for ink in ("ink", "quiet", "link") for ground in ("paper", "panel")]
    texts += [(named[word], named[f"{word}-tint"]) for word in ("good", "bad", "warn")]
    texts += [(named["ink"], named["calm-tint"]), *((named["ink"], bar) for bar in bars)]

    assert [(a, b) for a, b in texts if contrast(a, b) < 4.5] == []
    assert [c for c in curves if contrast(c, named["paper"]) < 3] == []


def test_a_week_of_seven_jobs_makes_a_page_of_a_few_megabytes() -> None:
    week = values.night()
    longer = replace(
        week,
        samples=tuple(
            replace(week.samples[n % len(week.samples)], at_s=values.BEGAN + 100.0 * n, seconds=100.0)
            for n in range(216)
        ),
    )

    assert len(page(longer)) < 3_000_000


def test_thousands_of_jobs_do_not_make_an_endless_page() -> None:
    one = values.night(watched=False).attempts[0]
    many = tuple(replace(one, job=f"job-{n}", placement=None) for n in range(3000))
    view: ReportView = replace(values.night(watched=False), attempts=many, plan=(), waiting=())
    text = page(view)

    assert len(text) < 3_000_000
    assert "2500 more jobs left out here; --format json has all" in text


def test_the_object_says_null_for_what_is_not_known() -> None:
    value: Any = json.loads(json.dumps(report_json(values.night())))

    assert value["attempts"][0]["finished_at"] is None
    assert value["verdicts"][0]["end_at"] is None or value["verdicts"][0]["end_at"] > 0
    assert value["samples"][0]["jobs"]["baseline"]["own_cpus"] > 0
