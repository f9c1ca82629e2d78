"""`nvidia-smi --gpu-reset -i ID` of the simulated machine, a program of its own as the real one is: NVML cannot reset a GPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from migctl.nvml.simdevices import gpu_node, opened
from migctl.nvml.simholders import holders
from migctl.nvml.simmodel import SimGpu
from migctl.nvml.simstate import SimState


def reset(state_path: Path, pci: str) -> tuple[int, str]:
    """Reset the GPU at this PCI address; exit code and words as nvidia-smi's."""
    with SimState.edit(state_path) as state:
        gpu = next((gpu for gpu in state.gpus if gpu.pci == pci.lower()), None)
        if gpu is None:
            return 6, f"No devices were found at {pci}\n"
        name = f"0000{gpu.pci}".upper()
        if state.no_permission:
            return 4, f"Unable to reset GPU {name}: Insufficient Permissions\n"
        if gpu.activation == "not-supported":
            return 3, f"Resetting GPU {name} is not supported.\n"
        if _held(state, gpu):
            return 255, f"The following GPUs could not be reset:\n  GPU {name}: In use by another client\n"
        state.change_mode(gpu)
    return 0, f"GPU {name} was successfully reset.\nAll done.\n"


def _held(state: SimState, gpu: SimGpu) -> bool:
    uuids = [compute.mig_uuid for instance in gpu.instances for compute in instance.compute]
    nodes = [gpu_node(Path(state.devices), gpu.minor)] if state.devices else []
    return gpu.held or bool(gpu.living()) or any(holders(uuids).values()) or bool(nodes and opened(nodes))


def main(words: Sequence[str]) -> int:
    """STATE_FILE --gpu-reset -i PCI_ADDRESS."""
    match words:
        case [path, "--gpu-reset", "-i", pci]:
            code, text = reset(Path(path), pci)
            sys.stdout.write(text)
            return code
        case _:
            sys.stderr.write("usage: STATE_FILE --gpu-reset -i PCI_ADDRESS\n")
            return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
