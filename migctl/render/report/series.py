"""Samples laid on the columns of a picture: a time that nobody watched stays empty, and is never drawn as 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from migctl.core.seeing.tracks import FINEST_S, Figures, Sample
from migctl.render.report.clock import Span

Column = float | None
"""The value of one column; `None` = nothing is known."""

MOST_COLUMNS: Final = 240


def columns_for(span: Span) -> int:
    """As many as there may be samples, and as can be seen."""
    return max(1, min(MOST_COLUMNS, math.ceil(span.length_s / FINEST_S)))


def laid(
    samples: Iterable[Sample],
    span: Span,
    count: int,
    figure: Callable[[Sample], float | None],
    *,
    highest: bool = False,
) -> tuple[Column, ...]:
    """The value of each column: the average by time, or the highest.

    Args:
        samples: oldest first.
        span: the whole width.
        count: of columns.
        figure: of one sample; `None` where it is not known.
        highest: what fails when it is too high is not averaged away.
    """
    width = span.length_s / count
    sums, weights = [0.0] * count, [0.0] * count
    for sample in samples:
        value = figure(sample)
        if value is None:
            continue
        begin, end = sample.at_s - sample.seconds, sample.at_s
        first = max(0, int((begin - span.begin_s) / width))
        last = min(count - 1, int((end - span.begin_s) / width))
        for column in range(first, last + 1):
            left = span.begin_s + column * width
            weight = min(end, left + width) - max(begin, left)
            if weight <= 0:
                continue
            sums[column] = (
                max(sums[column], value)
                if highest and weights[column]
                else (value if highest else sums[column] + value * weight)
            )
            weights[column] += weight
    return tuple(
        None if not weight else (total if highest else total / weight)
        for total, weight in zip(sums, weights, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Extent:
    """A series in numbers, for its words and its table."""

    least: float
    mean: float
    most: float
    last: float


def extent(values: Sequence[Column]) -> Extent | None:
    """The numbers of a series; `None` where nothing is known of it."""
    known = [value for value in values if value is not None]
    return Extent(min(known), sum(known) / len(known), max(known), known[-1]) if known else None


def of_job(job: str, name: str) -> Callable[[Sample], float | None]:
    """One figure of one job."""

    def figure(sample: Sample) -> float | None:
        figures: Figures | None = sample.jobs.get(job)
        return figures.get(name) if figures is not None else None

    return figure


def of_cpus(cpus: Sequence[int]) -> Callable[[Sample], float | None]:
    """The load of some logical CPUs together, 0 to 1."""

    def figure(sample: Sample) -> float | None:
        known = [load for cpu in cpus if (load := sample.cpus.get(cpu)) is not None]
        return sum(known) / len(known) if known else None

    return figure


def of_gpu(uuid: str, name: str) -> Callable[[Sample], float | None]:
    """One figure of one GPU."""

    def figure(sample: Sample) -> float | None:
        figures = sample.gpus.get(uuid)
        return figures.get(name) if figures is not None else None

    return figure


def watched_s(samples: Iterable[Sample]) -> float:
    """For how long somebody watched."""
    return sum(sample.seconds for sample in samples)
