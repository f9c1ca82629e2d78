"""What an error and a notice look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from migctl.errors import HostError, MigctlError, Notice, PlanError, Problems, Where
from migctl.render.console import Style
from migctl.render.errors_text import error_text, notice_lines
from tests.support import render_values as values

UNKNOWN_KEY = PlanError(
    "unknown-key",
    "unknown key num_worker in job train-a",
    where=Where("plan.yaml", 7, 5, "    num_worker: 4"),
    hint="did you mean num_workers?",
)
KOREAN = PlanError(
    "not-a-string",
    "image must be a string, 1.10 is a number here",
    where=Where("실험/plan.yaml", 9, 12, "\t이미지: 1.10  # 설명"),
    hint='quote it: "1.10"',
)
NO_ENGINE = HostError(
    "no-daemon",
    "the container engine at unix:///var/run/docker.sock does not answer: no such file",
    where="docker",
    hint="start it (systemctl start docker), or --runtime process",
    data={"why": ["DOCKER_HOST is not set", "no Docker context is chosen"]},
)
LONG_LINE = PlanError(
    "unknown-variable",
    "${DATA_DIR} has no value",
    where=Where(
        "plan.yaml", 12, 103, "  command: python train.py " + "--option value " * 5 + "${DATA_DIR} " + "--more " * 12
    ),
    hint="${DATA_DIR:-/data} gives it a default",
)
HOSTILE = PlanError(
    "bad-name",
    "the job name \x1b[2J\x1b]0;owned\x07 has other characters than letters",
    where=Where("plan.yaml", 2, 3, "  \x1b[31mjob\u202eeman\x00: {}"),
)
CASES: dict[str, MigctlError] = {
    "caret": UNKNOWN_KEY,
    "caret-under-korean": KOREAN,
    "reasons": NO_ENGINE,
    "long-line": LONG_LINE,
    "control-characters": HOSTILE,
    "whole-file": PlanError("no-jobs", "the plan has no jobs", where=Where("plan.yaml"), hint="add jobs:"),
    "three": Problems([UNKNOWN_KEY, KOREAN, NO_ENGINE]),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_says_what_where_why_and_what_next(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"render/error-{name}", error_text(CASES[name], values.PLAIN) + "\n")


@pytest.mark.parametrize("name", ["caret-under-korean", "long-line", "control-characters"])
def test_an_error_on_a_terminal_without_unicode(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"render/error-{name}-ascii", error_text(CASES[name], replace(values.PLAIN, unicode=False, width=60)) + "\n")


def test_an_error_in_colour(golden: Callable[[str, str], None]) -> None:
    golden("render/error-caret-colour", error_text(UNKNOWN_KEY, Style(tty=True, color=True)) + "\n")


def test_no_control_character_of_a_user_reaches_the_terminal() -> None:
    text = error_text(HOSTILE, values.PLAIN)

    assert text.replace("\n", "").isprintable()
    assert "\\x1b[2J" in text
    assert "\\u202e" in text


def test_errors_beyond_twenty_are_counted() -> None:
    many = Problems([PlanError("unknown-key", f"unknown key k{n}") for n in range(23)])

    text = error_text(many, values.PLAIN)

    assert "unknown key k19" in text
    assert "unknown key k20" not in text
    assert text.endswith("… and 3 more errors\n\n23 errors")


def test_an_equal_notice_is_said_once() -> None:
    notice = Notice("topology-hidden", "vCPUs counted as cores", hint="threads_per_core: 2")

    assert notice_lines([notice, notice], values.PLAIN) == [
        "warning: vCPUs counted as cores",
        "  try: threads_per_core: 2",
    ]
