"""The line of /proc/PID/stat, names that look like fields included."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from migctl.core.others.procstat import parse_stat

FIELDS = "S 7 8 9 0 -1 2097152 1 2 3 4 100 20 3 1 20 0 1 0 5000 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 17 5 0 0"


@pytest.mark.parametrize("name", ["python", "a b", "a) S 1 2", "((", ")", ""])
def test_whatever_the_name_is_the_fields_are_counted_behind_it(name: str) -> None:
    stat = parse_stat(f"4711 ({name}) {FIELDS}\n")

    assert stat is not None
    told = (stat.state, stat.parent, stat.session, stat.flags, stat.cpu_ticks, stat.start_ticks, stat.last_cpu)
    assert told == ("S", 7, 9, 2097152, 124, 5000, 5)


@pytest.mark.parametrize("text", ["", "4711 (python)", "4711 (python) S 7 8"])
def test_half_a_line_is_none(text: str) -> None:
    assert parse_stat(text) is None


@pytest.mark.parametrize(
    ("state", "ended"), [("R", False), ("S", False), ("D", False), ("T", False), ("Z", True), ("X", True)]
)
def test_what_has_ended_is_told_from_what_waits(state: str, ended: bool) -> None:
    stat = parse_stat(f"1 (x) {state}{FIELDS[1:]}")

    assert stat is not None
    assert stat.ended is ended


def test_the_kernels_own_line_is_read() -> None:
    stat = parse_stat(Path("/proc/self/stat").read_text())

    assert stat is not None
    assert (stat.parent, stat.session, stat.ended) == (os.getppid(), os.getsid(0), False)
    assert stat.last_cpu in os.sched_getaffinity(0)
