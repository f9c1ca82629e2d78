"""The report as one HTML page that needs nothing else: no network, no script, no font, no picture from outside."""

from __future__ import annotations

from typing import Final

from migctl.core.runs.record import JobState
from migctl.core.views.report import ReportView
from migctl.core.words import counted
from migctl.render.report.charts import panels
from migctl.render.report.frame import Frame
from migctl.render.report.heatmap import heat_map
from migctl.render.report.markup import Markup, joined, tag
from migctl.render.report.style import style_sheet
from migctl.render.report.tables import (
    Table,
    attempts_table,
    facts,
    held_back,
    jobs_table,
    numbers_table,
    plan_table,
    state_words,
    tiles,
    verdicts_table,
)
from migctl.render.report.timeline import timelines

_MOST_JOBS: Final = 40
"""Jobs with pictures of their own."""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Whatever slipped into the page could load and run nothing (Content Security Policy)."""
NOT_WATCHED: Final = (
    "Nothing was measured of this run. A job is measured from some seconds after its start on, unless MIGCTL_RECORDING is off; "
    "what ends before that has no figures."
)
ELSEWHERE: Final = (
    "Nothing is measured of a run on another engine: its jobs run on machines that nobody watches from here."
)
_LOOKS: Final = {
    JobState.SUCCEEDED: "good",
    JobState.FAILED: "bad",
    JobState.LOST: "bad",
    JobState.STOPPED: "warn",
}


def page(view: ReportView) -> str:
    """The whole file."""
    frame = Frame.of(view)
    sections = [
        ("jobs", "Jobs", _jobs(frame)),
        ("timeline", "Time line", timelines(frame)),
        ("cores", "Cores", heat_map(frame) if view.samples else _none(not_watched(view))),
        ("measured", "Measured, job by job", _measured(frame)),
        ("verdicts", "Verdicts", _verdicts(frame)),
        ("attempts", "Attempts and how they ended", _table(attempts_table(frame))),
        ("plan", "The plan", _table(plan_table(view))),
        ("machine", "The run and the machine", _table(facts(frame))),
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("meta", name_="generator", content=f"migctl {view.machine.version}"),
        tag("title", f"{view.name}: report"),
        tag("style", Markup(style_sheet())),
    )
    body = tag(
        "body",
        tag("a", "To the content", class_="skip", href="#content"),
        _header(frame, [(key, name) for key, name, _ in sections]),
        tag("main", *[_section(key, name, content) for key, name, content in sections], id="content"),
        tag(
            "footer",
            f"Made by migctl {view.machine.version} on {frame.clock.full(view.now)} {view.zone}. All times are {view.zone}.",
        ),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _header(frame: Frame, sections: list[tuple[str, str]]) -> Markup:
    view = frame.view
    place = view.machine.host if view.engine == "local" else view.engine
    where = f" on simulated GPUs ({view.simulated})" if view.simulated else ""
    until = "until now" if frame.span.end_s >= view.now else f"to {frame.clock.full(frame.span.end_s)}"
    since = frame.clock.full(frame.span.begin_s)
    lead = f"{counted(len(view.jobs), 'job')} on {place}{where}, {since} {until} ({view.zone})"
    notices = [f"{notice.message}{f' ({notice.hint})' if notice.hint else ''}" for notice in view.notices]
    return tag(
        "header",
        tag("h1", f"{view.name}"),
        tag("p", lead, class_="lead"),
        tag("dl", *[tag("div", tag("dt", what), tag("dd", value)) for what, value in tiles(frame)], class_="tiles"),
        *[tag("p", words, class_="none") for words in notices],
        tag(
            "nav",
            tag("ul", *[tag("li", tag("a", name, href=f"#{key}")) for key, name in sections]),
            aria_label="Sections",
        ),
    )


def not_watched(view: ReportView) -> str:
    """Why a run has no figures."""
    return NOT_WATCHED if view.engine == "local" else ELSEWHERE


def _section(key: str, name: str, content: Markup) -> Markup:
    return tag("section", tag("h2", name, id=f"{key}-h"), content, id=key, aria_labelledby=f"{key}-h")


def _jobs(frame: Frame) -> Markup:
    return _table(jobs_table(frame)) if frame.view.jobs else _none("The run has no job.")


def _measured(frame: Frame) -> Markup:
    view = frame.view
    if not view.samples:
        return _none(not_watched(view))
    held = held_back(frame)
    shown = view.jobs[:_MOST_JOBS]
    cards: list[Markup] = []
    for job in shown:
        last = view.last(job)
        drawn = panels(frame, job, last)
        if last is None or drawn is None:
            continue
        words = [f"{last.profile} at {last.placement}"] if last.placement is not None else []
        words += [f"CPUs {last.cpus}"] if last.cpus else []
        words += [f"{last.num_workers} workers"] if last.num_workers is not None else []
        words += [f"held back by: {held[job]}"] if job in held else []
        cards.append(
            tag(
                "article",
                tag("h3", job, " ", _state(last.state, last.exit_code)),
                tag("p", " · ".join(words), class_="quiet"),
                drawn,
                class_=f"job e{frame.colour(job)}",
            )
        )
    left = len(view.jobs) - len(shown)
    return joined(
        cards or _none("What was measured is of other jobs than the run has now."),
        tag("p", f"{counted(left, 'more job')} without pictures here.", class_="quiet") if left > 0 else None,
        tag("details", tag("summary", "The same as a table"), _table(numbers_table(frame, shown))) if cards else None,
    )


def _verdicts(frame: Frame) -> Markup:
    if frame.view.verdicts:
        return _table(verdicts_table(frame))
    if frame.view.samples:
        return _none("Nothing was said of this run while it was watched.")
    return _none(not_watched(frame.view))


def _none(words: str) -> Markup:
    return tag("p", words, class_="none")


def _state(state: JobState, exit_code: int | None) -> Markup:
    return tag("span", state_words(state, exit_code), class_=f"state {_LOOKS.get(state, 'calm')}")


def _table(table: Table) -> Markup:
    """A table with its caption and its headings; wider ones than the page can be moved, also with the keyboard."""
    heads = [
        tag("th", name, scope="col", class_="number" if number in table.right else None)
        for number, name in enumerate(table.columns)
    ]
    rows = [tag("tr", *[_cell(table, row, number) for number in range(len(row))]) for row in table.rows]
    drawn = tag("table", tag("caption", table.caption), tag("thead", tag("tr", *heads)), tag("tbody", *rows))
    return joined(
        tag("div", drawn, class_="scroll", role="region", tabindex=0, aria_label=table.caption),
        tag("p", table.more, class_="quiet") if table.more else None,
    )


_WIDE: Final = frozenset({"Reason", "The numbers behind it", "What to change", "Held back by"})
_KEPT: Final = frozenset({"Began", "Ended", "From", "Took", "For", "GPU instance", "CPUs"})


def _cell(table: Table, row: tuple[str, ...], number: int) -> Markup:
    name, words = table.columns[number], row[number]
    if number == 0:
        return tag("th", words, scope="row")
    if name == "State":
        state = next((s for s in JobState if words.split(" ")[1:2] == [s.value]), None)
        looks = _LOOKS.get(state, "calm") if state is not None else "calm"
        return tag("td", tag("span", words, class_=f"state {looks}"))
    looks = "lines" if name == "Keys" else "wide" if name in _WIDE else "keep" if name in _KEPT else ""
    if number in table.right:
        looks = f"{looks} number".strip()
    return tag("td", words, class_=looks or None)
