"""Metrics as values: families of points with labels, before they are written in a format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    """What a family's values mean (Prometheus, "Metric types")."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Only grows, until whoever counts starts again; its name ends in `_total`."""
    INFO = "info"
    """Always 1: its labels are what it says; its name ends in `_info`."""


Labels = tuple[tuple[str, str], ...]
"""Name and value; nothing as value is the same as no label."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value now."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """All points of one name."""

    name: str
    """With the unit in it, in base units, and with its ending."""
    kind: MetricKind
    help: str
    points: tuple[Point, ...]


def family(name: str, kind: MetricKind, help: str, points: Iterable[tuple[Labels, float | int | None]]) -> Family:  # noqa: A002 -- the format's own word
    """A family without the points whose value is unknown: an absent series says that, and 0 would not."""
    return Family(name, kind, help, tuple(Point(labels, float(v)) for labels, v in points if v is not None))


def labels(**values: str | int | None) -> Labels:
    """Labels in the order given; unknown ones are left out."""
    return tuple((name, str(value)) for name, value in values.items() if value is not None and value != "")


def more(known: Labels, extra: Mapping[str, str]) -> Labels:
    """The same with others behind them."""
    return (*known, *extra.items())
