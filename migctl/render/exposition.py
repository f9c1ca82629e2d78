"""Metrics as text: Prometheus' format 0.0.4, or OpenMetrics 1.0 for a scraper that asks for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from migctl.core.views.metrics import Family, MetricKind, Point
from migctl.render.json_values import VERSION, Json

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_UNITS: Final = ("seconds", "bytes", "watts", "celsius", "hertz", "ratio")


def content_type(accept: str) -> str:
    """The format that a scraper's `Accept` header asks for."""
    return OPEN_METRICS if "application/openmetrics-text" in accept else TEXT


def exposition(families: Iterable[Family], form: str = TEXT) -> str:
    """The whole text, families in their order; one without points is left out."""
    strict = form == OPEN_METRICS
    lines = [line for one in families if one.points for line in _family(one, strict=strict)]
    return "\n".join([*lines, "# EOF"] if strict else lines) + "\n"


def metrics_json(families: Iterable[Family]) -> Json:
    """`metrics --once --json`."""
    return {
        "version": VERSION,
        "metrics": [
            {
                "name": one.name,
                "type": one.kind.value,
                "help": one.help,
                "points": [{"labels": dict(p.labels), "value": p.value} for p in one.points],
            }
            for one in families
            if one.points
        ],
    }


def _family(one: Family, *, strict: bool) -> Iterator[str]:
    # OpenMetrics names a family without the ending that its kind gives to its samples; 0.0.4 has no such endings.
    ending = {MetricKind.COUNTER: "_total", MetricKind.INFO: "_info", MetricKind.GAUGE: ""}[one.kind]
    name = one.name.removesuffix(ending) if strict else one.name
    kind = one.kind if strict or one.kind is not MetricKind.INFO else MetricKind.GAUGE
    yield f"# HELP {name} {_help(one.help, strict=strict)}"
    yield f"# TYPE {name} {kind.value}"
    unit = next((unit for unit in _UNITS if name.endswith(f"_{unit}")), "")
    if strict and unit:
        yield f"# UNIT {name} {unit}"
    for point in one.points:
        yield f"{one.name}{_labels(point)} {_number(point.value)}"


def _labels(point: Point) -> str:
    if not point.labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in point.labels) + "}"


def _escaped(value: str) -> str:
    shown = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(words: str, *, strict: bool) -> str:
    escaped = words.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if strict else escaped


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
