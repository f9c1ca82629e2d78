"""Verdicts that began and ended, as stretches of time."""

from __future__ import annotations

from migctl.core.seeing.spells import spells
from migctl.core.seeing.tracks import Said


def said(at: float, job: str, kind: str = "cpu-bound", *, over: bool = False, gpu: str = "") -> Said:
    return Said(at_s=at, job=job, gpu=gpu, kind=kind, title=kind, message="", over=over)


def test_a_beginning_and_its_end_are_one() -> None:
    (one,) = spells([said(10, "a"), said(30, "a", over=True)])

    assert (one.begin_s, one.end_s, one.length_s(100)) == (10, 30, 20)


def test_what_is_not_over_lasts_until_now() -> None:
    (one,) = spells([said(10, "a")])

    assert one.end_s is None
    assert one.length_s(100) == 90


def test_the_end_of_a_job_ends_what_nobody_said_to_be_over() -> None:
    (one,) = spells([said(10, "a")], {"a": 50.0})

    assert one.end_s == 50


def test_jobs_gpus_and_kinds_are_told_apart() -> None:
    found = spells(
        [
            said(1, "a"),
            said(2, "b"),
            said(3, "a", "disk-bound"),
            said(4, "", "gpu-throttled", gpu="GPU-1"),
            said(5, "a", over=True),
            said(6, "", "gpu-throttled", gpu="GPU-1", over=True),
        ]
    )

    assert [(s.job, s.gpu, s.kind, s.end_s) for s in found] == [
        ("a", "", "cpu-bound", 5),
        ("b", "", "cpu-bound", None),
        ("a", "", "disk-bound", None),
        ("", "GPU-1", "gpu-throttled", 6),
    ]


def test_an_end_alone_is_nothing_and_a_second_beginning_ends_the_first() -> None:
    found = spells([said(1, "a", over=True), said(2, "a"), said(5, "a"), said(9, "a", over=True)])

    assert [(s.begin_s, s.end_s) for s in found] == [(2, 5), (5, 9)]
