"""Forty short jobs through seven places while supervisors and jobs are killed at random; scripts/soak runs hundreds."""

from __future__ import annotations

from tests.support.program import Program
from tests.support.queue_campaign import Campaign


def test_forty_jobs_end_once_each_whatever_is_killed_meanwhile(program: Program) -> None:
    ends = Campaign(program=program, jobs=40, seed=7).run()

    assert ends["succeeded"] + ends.get("failed", 0) + ends.get("lost", 0) == 40
