"""A mode change that somebody is in the way of, as drivers put it in two ways; who may change it; what a bug in reading does."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from migctl.core.gpu.mig import MigMode
from migctl.core.others.holders import Holder, Purpose, Sighting, advice
from migctl.engine.gpumode.modechange import ModeRequest, change_mode
from migctl.engine.rights import require_mode
from migctl.engine.session import Session
from migctl.errors import Busy, HostError, MigctlError
from migctl.nvml.driver import Driver
from migctl.nvml.models import board_gpu, parse_boards, resolve_board
from migctl.nvml.simstate import SimState
from migctl.nvml.simulator import Simulator
from tests.support.other_user import SOMEBODY, as_user, needs_root

OFF = MigMode(current=False, pending=False)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    state = SimState.create(tmp_path / "gpus.json", "a100-40gb:off")
    state.gpus[0].held = True
    state.gpus[0].activation = "reset-required"
    state.save(tmp_path / "gpus.json")
    environ = {
        "PATH": "/usr/bin:/bin",
        "MIGCTL_STATE_DIR": str(tmp_path / "state"),
        "MIGCTL_RUN_DIR": str(tmp_path / "run"),
        "MIGCTL_RECORDING": "off",
        "MIGCTL_SIM_STATE": str(tmp_path / "gpus.json"),
    }
    return Session(environ=environ, nvml="sim:a100-40gb:off")


def by_code(session: Session) -> None:
    with SimState.edit(session.paths.sim_state) as state:
        state.in_use_by_code = True


# How the driver says that somebody is there; with --reset → exit code, mode afterwards.
WAYS: list[tuple[bool, bool, int, MigMode]] = [
    (False, False, 4, MigMode(current=False, pending=True)),
    (True, False, 5, OFF),
    # A reset would bring nothing into force that was refused, and it is refused while somebody is there.
    (True, True, 5, OFF),
]


@pytest.mark.parametrize(("refused", "reset", "code", "mode"), WAYS)
def test_mode_names_the_holder_however_the_driver_says_in_use(
    session: Session, refused: bool, reset: bool, code: int, mode: MigMode
) -> None:
    if refused:
        by_code(session)

    with pytest.raises(MigctlError) as told:
        change_mode(session, ModeRequest(enabled=True, reset=reset), lambda _: None, threading.Event())

    assert told.value.exit_code == code
    assert "no process that holds it was found" in told.value.message
    with session.driver() as driver:
        assert driver.gpus()[0].mig == mode


def test_the_driver_leaves_a_mode_alone_whose_change_was_refused(session: Session) -> None:
    by_code(session)
    with session.driver() as driver:
        uuid = driver.gpus()[0].uuid
        with pytest.raises(Busy) as told:
            driver.set_mig_mode(uuid, enabled=True)
        assert driver.gpus()[0].mig == OFF
    assert told.value.id == "gpu-in-use"


# What migctl itself could do about the service → the advice.
STOPPING = [
    ("add --stop-services", "add --stop-services, or: sudo systemctl stop nvidia-persistenced"),
    (
        "migctl mode enable --gpu 0 --stop-services",
        "migctl mode enable --gpu 0 --stop-services, or: sudo systemctl stop nvidia-persistenced",
    ),
    (None, "sudo systemctl stop nvidia-persistenced"),
]


@pytest.mark.parametrize(("stopping", "says"), STOPPING)
def test_the_advice_about_services_fits_the_command(stopping: str | None, says: str) -> None:
    service = Holder(pid=7, user="root", program="nvidia-persistenced", unit="nvidia-persistenced.service")

    told = advice(Sighting(holders=(service,)), Purpose.MODE, 0, stopping=stopping)

    assert told.startswith(says)


@needs_root
def test_whoever_is_not_root_is_refused_before_a_real_mode_is_changed() -> None:
    gpu = board_gpu(resolve_board("a100-40gb"))

    def work() -> object:
        session = Session(environ={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
        try:
            require_mode(session, gpu)
        except HostError as error:
            return [error.id, error.data["needs_root"]]
        return "allowed"

    assert as_user(SOMEBODY, work) == ["no-permission", True]


class Forgetful(Simulator):
    """A driver that answers one question with nonsense."""

    def nvmlDeviceGetMinorNumber(self, handle: Any) -> int:  # noqa: N802 -- pynvml's
        raise ZeroDivisionError(str(handle))


def test_a_gpu_whose_reading_meets_a_bug_is_not_left_out_silently(tmp_path: Path) -> None:
    with (
        Driver(Forgetful(parse_boards("a100-40gb"), tmp_path / "gpus.json"), boot_id="b") as driver,
        pytest.raises(ZeroDivisionError),
    ):
        driver.gpus()
