"""`report`: what it asks of the engine, and where the page goes."""

from __future__ import annotations

import json
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.core.views.report import ReportView
from migctl.errors import HostError

_STANDARD_OUTPUT = Path("-")


def write_report(common: Common, word: str | None, output: Path | None, form: str) -> None:
    """Write the report of a run to a file, or print it.

    Raises:
        PlanError: there is no such run.
        HostError: the file cannot be written.
    """
    from migctl.engine.report import report

    view = report(common.session(), word, Path.cwd())
    if common.json and output is None:
        from migctl.render.report.json_report import report_json

        write_json(report_json(view))
        return
    text = _text(view, form)
    if output == _STANDARD_OUTPUT:
        write(text)
        return
    path = output or Path(f"{view.name}-report.{form}")
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise HostError(
            "not-written", f"{path} cannot be written: {error.strerror}", where=f"run {view.name}", hint="-o FILE"
        ) from None
    if common.json:
        write_json({"version": 1, "run": view.name, "file": str(path), "format": form})
    elif not common.quiet:
        write(f"{path}\n")


def _text(view: ReportView, form: str) -> str:
    match form:
        case "md":
            from migctl.render.report.markdown import markdown

            return markdown(view)
        case "json":
            from migctl.render.report.json_report import report_json

            return json.dumps(report_json(view), ensure_ascii=False) + "\n"
        case _:
            from migctl.render.report.page import page

            return page(view)
