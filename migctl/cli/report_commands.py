"""The commands that hand on what was seen: report, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import Argument, CommandBody, Option


class ReportFormat(StrEnum):
    """What a report is written as."""

    HTML = "html"
    MD = "md"
    JSON = "json"


def report(
    common: Common,
    run: Annotated[
        str | None, Argument(metavar="RUN", help="A run, living, ended or undone; its name or its plan file.")
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "--output", "-o", metavar="FILE", help="Default: RUN-report.html in this folder; - for standard output."
        ),
    ] = None,
    written: Annotated[ReportFormat, Option("--format", help="One HTML page, Markdown, or JSON.")] = ReportFormat.HTML,
) -> None:
    """Write what happened in a run as one page: time line, cores, memory, throughput, verdicts, how each attempt ended."""
    from migctl.cli.report import write_report

    write_report(common, run, output, written.value)


def metrics(
    common: Common,
    listen: Annotated[
        str | None,
        Option("--listen", metavar="ADDRESS:PORT", help="Where to serve /metrics; default 127.0.0.1:9835."),
    ] = None,
    port: Annotated[
        int | None, Option("--port", least=0, most=65535, help="The same as --listen 127.0.0.1:N; 0: any free one.")
    ] = None,
    once: Annotated[bool, Option("--once", help="Print the metrics and end, instead of serving them.")] = False,
) -> None:
    """Serve what runs where, and what holds it back, to Prometheus."""
    from migctl.cli.metrics import serve_metrics

    serve_metrics(common, listen, port, once=once)


COMMANDS: Mapping[str, CommandBody] = {"report": report, "metrics": metrics}
