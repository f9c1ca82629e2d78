"""What `mode` leans on at its edges: the reset program's answers, the services that were stopped, the end of a holder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from migctl.core.others.services import monitoring_units, start_order
from migctl.errors import HostError
from migctl.host.endings import wait_for_an_end
from migctl.host.pauses import Pause, read_pause, write_pause
from migctl.host.procfs import process_start_ticks
from migctl.host.reset import ResetAnswer, reset_command, reset_gpu
from migctl.host.systemd import Systemd
from migctl.nvml.open import simulated_reset
from migctl.nvml.simdevices import gpu_node
from migctl.nvml.simstate import SimState
from migctl.programs import ask
from tests.support.other_user import SOMEBODY, as_user, needs_root, open_folder

BOOT = "0c5a7a0e-7d4d-4f0e-9f1c-0f2f6c1f9a11"
DCGM, PERSISTENCED = "nvidia-dcgm.service", "nvidia-persistenced.service"


def program(folder: Path, name: str, text: str) -> dict[str, str]:
    """An environment whose PATH has this program."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


# (exit code, what nvidia-smi prints, what that means): it answers in words, and with 0 although a GPU could not be reset
ANSWERS = [
    (0, "GPU 00000000:10:00.0 was successfully reset.\nAll done.", ResetAnswer.DONE),
    (
        255,
        "The following GPUs could not be reset:\n  GPU 00000000:10:00.0: In use by another client",
        ResetAnswer.IN_USE,
    ),
    (0, "GPU 0 is currently being used by one or more other processes", ResetAnswer.IN_USE),
    (3, "Resetting GPU 00000000:00:04.0 is not supported.", ResetAnswer.NOT_SUPPORTED),
    (0, "GPU Reset couldn't run because GPU reset is Not Supported", ResetAnswer.NOT_SUPPORTED),
    (4, "Unable to reset GPU 0: Insufficient Permissions", ResetAnswer.NO_PERMISSION),
    (15, "Unable to determine the device handle: GPU is lost", ResetAnswer.FAILED),
]


@pytest.mark.parametrize(("code", "text", "meaning"), ANSWERS)
def test_the_words_of_the_reset_program_decide(tmp_path: Path, code: int, text: str, meaning: ResetAnswer) -> None:
    (tmp_path / "text").write_text(text)
    environ = program(tmp_path, "nvidia-smi", f'echo "$@" > {tmp_path}/words; cat {tmp_path}/text; exit {code}\n')

    answer, said = reset_gpu(reset_command(environ), "0000:10:00.0", environ)

    assert answer is meaning
    assert said.text == " ".join(text.split())
    assert (tmp_path / "words").read_text() == "--gpu-reset -i 0000:10:00.0\n"


def test_without_nvidia_smi_there_is_no_reset() -> None:
    with pytest.raises(HostError, match="nvidia-smi") as caught:
        reset_command({"PATH": "/nonexistent"})
    assert caught.value.id == "no-nvidia-smi"


def test_a_program_that_does_not_end_is_ended(tmp_path: Path) -> None:
    environ = program(tmp_path, "slow", "echo begun; exec sleep 60\n")

    answer = ask([str(tmp_path / "slow")], environ, 0.5)

    assert answer.code == -1
    assert answer.text == "begun"


def test_the_simulated_reset_is_refused_while_anybody_has_the_device_file_open(tmp_path: Path) -> None:
    state = SimState.create(tmp_path / "sim.json", "a100-40gb:off,a100-40gb:off")
    state.make_devices(tmp_path / "dev")
    for gpu in state.gpus:
        gpu.pending = True
    state.save(tmp_path / "sim.json")
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = simulated_reset(tmp_path / "sim.json")

    with gpu_node(tmp_path / "dev", 0).open():
        # This very process holds it, as a migctl does that has not let go of NVML.
        assert reset_gpu(command, "0000:10:00.0", environ)[0] is ResetAnswer.IN_USE
    assert reset_gpu(command, "0000:10:00.0", environ)[0] is ResetAnswer.DONE
    assert reset_gpu(command, "0000:77:00.0", environ)[0] is ResetAnswer.FAILED

    assert [gpu.current for gpu in SimState.load(tmp_path / "sim.json").gpus] == [True, False]


def test_systemd_tells_which_units_run_and_its_refusals_are_errors(tmp_path: Path) -> None:
    environ = program(
        tmp_path,
        "systemctl",
        'case $1 in is-active) echo inactive; echo active; exit 3;; stop) echo "Access denied"; exit 1;; esac\n',
    )
    systemd = Systemd(environ)

    assert systemd.active([DCGM, PERSISTENCED]) == (PERSISTENCED,)
    systemd.start(DCGM)
    with pytest.raises(HostError, match="Access denied") as caught:
        systemd.stop(DCGM)
    assert caught.value.id == "service-not-stopped"


def test_without_systemctl_no_service_is_stopped() -> None:
    with pytest.raises(HostError) as caught:
        Systemd({"PATH": "/nonexistent"}).stop(DCGM)
    assert caught.value.id == "no-systemctl"


def test_services_are_stopped_in_one_order_and_started_in_the_other() -> None:
    units = monitoring_units()

    assert units.index("dcgm-exporter.service") < units.index(DCGM) < units.index(PERSISTENCED)
    assert start_order([DCGM, PERSISTENCED, "ssh.service"]) == (PERSISTENCED, DCGM)


def pause(boot_id: str = BOOT, units: tuple[str, ...] = (DCGM, PERSISTENCED)) -> Pause:
    return Pause(boot_id=boot_id, gpu="GPU 0", since=1.0, units=units)


def test_what_was_stopped_is_read_back_until_all_of_it_runs_again(tmp_path: Path) -> None:
    write_pause(tmp_path, pause())
    assert read_pause(tmp_path, BOOT) == pause()

    write_pause(tmp_path, pause().now_stopped(DCGM).started(PERSISTENCED))
    assert read_pause(tmp_path, BOOT) == Pause(boot_id=BOOT, gpu="GPU 0", since=1.0, units=(DCGM,), stopped=(DCGM,))

    write_pause(tmp_path, pause(units=()))
    assert read_pause(tmp_path, BOOT) is None
    assert list(tmp_path.iterdir()) == []


def test_a_reboot_starts_services_by_itself(tmp_path: Path) -> None:
    write_pause(tmp_path, pause())

    assert read_pause(tmp_path, BOOT.replace("0c", "1c")) is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", "[" * 100_000, "{}", json.dumps({"boot_id": BOOT, "gpu": 1, "since": 1, "units": [DCGM], "stopped": []}),
     json.dumps({"boot_id": BOOT, "gpu": "", "since": 1, "units": ["ssh.service", 5], "stopped": []})],
)  # fmt: skip
def test_a_file_that_names_no_monitoring_service_starts_none(tmp_path: Path, text: str) -> None:
    write_pause(tmp_path, pause())
    (path,) = tmp_path.iterdir()
    path.write_text(text)

    assert read_pause(tmp_path, BOOT) is None


@needs_root
def test_root_starts_nothing_because_of_a_file_that_somebody_else_wrote() -> None:
    with open_folder() as folder:
        folder.chmod(0o1777)
        as_user(SOMEBODY, lambda: write_pause(folder, pause()))

        assert len(list(folder.iterdir())) == 1
        assert read_pause(folder, BOOT) is None


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    write_pause(tmp_path, pause())
    (path,) = tmp_path.iterdir()
    path.rename(tmp_path / "other")
    path.symlink_to(tmp_path / "other")

    assert read_pause(tmp_path, BOOT) is None


def test_the_end_of_a_process_ends_the_waiting() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"]) as process:
        began = time.monotonic()
        assert wait_for_an_end({process.pid: process_start_ticks(process.pid)}, 30, threading.Event())
        assert time.monotonic() - began < 20


def test_a_pid_that_is_used_again_has_ended() -> None:
    assert wait_for_an_end({os.getpid(): 1}, 30, threading.Event())


def test_waiting_for_nobody_who_is_known_lasts_as_long_as_it_was_told_unless_it_is_cancelled() -> None:
    began = time.monotonic()
    assert not wait_for_an_end({}, 0.3, threading.Event())
    assert time.monotonic() - began >= 0.3

    cancel = threading.Event()
    cancel.set()
    assert not wait_for_an_end({os.getpid(): process_start_ticks(os.getpid())}, 30, cancel)
