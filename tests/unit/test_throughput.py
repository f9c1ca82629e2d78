import random
from statistics import NormalDist

import pytest

from migctl.core.seeing.throughput import (
    LEAST_WINDOWS,
    CpuTimes,
    Enough,
    Estimate,
    Mark,
    Window,
    between,
    enough,
    estimate,
    settled_from,
    student,
)


def windows(*rates: float, seconds: float = 1.0, wait_s: float | None = None) -> list[Window]:
    return [Window(seconds, round(rate * seconds), wait_s, None) for rate in rates]


def made(rate: float, half_width: float, *, count: int = 8) -> Estimate:
    return Estimate(
        rate=rate,
        half_width=half_width,
        windows=count,
        seconds=8.0,
        wait_share=None,
        busy_cpus=None,
        own_cpus=None,
        iowait_cpus=None,
    )


def test_a_window_is_the_difference_of_two_marks() -> None:
    before = Mark(10.0, 100, 2.0, CpuTimes(5.0, 1.0, 4.0, 0.5))
    after = Mark(12.0, 160, 2.5, CpuTimes(8.0, 1.5, 4.5, 3.0))

    window = between(before, after)

    assert window == Window(2.0, 60, 0.5, CpuTimes(3.0, 0.5, 0.5, 2.5))
    assert window.rate == 30.0


@pytest.mark.parametrize("after", [Mark(12.0, 99), Mark(10.0, 160), Mark(9.0, 160)])
def test_no_window_where_the_count_or_the_clock_does_not_go_on(after: Mark) -> None:
    assert between(Mark(10.0, 100), after) is None


def test_a_wait_that_goes_back_is_not_known_and_counters_of_the_kernel_never_make_less_than_nothing() -> None:
    window = between(Mark(0.0, 0, 5.0, CpuTimes(1.0, 2.0, 3.0)), Mark(1.0, 1, 4.0, CpuTimes(1.5, 1.9, 3.5)))

    assert window == Window(1.0, 1, None, CpuTimes(0.5, 0.0, 0.5))


@pytest.mark.parametrize(
    ("rates", "cut"),
    [
        ([100.0] * 10, 0),
        ([500.0, 300.0, *([100.0, 101.0] * 5)], 2),  # batches fetched ahead come at once
        ([0.0, 10.0, 60.0, *([100.0, 99.0] * 5)], 3),  # workers that still start
        ([100.0, 101.0, 99.0, 100.0, 500.0], 0),  # an outlier at the end is no warm-up
        ([1.0, 2.0], 0),
        ([1.0], 0),
        ([], 0),
    ],
)
def test_the_warm_up_is_cut_off_and_nothing_else(rates: list[float], cut: int) -> None:
    assert settled_from(rates) == cut


def test_at_most_half_is_warm_up() -> None:
    assert settled_from([float(n) for n in range(20)]) <= 10


def test_too_few_windows_make_no_number() -> None:
    assert estimate(windows(*[100.0] * (LEAST_WINDOWS - 1))) is None


def test_the_rate_is_all_samples_over_all_time() -> None:
    found = estimate([Window(1.0, 100, None, None), *[Window(2.0, 200, None, None)] * 5])

    assert found is not None
    assert (found.rate, found.half_width, found.seconds) == (100.0, 0.0, 11.0)
    assert found.wait_share is None
    assert found.busy_cpus is None


def test_shares_are_known_only_where_every_window_tells_them() -> None:
    told = [Window(1.0, 100, 0.25, CpuTimes(1.5, 0.25, 0.25, 1.25))] * 6

    found, half = estimate(told), estimate([*told[:5], Window(1.0, 100, None, None)])

    assert found is not None
    assert (found.wait_share, found.busy_cpus, found.own_cpus, found.iowait_cpus) == (0.25, 1.5, 1.25, 0.25)
    assert half is not None
    assert (half.wait_share, half.busy_cpus, half.own_cpus, half.iowait_cpus) == (None, None, None, None)


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(4, 4.6041), (5, 4.0321), (7, 3.4995), (10, 3.1693), (19, 2.8609), (60, 2.6603)]
)
def test_students_quantiles_are_those_of_the_tables(degrees: int, quantile: float) -> None:
    assert student(0.99, degrees) == pytest.approx(quantile, rel=0.01)
    assert student(0.99, 10**6) == pytest.approx(NormalDist().inv_cdf(0.995), rel=1e-4)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    dice = random.Random(7)
    held = 0
    for _ in range(500):
        found = estimate([Window(1.0, round(dice.gauss(1000, 30)), None, None) for _ in range(12)])
        assert found is not None
        held += abs(found.rate - 1000) <= found.half_width

    # Cutting the warm-up costs a little of the 99 %.
    assert held >= 475


@pytest.mark.parametrize(
    ("now", "best", "why"),
    [
        (None, None, None),
        (made(100, 2.9), None, Enough.PRECISE),
        (made(100, 3.1), None, None),
        (made(100, 1.0, count=7), None, None),
        (made(80, 15, count=5), made(100, 3), Enough.WORSE),
        (made(80, 18, count=5), made(100, 3), None),
        (made(120, 10, count=5), made(100, 3), None),
        (made(0, 0), None, Enough.PRECISE),
    ],
)
def test_a_measurement_ends_when_more_of_it_changes_nothing(
    now: Estimate | None, best: Estimate | None, why: Enough | None
) -> None:
    assert enough(now, best) is why
