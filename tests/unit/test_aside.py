"""Work done in a second process gives what a plain call gives, whatever becomes of that process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from migctl.cli.aside import Aside
from migctl.errors import HostError, PlanError, Problems, Where

WRONG = PlanError(
    "bad-value", "no such size", where=Where("plan.yaml", 3, 5, "x: 1"), hint="write 1g", data={"key": "x"}
)


def test_the_result_comes_from_another_process() -> None:
    assert Aside(os.getpid).result() != os.getpid()


def test_what_can_be_read_once_is_read_here() -> None:
    assert Aside(os.getpid, here=True).result() == os.getpid()


@pytest.mark.parametrize(
    "error", [WRONG, Problems([WRONG, HostError("no-driver", "there is none", hint="install it")])]
)
def test_an_error_arrives_whole(error: PlanError | Problems) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as seen:
        Aside(fail).result()

    assert [vars(one) for one in seen.value.all] == [vars(one) for one in error.all]
    assert (str(seen.value), seen.value.exit_code) == (str(error), error.exit_code)


def test_a_killed_process_is_made_up_for(tmp_path: Path) -> None:
    parent = os.getpid()

    def die() -> int:
        (tmp_path / str(os.getpid())).touch()
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return 7

    assert Aside(die).result() == 7
    assert len(list(tmp_path.iterdir())) == 2


def test_a_result_that_cannot_be_handed_over_is_made_here() -> None:
    assert Aside(lambda: lambda: 3).result()() == 3


def test_a_bug_is_met_with_its_own_traceback(tmp_path: Path) -> None:
    def stumble() -> None:
        (tmp_path / str(os.getpid())).touch()
        raise KeyError("unheard of")

    with pytest.raises(KeyError, match="unheard of"):
        Aside(stumble).result()

    assert (tmp_path / str(os.getpid())).exists()


def test_no_process_is_left() -> None:
    Aside(os.getpid).result()

    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
