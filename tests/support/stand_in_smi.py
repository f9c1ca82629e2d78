"""`nvidia-smi -L` and `nvidia-smi mig` over the simulated GPUs, for scripts that call it: STATE BOARD, then nvidia-smi's words.

Forms and texts are those of the MIG user guide's examples; what the driver refuses ends with its exit code, as there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from migctl.core.gpu.mig import Gpu, Placement
from migctl.errors import MigctlError
from migctl.nvml.driver import Driver
from migctl.nvml.open import open_driver


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main(state: str, board: str, words: list[str]) -> int:
    """One call of nvidia-smi; the exit code."""
    with open_driver(f"sim:{board}", sim_state=Path(state)) as driver:
        if words == ["-L"]:
            _list(driver)
            return 0
        assert words[0] == "mig", words
        gpu = _gpu(driver, words[words.index("-i") + 1])
        try:
            return _change(driver, gpu, words)
        except MigctlError as error:
            say(f"Failed: {error.message}")
            return 19


def _list(driver: Driver) -> None:
    for gpu in driver.gpus():
        say(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})")
        devices = [(i, ci) for i in gpu.instances for ci in i.compute_instances]
        for number, (instance, ci) in enumerate(devices):
            say(f"  MIG {instance.profile:<11} Device {number:>2}: (UUID: {ci.mig_uuid})")


def _gpu(driver: Driver, word: str) -> Gpu:
    return next(gpu for gpu in driver.gpus() if word in (str(gpu.index), gpu.uuid))


def _change(driver: Driver, gpu: Gpu, words: list[str]) -> int:
    if "-cgi" in words:
        for spelt in words[words.index("-cgi") + 1].split(","):
            number, _, start = spelt.partition(":")
            profile = next(p for p in gpu.profiles if str(p.id) == number)
            placement = Placement(int(start), profile.memory_slices)
            gi_id = driver.create_gpu_instance(gpu.uuid, profile, placement)
            made = f"GPU instance ID {gi_id:>2} on GPU {gpu.index:>2}"
            say(f"Successfully created {made} using profile MIG {profile.name} (ID {number})")
            if "-C" in words:
                ci = driver.create_compute_instance(gpu.uuid, gi_id)
                say(
                    f"Successfully created compute instance ID {ci.ci_id:>2} on GPU {gpu.index:>2} GPU instance ID {gi_id:>2}"
                )
        return 0
    ids = [int(word) for word in words[words.index("-gi") + 1].split(",")]
    for instance in [i for i in gpu.instances if i.gi_id in ids]:
        if "-dci" in words:
            for ci in instance.compute_instances:
                driver.destroy_compute_instance(gpu.uuid, instance.gi_id, ci.ci_id)
        else:
            driver.destroy_gpu_instance(gpu.uuid, instance.gi_id)
        say(f"Successfully destroyed from GPU {gpu.index:>2} GPU instance ID {instance.gi_id:>2}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
