"""Who else on this machine changes GPU instances or hands GPUs out: services found by their files and processes, read only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from migctl.core.others.controllers import Controller

_COMM_LENGTH: Final = 15
"""Characters of a process's name in /proc/PID/comm (proc_pid_comm(5))."""
_MIG_MANAGER: Final = "nvidia-mig-manager"
_DEVICE_PLUGINS: Final = ("nvidia-device-plugin", "gpu-kubelet-plugin")
"""NVIDIA/k8s-device-plugin, and the kubelet plugin of NVIDIA's DRA driver."""
_PLUGIN_SOCKETS: Final = "var/lib/kubelet/device-plugins"
_SLURM: Final = ("etc/slurm", "etc/slurm-llnl", "usr/local/etc/slurm", "run/slurm/conf")
"""Where packages and `make install` put it, and where slurmd keeps what it was sent (slurm.conf(5), "configless")."""
_GPU_GRES: Final = re.compile(
    r"^\s*(?:NodeName=\S+\s+)?(?:Name=gpu\b|AutoDetect=(?:nvml|nvidia)\b)", re.IGNORECASE | re.MULTILINE
)
_GPU_TYPES: Final = re.compile(r"^\s*GresTypes=(?:[^#\n]*,)?gpu\b", re.IGNORECASE | re.MULTILINE)


def find_controllers(root: Path = Path("/")) -> tuple[Controller, ...]:
    """The other controllers of this machine's GPUs.

    Args:
        root: where /etc, /proc and the rest lie.
    """
    running = frozenset(_programs(root / "proc"))
    return (*_mig_manager(root, running), *_device_plugin(root, running), *_slurm(root, running))


def _programs(proc: Path) -> Iterator[str]:
    for folder in proc.glob("[0-9]*"):
        try:
            yield (folder / "comm").read_text("utf-8", "replace").strip()
        except OSError:
            continue  # it has ended


def _runs(program: str, running: frozenset[str]) -> bool:
    return program[:_COMM_LENGTH] in running


def _mig_manager(root: Path, running: frozenset[str]) -> Iterator[Controller]:
    unit = f"{_MIG_MANAGER}.service"
    enabled = any(link.is_symlink() or link.exists() for link in root.glob(f"etc/systemd/system/*.wants/{unit}"))
    runs = _runs(_MIG_MANAGER, running)
    if enabled or runs:
        how = " and ".join(["it runs"] * runs + ["it is enabled at boot"] * enabled)
        yield Controller(
            id="mig-manager",
            message=f"{unit} is here ({how}): when it applies its configuration it removes all GPU instances, migctl's too",
            hint=f"sudo systemctl disable --now {unit}, or let it make the instances and name them in the plan: instance: MIG-…",
        )


def _device_plugin(root: Path, running: frozenset[str]) -> Iterator[Controller]:
    program = next((program for program in _DEVICE_PLUGINS if _runs(program, running)), None)
    socket = None
    try:
        socket = next((root / _PLUGIN_SOCKETS).glob("nvidia*.sock"), None)
    except OSError:
        pass  # kubelet's folder is root's
    if program is not None or socket is not None:
        what = f"{program} runs" if program is not None else f"{socket} is there"
        yield Controller(
            id="device-plugin",
            message=f"Kubernetes hands out GPUs of this machine ({what}): it may give a pod what migctl uses, and does not see "
            "instances that come and go",
            hint="keep this node's GPUs out of Kubernetes, or use only instances that it does not hand out: instance: MIG-…",
        )


def _slurm(root: Path, running: frozenset[str]) -> Iterator[Controller]:
    if not _runs("slurmd", running):
        return
    for folder in _SLURM:
        for name, pattern in (("gres.conf", _GPU_GRES), ("slurm.conf", _GPU_TYPES)):
            path = root / folder / name
            try:
                found = pattern.search(path.read_text("utf-8", "replace"))
            except OSError:
                continue
            if found is not None:
                yield Controller(
                    id="slurm",
                    message=f"Slurm hands out GPUs of this machine (slurmd runs, {path} has {found[0].strip()}): its jobs do not "
                    "know of migctl's, and slurmd does not start on a GPU in MIG mode without instances",
                    hint="run migctl inside a Slurm job, drain the node, or use only instances that Slurm does not hand out: "
                    "instance: MIG-…",
                )
                return
