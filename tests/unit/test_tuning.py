from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migctl.core.seeing.throughput import Estimate
from migctl.core.seeing.tuning import Bound, Point, best, better, drifted, fewest, next_count, verdict


def made(
    rate: float,
    half_width: float = 0.0,
    *,
    wait: float | None = None,
    busy: float | None = None,
    iowait: float | None = None,
    own: float | None = None,
) -> Estimate:
    return Estimate(
        rate=rate,
        half_width=half_width,
        windows=8,
        seconds=8.0,
        wait_share=wait,
        busy_cpus=busy,
        own_cpus=own,
        iowait_cpus=iowait,
    )


def walk(throughput: Callable[[int], float], start: int, most: int) -> tuple[list[int], int]:
    """The counts that are measured, in their order, and the recommendation."""
    curve: dict[int, Point] = {}
    order: list[int] = []
    while (count := next_count(curve, start, most)) is not None:
        assert count not in curve, "nothing is measured twice"
        assert 1 <= count <= most
        order.append(count)
        curve[count] = Point(count, made(throughput(count)))
    return order, fewest(curve)


@pytest.mark.parametrize(
    ("one", "other", "is_better"),
    [
        (made(110, 2), made(100, 2), True),
        (made(102, 0), made(100, 0), False),  # less than matters
        (made(110, 8), made(100, 8), False),  # not told apart
        (made(100), made(110), False),
        (made(1), made(0), True),
        (made(0), made(0), False),
    ],
)
def test_better_is_more_than_matters_and_more_than_chance(one: Estimate, other: Estimate, is_better: bool) -> None:
    assert better(one, other) is is_better


@pytest.mark.parametrize(
    ("throughput", "start", "most", "order", "recommended"),
    [
        (lambda n: min(n, 4), 4, 16, [4, 6, 5, 2, 3], 4),  # the rule was right
        (lambda n: min(n, 7), 4, 16, [4, 6, 9, 13, 11, 7], 7),  # storage with long waits wants more
        (lambda _: 1, 4, 16, [4, 6, 5, 2, 1], 1),  # the GPU is the limit: any number does
        (lambda n: 10 - n, 4, 16, [4, 6, 5, 2, 3, 1], 1),  # workers only hinder
        (lambda n: 100 - 10 * abs(n - 5), 4, 16, [4, 6, 5], 5),  # one more
        (lambda n: 100 - 10 * abs(n - 3), 4, 16, [4, 6, 5, 2, 3], 3),  # one less
        (lambda n: n, 1, 1, [1], 1),  # nothing else to try
        (lambda n: n, 2, 4, [2, 3, 4], 4),  # still rising at the end
    ],
)
def test_the_counts_that_are_measured(
    throughput: Callable[[int], float], start: int, most: int, order: list[int], recommended: int
) -> None:
    measured, found = walk(throughput, start, most)

    assert found == recommended
    assert measured == order


@given(top=st.integers(1, 40), start=st.integers(1, 40), slope=st.floats(0.05, 3.0), fall=st.floats(0.0, 0.2))
def test_on_every_curve_with_one_top_the_answer_is_as_good_as_the_top(
    top: int, start: int, slope: float, fall: float
) -> None:
    def throughput(count: int) -> float:
        return 100 * min(count, top) ** min(slope, 1.0) * (1 - fall) ** max(0, count - top)

    measured, found = walk(throughput, start, 40)
    highest = max(throughput(count) for count in measured)

    assert throughput(found) >= highest / 1.03 - 1e-9
    assert len(measured) <= 24
    smaller = [count for count in measured if count < found]
    assert all(throughput(count) < highest / 1.03 + 1e-9 for count in smaller)


def test_the_fewest_workers_that_are_not_measurably_slower_are_recommended() -> None:
    curve = {n: Point(n, made(rate, 2)) for n, rate in {2: 80, 3: 99, 4: 100, 6: 101}.items()}

    assert best(curve) == 6
    assert fewest(curve) == 3


@pytest.mark.parametrize(
    ("measured", "bound", "words"),
    [
        (made(1, wait=0.02, busy=3.9, iowait=0.0), Bound.GPU, "training step"),
        (made(1, wait=0.40, busy=3.7, iowait=0.1), Bound.CPU, "3.7 of 4 cores"),
        (made(1, wait=None, busy=3.7, iowait=0.1), Bound.CPU, "the cores"),
        (made(1, wait=0.60, busy=1.0, iowait=2.5), Bound.IO, "storage"),
        (made(1, wait=None, busy=1.0, iowait=0.5), Bound.IO, "storage"),
        (made(1, wait=0.60, busy=1.0, iowait=0.0), Bound.IO, "storage or network"),
        (made(1, wait=None, busy=1.0, iowait=0.0), Bound.UNKNOWN, "wait=SECONDS"),
        (made(1, wait=None, busy=None, iowait=None), Bound.UNKNOWN, "not known"),
        (made(1, wait=0.60, busy=None, iowait=None), Bound.UNKNOWN, "not known"),
        (made(1, wait=0.01, busy=None, iowait=None), Bound.GPU, "ready"),
        (made(1, wait=0.40, busy=3.9, own=3.8, iowait=0.0), Bound.CPU, "3.8 of 4 cores"),
        (made(1, wait=0.40, busy=3.9, own=1.0, iowait=0.0), Bound.UNKNOWN, "others used 2.9"),
        (made(1, wait=0.40, busy=2.0, own=1.0, iowait=1.5), Bound.IO, "storage"),
    ],
)
def test_what_holds_a_training_back(measured: Estimate, bound: Bound, words: str) -> None:
    found = verdict(measured, 4)

    assert found.bound is bound
    assert words in found.reason


@pytest.mark.parametrize(("again", "is_other"), [(made(130, 3), True), (made(102, 1), False), (made(70, 3), True)])
def test_a_second_look_at_the_first_count_tells_whether_the_machine_changed(again: Estimate, is_other: bool) -> None:
    assert drifted(made(100, 3), again) is is_other
