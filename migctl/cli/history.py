"""`history` and `rm`: what they ask of the engine and what they print."""

from __future__ import annotations

from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_json, write_result
from migctl.errors import PlanError, Problems


def show_history(common: Common, word: str | None, *, prune: bool) -> None:
    """Print the runs that were, or forget those that have ended."""
    from migctl.engine import past
    from migctl.render.history_text import history_json, history_text

    if prune and word is not None:
        raise PlanError("usage", "--prune forgets every ended run", hint=f"migctl rm {word} forgets that one")
    session = common.session()
    if prune:
        _prune(common)
        return
    view = past.history(session, word, Path.cwd())
    if common.json:
        write_json(history_json(view))
    else:
        write(history_text(view, common.style(), attempts=word is not None))


def _prune(common: Common) -> None:
    from migctl.engine import past

    gone, problems = past.prune(common.session())
    failed = Problems(problems) if problems else None
    if common.json:
        write_result({"version": 1, "forgotten": list(gone)}, failed)
        return
    if not common.quiet:
        write(f"forgotten: {', '.join(gone)}\n" if gone else "no run has ended: nothing to forget\n")
    if failed is not None:
        raise failed


def forget_run(common: Common, word: str) -> None:
    """Remove what is kept of an ended run."""
    from migctl.engine import past

    name = past.forget(common.session(), word, Path.cwd())
    if common.json:
        write_json({"version": 1, "forgotten": [name]})
    elif not common.quiet:
        write(f"{name}: forgotten, with its logs\n")
