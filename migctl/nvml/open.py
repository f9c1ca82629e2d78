"""Choosing what stands behind the driver: the real library, or the simulator where it was asked for by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from migctl.errors import PlanError
from migctl.nvml.driver import Driver


def open_driver(spec: str | None, *, sim_state: Path) -> Driver:
    """The driver to use in a `with` block.

    Args:
        spec: nothing for the machine's own NVIDIA driver, or `sim:BOARD[xN][:off],…` for simulated GPUs (`sim:a100-40gbx2,t4`).
            A GPU starts with MIG mode on, or off with `:off`; both only until the state file exists.
        sim_state: file of the simulated machine, created by the first change.

    Raises:
        PlanError: the spec is of neither form or names an unknown board.
        HostError: the state file cannot be used or has other boards.
    """
    if not spec:
        import pynvml

        return Driver(pynvml)
    kind, _, boards = spec.partition(":")
    if kind != "sim":
        raise PlanError(
            "nvml-spec", f"{spec!r} is no simulated machine", hint="sim:a100-40gb, or nothing for the real driver"
        )
    from migctl.nvml.models import parse_boards
    from migctl.nvml.simulator import Simulator

    slots = parse_boards(boards)
    simulator = Simulator(slots, sim_state)
    grouped = ((key, len(list(group))) for key, group in groupby(slot.board.key for slot in slots))
    label = ", ".join(key if count == 1 else f"{key} x{count}" for key, count in grouped)
    return Driver(simulator, simulated=label, boot_id=simulator.boot_id)


@contextmanager
def released(driver: Driver) -> Iterator[None]:
    """Close NVML inside an open driver's block: whoever only waits keeps no GPU open, and nobody from changing it."""
    driver.__exit__()
    try:
        yield
    finally:
        driver.__enter__()


def simulated_devices(sim_state: Path) -> Path | None:
    """The folder of a simulated machine's device files, where it has any."""
    from migctl.nvml.simstate import SimState

    folder = SimState.load(sim_state).devices if sim_state.exists() else ""
    return Path(folder) if folder else None


def simulated_reset(sim_state: Path) -> tuple[str, ...]:
    """The program that resets a simulated GPU, with nvidia-smi's arguments to follow."""
    return (sys.executable, "-m", "migctl.nvml.simreset", str(sim_state))
