"""The whole engine through random days: whatever happens in whatever order, neighbours are safe and `down` leaves only them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.days import Days

SEQUENCES, STEPS = 200, 10


@pytest.mark.slow
def test_through_days_of_use_and_trouble_neighbours_are_safe_and_down_leaves_only_them() -> None:
    run_state_machine_as_test(
        Days,
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=STEPS,
            deadline=None,
            # Threads make no two tries alike: shrinking would take longer than reading the steps.
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
