"""`migctl mode` as a process; in its way stand real processes that hold device files, and services that are told to stop."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from migctl.host.lock import machine_lock
from migctl.nvml.simmodel import SimProcess
from migctl.nvml.simstate import SimState
from tests.support.program import Program
from tests.support.simulated_host import SimulatedHost

PERSISTENCED = "nvidia-persistenced.service"
DCGM = "nvidia-dcgm.service"
ON, OFF = (True, True), (False, False)
PLAN = """
name: one
runtime: process
jobs:
  a: {profile: 1g.5gb, command: [sleep, "600"]}
"""


class Machine:
    """The program and the machine that it works on."""

    def __init__(self, folder: Path, boards: str, **activation: str) -> None:
        self.program = Program(folder, MIGCTL_NVML=f"sim:{boards}")
        self.host = SimulatedHost(self.program.simulator, boards, **activation)  # type: ignore[arg-type]  # a literal each
        self.run = self.program.run


@pytest.fixture
def ampere(tmp_path: Path) -> Iterator[Machine]:
    """An A100 whose driver asks for a reset."""
    machine = Machine(tmp_path, "a100-40gb:off", activation="reset-required")
    yield machine
    machine.program.clean()


@pytest.fixture
def hopper(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, "h100-sxm5-80gb:off")
    yield machine
    machine.program.clean()


def test_on_hopper_the_mode_is_in_force_at_once_and_no_reset_is_spoken_of(hopper: Machine) -> None:
    done = hopper.run("mode", "enable", "--reset").ended(0)

    assert "MIG mode is on" in done.out
    assert "reset" not in done.out + done.err
    assert "after a reboot or a reload of the driver it is off again" in done.out
    assert hopper.host.mode() == ON


def test_on_ampere_it_stays_pending_until_that_gpu_is_reset(ampere: Machine) -> None:
    pending = ampere.run("mode", "enable").ended(4)

    assert "must be reset first" in pending.told
    assert "--reset" in pending.told
    assert "MIG mode is on" not in pending.out
    assert ampere.host.mode() == (False, True)

    done = ampere.run("mode", "enable", "--reset", "--json").ended(0)
    assert json.loads(done.out)["mig"] == {"current": True, "pending": True}
    assert json.loads(done.out)["reset"] is True
    assert ampere.host.mode() == ON
    assert "nothing to do" in ampere.run("mode", "enable").ended(0).out


def test_a_change_that_is_outstanding_can_be_taken_back(ampere: Machine) -> None:
    ampere.run("mode", "enable").ended(4)

    ampere.run("mode", "disable").ended(0)

    assert ampere.host.mode() == OFF


def test_where_a_reset_is_not_supported_the_advice_is_to_reboot_and_not_to_free_the_gpu(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "a100-40gb:off", activation="not-supported")

    told = machine.run("mode", "enable", "--reset").ended(4).told

    assert "(Not Supported)" in told
    assert "reboot the machine" in told
    assert "In use" not in told


def test_whoever_works_on_the_gpu_is_named_and_nothing_is_changed(ampere: Machine) -> None:
    with ampere.host.holding(name="train-resnet") as holder:
        refused = ampere.run("mode", "enable", "--reset", "--stop-services", "--json").ended(5)

    error = json.loads(refused.out)["errors"][0]
    assert error["id"] == "gpu-busy"
    assert f"pid {holder.pid} of " in error["message"]
    assert "train-resnet" in error["message"]
    assert [h["pid"] for h in error["data"]["holders"]] == [holder.pid]
    assert ampere.host.mode() == OFF
    assert ampere.host.asked == []


def test_it_waits_for_the_holder_as_long_as_it_was_told_and_holds_neither_gpu_nor_machine_meanwhile(
    hopper: Machine,
) -> None:
    with hopper.host.holding() as holder:
        waiting = hopper.program.start("mode", "enable", "--wait-for", "30")
        said = waiting.stderr.readline() if waiting.stderr else ""
        assert f"pid {holder.pid}" in said
        time.sleep(0.5)
        assert _opened(waiting.pid, hopper.host.devices) == []
        with machine_lock(hopper.program.claims, "machine", wait_s=5.0):
            pass  # it keeps nobody else from the machine either
        began = time.monotonic()
        holder.kill()
        holder.wait()
        out, err = waiting.communicate(timeout=30)

    assert waiting.returncode == 0, err
    assert "MIG mode is on" in out
    assert time.monotonic() - began < 15


def test_ctrl_c_ends_the_waiting_and_nothing_was_changed(hopper: Machine) -> None:
    with hopper.host.holding():
        waiting = hopper.program.start("mode", "enable", "--wait-for", "60")
        assert "waiting up to" in (waiting.stderr.readline() if waiting.stderr else "")
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=30)

    assert waiting.returncode == 130
    assert "nothing was changed" in err
    assert hopper.host.mode() == OFF


def test_a_monitoring_service_is_named_with_the_commands_that_stop_and_start_it(ampere: Machine) -> None:
    with ampere.host.service(PERSISTENCED, "nvidia-persistenced"):
        told = ampere.run("mode", "enable", "--reset").ended(4).told
        found = ampere.run("check", "--runtime", "process", "--json")

    assert "In use by another client" in told
    assert "--stop-services" in told
    assert "sudo systemctl stop nvidia-persistenced and afterwards sudo systemctl start nvidia-persistenced" in told
    assert ampere.host.asked == []
    held = next(f for f in json.loads(found.out)["findings"] if f["id"] == "gpu-held")
    assert "nvidia-persistenced" in held["message"]


def test_services_are_stopped_and_run_again_around_the_change_and_its_reset(ampere: Machine) -> None:
    with (
        ampere.host.service(DCGM, "nv-hostengine"),
        ampere.host.service(PERSISTENCED, "nvidia-persistenced"),
    ):
        steps = ampere.run("mode", "enable", "--reset", "--stop-services", "--dry-run").ended(0).out
        assert ampere.host.asked == []
        assert ampere.host.mode() == OFF

        done = ampere.run("mode", "enable", "--reset", "--stop-services").ended(0)

    assert [line.removeprefix("would do  ").split(" (")[0] for line in steps.splitlines()] == [
        f"stop {DCGM}",
        f"stop {PERSISTENCED}",
        "enable MIG mode of GPU 0",
        "reset GPU 0",
        f"start {PERSISTENCED}",
        f"start {DCGM}",
    ]
    assert ampere.host.asked == [f"stop {DCGM}", f"stop {PERSISTENCED}", f"start {PERSISTENCED}", f"start {DCGM}"]
    assert ampere.host.running == {DCGM, PERSISTENCED}
    assert f"running again: {DCGM}, {PERSISTENCED}" in done.out
    assert ampere.host.mode() == ON


def test_services_run_again_also_where_the_change_failed(ampere: Machine) -> None:
    with SimState.edit(ampere.host.state) as state:
        state.gpus[0].held = True
    with ampere.host.service(DCGM, "nv-hostengine"):
        told = ampere.run("mode", "enable", "--reset", "--stop-services").ended(4).told

    assert "In use by another client" in told
    assert "restarting nvidia-dcgm is known to help" in told
    assert ampere.host.running == {DCGM}


def test_a_service_that_cannot_be_stopped_lets_the_others_run_again_and_changes_nothing(ampere: Machine) -> None:
    (ampere.host.units / f"refuse-stop-{PERSISTENCED}").touch()
    with ampere.host.service(DCGM, "nv-hostengine"), ampere.host.service(PERSISTENCED, "nvidia-persistenced"):
        told = ampere.run("mode", "enable", "--stop-services").ended(4).told

    assert "Access denied" in told
    assert ampere.host.running == {DCGM, PERSISTENCED}
    assert ampere.host.mode() == OFF


def test_a_service_that_does_not_start_again_is_told_and_tried_by_the_next_command(ampere: Machine) -> None:
    refuse = ampere.host.units / f"refuse-start-{DCGM}"
    refuse.touch()
    with ampere.host.service(DCGM, "nv-hostengine"):
        told = ampere.run("mode", "enable", "--reset", "--stop-services").ended(6).told
        assert "sudo systemctl start nvidia-dcgm" in told
        assert ampere.host.mode() == ON

        refuse.unlink()
        ampere.run("mode", "enable").ended(0)

    assert ampere.host.running == {DCGM}


@pytest.mark.parametrize("after", ["mode", "up", "down"])
def test_killed_with_services_stopped_they_run_again_with_the_next_command(ampere: Machine, after: str) -> None:
    (ampere.host.units / "linger").touch()
    with ampere.host.service(DCGM, "nv-hostengine"), ampere.host.service(PERSISTENCED, "nvidia-persistenced"):
        process = ampere.program.start("mode", "enable", "--stop-services")
        while not (ampere.host.units / "lingering").exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        time.sleep(1.2)  # the systemctl that it had called goes on by itself
        assert ampere.host.running == {PERSISTENCED}
        found = {f["id"]: f for f in json.loads(ampere.run("check", "--runtime", "process", "--json").out)["findings"]}
        assert DCGM in found["services-left-stopped"]["message"]
        assert ampere.host.asked == [f"stop {DCGM}"], "to look changes nothing"
        (ampere.host.units / "linger").unlink()

        match after:
            case "mode":
                ampere.run("mode", "disable").ended(0)
            case "up":
                ampere.program.plan(PLAN)
                ampere.run("up")
            case "down":
                with SimState.edit(ampere.host.state) as state:
                    state.gpus[0].current = state.gpus[0].pending = True
                ampere.program.plan(PLAN)
                (ampere.host.units / f"refuse-start-{DCGM}").touch()
                assert "could not be started again" in ampere.run("up").ended(0).told
                (ampere.host.units / f"refuse-start-{DCGM}").unlink()
                ampere.run("down", "--timeout", "0").ended(0)

    assert ampere.host.running == {DCGM, PERSISTENCED}
    assert ampere.host.asked.count(f"stop {DCGM}") == 1
    assert list(ampere.program.claims.glob("stopped-services-*")) == []


def test_a_reset_that_is_refused_with_no_process_to_be_found_names_the_kernel_module(ampere: Machine) -> None:
    ampere.run("mode", "enable").ended(4)
    with SimState.edit(ampere.host.state) as state:
        state.gpus[0].held = True
    (ampere.host.devices / "modules").write_text("nvidia_drm 118784 4 - Live 0x0000000000000000\n")

    told = ampere.run("mode", "enable", "--reset").ended(4).told

    assert "no process holds it, but the kernel module nvidia_drm (4 in use) is loaded" in told
    assert "sudo modprobe -r nvidia_drm" in told
    assert ampere.host.mode() == (False, True)


def test_instances_of_anybody_keep_the_mode_as_it_is(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "a100-40gb")
    with SimState.edit(machine.host.state) as state:
        state.add_foreign_instance(0, "3g.20gb", 0)

    told = machine.run("mode", "disable", "--reset").ended(5).told

    assert "3g.20gb at 0:4 (not ours)" in told
    assert machine.host.mode() == ON
    assert len(machine.program.instances()) == 1


def test_own_instances_are_named_with_their_run(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "a100-40gb")
    machine.program.plan(PLAN)
    machine.program.up()
    try:
        told = machine.run("mode", "disable").ended(5).told
        assert "one/a" in told
        assert "migctl down one" in told
    finally:
        machine.program.clean()
    machine.run("mode", "disable").ended(0)
    assert machine.host.mode() == OFF


def test_a_process_that_only_nvml_knows_counts_too(hopper: Machine) -> None:
    with SimState.edit(hopper.host.state) as state:
        state.gpus[0].processes.append(SimProcess(os.getpid()))

    assert f"pid {os.getpid()}" in hopper.run("mode", "enable").ended(5).told


def test_one_gpu_is_changed_and_it_has_to_be_named_where_several_would_do(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "a100-40gbx2:off,t4", activation="reset-required")

    assert "--gpu 0" in machine.run("mode", "enable").ended(2).told
    assert "one GPU at a time" in machine.run("mode", "enable", "--gpu", "all").ended(2).told
    assert "has no MIG" in machine.run("mode", "enable", "--gpu", "2").ended(4).told
    with machine.host.holding(0):
        machine.run("mode", "enable", "--gpu", "0000:11:00.0", "--reset").ended(0)
    assert [machine.host.mode(gpu) for gpu in (0, 1)] == [OFF, ON]


def test_without_rights_nothing_is_changed(hopper: Machine) -> None:
    with SimState.edit(hopper.host.state) as state:
        state.no_permission = True

    refused = hopper.run("mode", "enable", "--json").ended(4)

    assert json.loads(refused.out)["errors"][0]["id"] == "no-permission"
    assert hopper.host.mode() == OFF


def test_up_turns_the_mode_on_only_on_a_gpu_that_nobody_holds_and_leaves_nothing_outstanding(ampere: Machine) -> None:
    ampere.program.plan(PLAN)
    with ampere.host.holding(name="train-resnet"):
        assert "train-resnet" in ampere.run("up", "--enable-mig").ended(5).told
    with ampere.host.service(PERSISTENCED, "nvidia-persistenced"):
        told = ampere.run("up", "--enable-mig").ended(4).told
    assert "nvidia-persistenced" in told
    assert "migctl mode enable --gpu 0 --stop-services" in told
    assert "the wish is taken back" in told
    assert ampere.host.mode() == OFF


def test_a_driver_that_refuses_at_once_gets_the_same_names_and_advice(ampere: Machine) -> None:
    with SimState.edit(ampere.host.state) as state:
        state.in_use_by_code = True
    ampere.program.plan(PLAN)
    with ampere.host.service(PERSISTENCED, "nvidia-persistenced"):
        of_mode = ampere.run("mode", "enable", "--reset").ended(5).told
        of_up = ampere.run("up", "--enable-mig").ended(5).told
    assert all("nvidia-persistenced" in told for told in (of_mode, of_up))
    assert "add --stop-services" in of_mode
    assert "migctl mode enable --gpu 0 --stop-services" in of_up
    assert ampere.host.mode() == OFF


def _opened(pid: int, folder: Path) -> list[str]:
    links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    return [link for link in links if link.startswith(f"{folder}/nvidia")]
