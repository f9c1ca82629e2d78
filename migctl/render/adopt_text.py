"""`adopt` as text: what became one's own again, and what was left alone and why."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.runs.record import Record
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.text import clean, hang, page


def adopt_text(adopted: Sequence[Record], left: Sequence[tuple[str, str]], style: Style, *, dry_run: bool) -> str:
    """A line for each job taken, and one for each thing left.

    Args:
        adopted: the settled records.
        left: what, and why.
        style: the terminal.
        dry_run: nothing was changed.
    """
    if not adopted and not left:
        return page([["nothing to adopt: no container, process or GPU instance without a record"]], style)
    word = "would adopt:" if dry_run else "adopted:"
    lines: list[str] = []
    for record in adopted:
        owned = record.instance
        where = f"{record.profile} at {record.placement}, {owned.mig_uuid}" if owned is not None else "the whole GPU"
        text = clean(f"{record.run}/{record.job}  {record.state.value}, {where}", style)
        lines += hang(word, text, style, look=("green",))
    for what, why in left:
        lines += hang("left alone:", f"{clean(what, style)}: {clean(why, style)}", style, look=("yellow",))
    runs = dict.fromkeys(record.run for record in adopted)
    end = (
        [
            f"{counted(len(adopted), 'job')} of {counted(len(runs), 'run')}; migctl status, migctl down {next(iter(runs))}"
        ]
        if runs
        else []
    )
    return page([lines, end], style)
