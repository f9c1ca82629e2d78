"""The Linux list format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migctl.core.cpu.cpuset import CpuSet


@pytest.mark.parametrize(
    ("text", "cpus", "canonical"),
    [
        ("", set(), ""),
        ("0", {0}, "0"),
        ("0-3", {0, 1, 2, 3}, "0-3"),
        ("8,0-2", {0, 1, 2, 8}, "0-2,8"),
        ("0,1,2", {0, 1, 2}, "0-2"),
        ("0-0", {0}, "0"),
        (" 1 , 3 ", {1, 3}, "1,3"),
    ],
)
def test_a_list_is_read_and_written_in_its_shortest_form(text: str, cpus: set[int], canonical: str) -> None:
    assert CpuSet.parse(text) == cpus
    assert str(CpuSet.parse(text)) == canonical


@pytest.mark.parametrize("text", ["a", "-1", "3-1", "1-", "0,,1", "0-3-5", "0x1", "²", "99999999999", "0-99999999"])
def test_what_is_no_list_of_cpus_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="CPU"):
        CpuSet.parse(text)


@given(st.frozensets(st.integers(0, 4095)))
def test_writing_and_reading_gives_the_same_set(cpus: frozenset[int]) -> None:
    assert CpuSet.parse(str(CpuSet(cpus))) == cpus


def test_set_algebra_gives_cpusets() -> None:
    a, b = CpuSet({0, 1, 2}), CpuSet({2, 3})

    assert (str(a & b), str(a | b), str(a - b)) == ("2", "0-3", "0-1")
    assert all(isinstance(value, CpuSet) for value in (a & b, a | b, a - b))
