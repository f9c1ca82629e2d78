"""Other controllers of the GPUs are found by what they leave on a machine: unit links, processes, sockets, Slurm's files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.core.views.findings import Level
from migctl.engine.others import controller_notices, other_findings
from migctl.engine.session import Session
from migctl.host.claims import Claim, write_claim
from migctl.host.controllers import find_controllers
from migctl.nvml.simstate import SimState

WANTS = "etc/systemd/system/multi-user.target.wants/nvidia-mig-manager.service"
SOCKET = "var/lib/kubelet/device-plugins/nvidia-gpu.sock"
SLURMD = "proc/71/comm"
NODES = "NodeName=gpu[01-04] Name=gpu Type=a100 File=/dev/nvidia0\n"

FOUND: Mapping[str, tuple[dict[str, str], str | None, str]] = {
    "nothing but other services": ({"proc/1/comm": "systemd\n", "proc/70/comm": "dockerd\n"}, None, ""),
    "mig-manager at boot": ({WANTS: ""}, "mig-manager", "it is enabled at boot"),
    "mig-manager running in a pod": ({"proc/9/comm": "nvidia-mig-mana\n"}, "mig-manager", "it runs"),
    "another service wanted at boot": ({WANTS.replace("mig-manager", "persistenced"): ""}, None, ""),
    "the device plugin": ({"proc/9/comm": "nvidia-device-p\n"}, "device-plugin", "nvidia-device-plugin runs"),
    "the plugin of the DRA driver": ({"proc/9/comm": "gpu-kubelet-plu\n"}, "device-plugin", "gpu-kubelet-plugin runs"),
    "its socket alone": ({SOCKET: ""}, "device-plugin", "nvidia-gpu.sock is there"),
    "kubelet without the plugin": ({"proc/9/comm": "kubelet\n", SOCKET.replace("nvidia-gpu", "kubelet"): ""}, None, ""),
    "slurmd with GPU GRES": ({SLURMD: "slurmd\n", "etc/slurm/gres.conf": NODES}, "slurm", "gres.conf has NodeName="),
    "slurmd that detects GPUs": (
        {SLURMD: "slurmd\n", "etc/slurm/gres.conf": "AutoDetect=nvml\n"},
        "slurm",
        "AutoDetect=nvml",
    ),
    "slurmd with a GresTypes line": (
        {SLURMD: "slurmd\n", "etc/slurm/slurm.conf": "GresTypes=license,gpu\n"},
        "slurm",
        "GresTypes=license,gpu",
    ),
    "slurmd without configuration of its own": (
        {SLURMD: "slurmd\n", "run/slurm/conf/gres.conf": "Name=gpu Count=2\n"},
        "slurm",
        "run/slurm/conf/gres.conf",
    ),
    "slurmd without GPUs": ({SLURMD: "slurmd\n", "etc/slurm/gres.conf": "#Name=gpu\nName=fpga Count=1\n"}, None, ""),
    "GPU GRES without slurmd": ({SLURMD: "slurmctld\n", "etc/slurm/gres.conf": NODES}, None, ""),
}


def grow(root: Path, files: Mapping[str, str]) -> None:
    (root / "proc").mkdir(parents=True)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("case", FOUND)
def test_a_controller_is_named_with_what_gives_it_away_and_a_next_step(case: str, tmp_path: Path) -> None:
    files, expected, words = FOUND[case]
    grow(tmp_path, files)

    found = find_controllers(tmp_path)

    assert [one.id for one in found] == ([expected] if expected else [])
    assert all(words in one.message and one.hint for one in found)


def test_several_controllers_are_all_named(tmp_path: Path) -> None:
    grow(tmp_path, {WANTS: "", SOCKET: "", SLURMD: "slurmd\n", "etc/slurm/gres.conf": NODES})

    assert [one.id for one in find_controllers(tmp_path)] == ["mig-manager", "device-plugin", "slurm"]


def session(tmp_path: Path, root: Path) -> Session:
    SimState.create(tmp_path / "gpus.json", "a100-40gb")
    names = {"MIGCTL_STATE_DIR": "state", "MIGCTL_RUN_DIR": "run", "MIGCTL_SIM_STATE": "gpus.json"}
    return Session(environ={key: str(tmp_path / name) for key, name in names.items()}, nvml="sim:a100-40gb", root=root)


def test_check_warns_of_a_controller_and_up_tells_it_too(tmp_path: Path) -> None:
    grow(tmp_path / "machine", {WANTS: ""})
    here = session(tmp_path, tmp_path / "machine")

    findings = list(other_findings(here, "boot-1"))

    assert [(f.id, f.level) for f in findings] == [("mig-manager", Level.WARNING)]
    assert [(n.message, n.hint) for n in controller_notices(here)] == [(findings[0].message, findings[0].hint)]


def test_this_machines_controllers_have_no_hand_in_simulated_gpus(tmp_path: Path) -> None:
    assert controller_notices(session(tmp_path, Path("/"))) == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write another user's claim")
def test_check_names_what_another_user_of_migctl_holds(tmp_path: Path) -> None:
    here = session(tmp_path, Path("/"))
    claim = Claim(
        uid=1234,
        user="alice",
        run="sweep",
        cpus=CpuSet.parse("4-7"),
        gpus={"GPU-1": (Placement(0, MemorySlices(1)), Placement(1, MemorySlices(1)))},
        boot_id="boot-1",
        store="",
    )
    write_claim(here.paths.run, claim)

    (finding,) = other_findings(here, "boot-1")

    assert (finding.id, finding.level) == ("other-user", Level.OK)
    assert finding.message.startswith("uid 1234 runs sweep here: 2 GPU instances, CPUs 4-7")
