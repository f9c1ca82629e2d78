"""`check` as text: every finding with its next step, and one line that sums up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from migctl.core.views.findings import Finding, Level
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.heading import heading
from migctl.render.text import clean, hang, page, width, wrap


def check_text(findings: Sequence[Finding], style: Style, *, simulated: str = "", verdict: bool = True) -> str:
    """The whole answer, with a newline at its end.

    Args:
        findings: in the order they were made.
        style: the terminal.
        simulated: `sim:…` where the GPUs are simulated.
        verdict: whether the last line says what the findings mean for `up`.
    """
    label = min(24, max((width(finding.id) for finding in findings), default=0))
    lines = [line for finding in findings for line in _finding(finding, label, style)]
    end = _verdict(findings, style) if verdict else []
    return page([heading("check", "", [], simulated, style), lines, end], style)


def _finding(finding: Finding, label: int, style: Style) -> list[str]:
    sign, looks = _sign(finding.level, style)
    name = clean(finding.id, style)
    left = 2 + 9 + 2 + label + 2
    narrow = style.columns - left < 30
    left = 4 if narrow else left
    first, *rest = wrap(finding.message, style.columns - left, style)
    word = style.paint(f"{sign} {finding.level.value:<7}", *looks)
    if narrow or width(name) > label:
        lines = [f"  {word}  {name}", " " * left + first]
    else:
        lines = [f"  {word}  {style.paint(name, 'bold')}{' ' * (label - width(name))}  {first}"]
    lines += [" " * left + line for line in rest]
    if finding.hint:
        lines += hang("try:", finding.hint, style, indent=left, look=("cyan",))
    return lines


def _sign(level: Level, style: Style) -> tuple[str, tuple[str, ...]]:
    match level:
        case Level.OK:
            return style.signs.ok, ("green",)
        case Level.WARNING:
            return style.signs.warning, ("yellow", "bold")
        case Level.FAILURE:
            return style.signs.failure, ("red", "bold")


def _verdict(findings: Sequence[Finding], style: Style) -> list[str]:
    levels = Counter(finding.level for finding in findings)
    parts = [f"{levels[Level.OK]} ok"]
    parts += [counted(levels[Level.WARNING], "warning")] if levels[Level.WARNING] else []
    parts += [counted(levels[Level.FAILURE], "failure")] if levels[Level.FAILURE] else []
    return hang("", f"{', '.join(parts)}: {_end(findings)}", style)


def _end(findings: Sequence[Finding]) -> str:
    failures = [finding for finding in findings if finding.level is Level.FAILURE]
    if not failures:
        return "`migctl up` can work here"
    if all(finding.containers_only for finding in failures):
        return "`migctl up` cannot start containers here yet; it can work with `--runtime process`"
    return "`migctl up` cannot work here yet"
