"""A simulated machine with device files that real processes hold, and a service manager of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from migctl.nvml.simdevices import gpu_node, instance_node
from migctl.nvml.simmodel import Activation
from migctl.nvml.simstate import SimState

_SYSTEMCTL = """#!/bin/sh
# A service manager of three verbs: a unit runs while its file, with the pid of its process in it, is there.
units=${0%/bin/systemctl}/units
case $1 in
is-active)
    shift
    for unit; do if [ -e "$units/$unit" ]; then echo active; else echo inactive; fi; done
    ;;
stop)
    echo "stop $2" >> "$units.log"
    if [ -e "$units/refuse-stop-$2" ]; then echo "Failed to stop $2: Access denied"; exit 1; fi
    read -r pid < "$units/$2" && kill "$pid" && while [ -e "/proc/$pid/fd/3" ]; do /bin/sleep 0.05; done
    /bin/rm -f "$units/$2"
    if [ -e "$units/linger" ]; then : > "$units/lingering"; /bin/sleep 1; fi
    ;;
start)
    echo "start $2" >> "$units.log"
    if [ -e "$units/refuse-start-$2" ]; then echo "Failed to start $2"; exit 1; fi
    : > "$units/$2"
    ;;
esac
"""


class SimulatedHost:
    """The simulated GPUs' machine: its state file, /dev and services."""

    def __init__(self, state: Path, boards: str = "a100-40gb:off", activation: Activation = "immediate") -> None:
        self.state = state
        self.devices = state.with_name("dev")
        machine = SimState.create(state, boards)
        for gpu in machine.gpus:
            gpu.activation = activation
        machine.make_devices(self.devices)
        machine.save(state)
        self.units = self.devices / "units"
        self.units.mkdir()
        program = self.devices / "bin/systemctl"
        program.parent.mkdir()
        program.write_text(_SYSTEMCTL)
        program.chmod(0o755)

    def mode(self, gpu: int = 0) -> tuple[bool, bool]:
        """MIG mode of a GPU as its state file has it: current, pending."""
        found = SimState.load(self.state).gpus[gpu]
        return found.current, found.pending

    @property
    def asked(self) -> list[str]:
        """What the service manager was told, in order."""
        log = self.devices / "units.log"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def running(self) -> set[str]:
        """The services that run."""
        return {
            path.name
            for path in self.units.iterdir()
            if path.suffix == ".service" and not path.name.startswith("refuse-")
        }

    @contextmanager
    def holding(
        self, gpu: int = 0, *, name: str = "trainer", instance: int | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A real process of this name that has the device file of a GPU, or of an instance of it, open."""
        node = gpu_node(self.devices, gpu) if instance is None else instance_node(self.devices, gpu, instance)
        node.touch()
        with subprocess.Popen(["bash", "-c", f'exec -a {name} sleep 600 3<"$0"', str(node)]) as process:
            try:
                descriptor = Path(f"/proc/{process.pid}/fd/3")
                cmdline = Path(f"/proc/{process.pid}/cmdline")
                while not (descriptor.is_symlink() and cmdline.read_bytes().startswith(name.encode() + b"\0")):
                    time.sleep(0.01)
                yield process
            finally:
                process.kill()

    @contextmanager
    def service(self, unit: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """A running service whose process holds every GPU's file that it needs."""
        with self.holding(name=name) as process:
            (self.units / unit).write_text(f"{process.pid}\n")
            yield process
