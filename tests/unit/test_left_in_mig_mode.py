"""What `down` says of a GPU that it leaves in MIG mode without an instance, where nothing can use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from migctl.core.choices import RuntimeName
from migctl.core.runs.run import Run
from migctl.engine.apply import Workshop
from migctl.engine.gpumode.mode import restore
from migctl.engine.session import Session
from migctl.nvml.driver import Driver
from migctl.nvml.models import parse_boards
from migctl.nvml.simulator import Simulator

# Label of the simulated machine (nothing stands for a real driver); board; whether the run turned the mode on → the hint.
CASES = (
    ("", "a100-40gb", False, "sudo migctl mode disable --gpu 0 --reset "),
    ("", "h100-sxm5-80gb", False, "sudo migctl mode disable --gpu 0 "),
    ("", "a100-40gb", True, "sudo migctl mode disable --gpu 0 --reset "),
    ("a100-40gb", "a100-40gb", False, "migctl mode disable --gpu 0 --reset "),
    ("a100-40gb", "a100-40gb", True, "migctl mode disable --gpu 0 --reset "),
)


@pytest.mark.parametrize(("label", "board", "ours", "hint"), CASES)
def test_a_gpu_that_stays_in_mig_mode_is_told_of_with_the_command_that_gives_it_back(
    tmp_path: Path, label: str, board: str, ours: bool, hint: str
) -> None:
    session = Session(environ={"MIGCTL_STATE_DIR": str(tmp_path / "state"), "MIGCTL_RUN_DIR": str(tmp_path / "run")})
    simulator = Simulator(parse_boards(board), tmp_path / "gpus.json")
    with Driver(simulator, simulated=label, boot_id="b") as driver, session.ledger(write=True) as ledger:
        (gpu,) = driver.gpus()
        shop = Workshop(
            session=session,
            driver=driver,
            runtime=session.runtime(RuntimeName.PROCESS),
            ledger=ledger,
            report=lambda _: None,
        )
        run = Run(
            name="r",
            plan_path="",
            owner_uid=0,
            runtime="process",
            strategy="mig",
            mig_enabled=(gpu.uuid,) if ours else (),
        )

        told = restore(shop, run, {gpu.uuid})

    assert [notice.id for notice in told] == ["empty-mig-gpu"]
    assert all(str(notice.hint).startswith(hint) for notice in told)
