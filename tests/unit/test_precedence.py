"""The order that needs and stages ask for, and its contradictions."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migctl.core.queueing.precedence import Late, late, ordered

# Needs by job; the order; the cycles.
ORDERS: tuple[tuple[dict[str, str], str | None, tuple[tuple[str, ...], ...]], ...] = (
    ({}, "", ()),
    ({"a": "", "b": ""}, "ab", ()),
    ({"a": "b", "b": "c", "c": ""}, "cba", ()),
    ({"a": "cb", "b": "c", "c": "", "d": "x"}, "cbad", ()),
    ({"a": "a"}, "a", (("a", "a"),)),
    ({"a": "b", "b": "c", "c": "b"}, None, (("b", "c", "b"),)),
    ({"a": "b", "b": "a", "c": "d", "d": "c"}, None, (("a", "b", "a"), ("c", "d", "c"))),
)


@pytest.mark.parametrize(("needs", "names", "cycles"), ORDERS)
def test_a_job_follows_what_it_needs(
    needs: dict[str, str], names: str | None, cycles: tuple[tuple[str, ...], ...]
) -> None:
    found = ordered(needs)

    assert found.cycles == cycles
    if names is not None:
        assert found.names == tuple(names)


def test_a_chain_of_ten_thousand_links_is_not_too_deep() -> None:
    needs = {str(n): [str(n + 1)] for n in range(10_000)} | {"10000": []}

    assert ordered(needs).names == tuple(str(n) for n in range(10_000, -1, -1))
    assert ordered(needs | {"10000": ["0"]}).cycles[0][:2] == ("0", "1")


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from("abcdefg"), st.lists(st.sampled_from("abcdefgh"), max_size=3)))
def test_there_is_an_order_or_a_cycle_that_is_one(needs: dict[str, list[str]]) -> None:
    found = ordered(needs)

    assert sorted(found.names) == sorted(needs)
    for cycle in found.cycles:
        assert cycle[0] == cycle[-1]
        assert all(other in needs[name] for name, other in pairwise(cycle))
    place = {name: number for number, name in enumerate(found.names)}
    backwards = [(name, other) for name in needs for other in needs[name] if place.get(other, -1) >= place[name]]
    assert bool(backwards) == bool(found.cycles)


# Needs in an order; stages; who is late.
LATE = (
    ({"b": "", "a": "b"}, {"a": 2, "b": 1}, ()),
    ({"b": "", "a": "b"}, {"a": 1, "b": 1}, ()),
    ({"b": "", "a": "b"}, {"b": 7}, ()),
    ({"b": "", "a": "b"}, {"a": 1}, ()),
    ({"b": "", "a": "b"}, {"a": 1, "b": 2}, (Late("a", 1, "b", 2, "b"),)),
    ({"c": "", "b": "c", "a": "b"}, {"a": 0, "c": 3}, (Late("a", 0, "c", 3, "b"),)),
    # What is late itself is told once, not by everybody who needs it.
    ({"c": "", "b": "c", "a": "b"}, {"a": 1, "b": 1, "c": 2}, (Late("b", 1, "c", 2, "c"),)),
    ({"d": "", "c": "", "a": "cd"}, {"a": 1, "c": 2, "d": 3}, (Late("a", 1, "d", 3, "d"),)),
)


@pytest.mark.parametrize(("needs", "stages", "found"), LATE)
def test_no_job_waits_for_a_stage_that_waits_for_it(
    needs: dict[str, str], stages: dict[str, int], found: tuple[Late, ...]
) -> None:
    assert late(needs, tuple(needs), stages) == found
