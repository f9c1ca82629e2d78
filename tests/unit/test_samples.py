import pytest

from migctl.core.seeing.samples import Progress, parse


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("migctl: samples=0", Progress(0)),
        ("migctl: samples=12800", Progress(12800)),
        ("migctl: samples=12800 wait=3.25", Progress(12800, 3.25)),
        ("migctl: samples=7 epoch=2 wait=0.5 lr=1e-3", Progress(7, 0.5)),
        ("migctl: samples=7 wait=1e2", Progress(7, 100.0)),
        ("migctl: samples=7\r", Progress(7)),
        (" 12%|##      | 3/25\rmigctl: samples=7 wait=1", Progress(7, 1.0)),
        ("migctl: samples=7 wait=nan", Progress(7)),
        ("migctl: samples=7 wait=-1", Progress(7)),
        ("migctl: samples=7 wait=inf", Progress(7)),
        ("migctl: samples=7 wait=soon", Progress(7)),
    ],
)
def test_a_line_of_the_protocol_is_read(line: str, expected: Progress) -> None:
    assert parse(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "samples=7",
        "migctl: samples=",
        "migctl: samples=-7",
        "migctl: samples=7.5",
        "migctl: samples=seven",
        "migctl: samples=7 and more",
        "migctl: samples=7  wait=1",
        "see migctl: samples=7",
        "migctl: samples=7\rmigctl: sam",
        "migctl: samples=" + "9" * 400,
    ],
)
def test_every_other_line_is_the_jobs_own_business(line: str) -> None:
    assert parse(line) is None
