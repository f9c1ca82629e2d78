"""Device files of simulated GPUs: ordinary files in a folder that processes open, so that holding a GPU is real there too.

Sessions of the simulated NVML hold them as well, as those of the real one do; a machine without such files has nothing to hold.
Everybody who has a GPU's file open is in the way of a change of its mode. In the way of a new GPU instance is who computes on the
whole GPU, and here that is who has opened the file for writing: where MIG is in use, monitors and nvidia-persistenced have it open
all the time, and instances are made beside them.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

MINORS: Final = "mig-minors"
"""The list of capabilities, which a real driver keeps in /proc/driver/nvidia-caps."""
_FIRST_MINOR: Final = 3
"""1 and 2 are mig/config and mig/monitor."""
_INSTANCES: Final = 15
_COMPUTE: Final = 8
"""Instances of a GPU, and compute instances of one of them, that the list has a line for."""


def make_devices(folder: Path, minors: Collection[int]) -> None:
    """Make the files of whole GPUs and the list of capabilities; those of instances come with the instances."""
    (folder / "nvidia-caps").mkdir(parents=True, exist_ok=True)
    lines = ["config 1", "monitor 2"]
    for gpu in sorted(minors):
        gpu_node(folder, gpu).touch()
        for gi in range(_INSTANCES):
            lines.append(f"gpu{gpu}/gi{gi}/access {_minor(gpu, gi)}")
            lines += [f"gpu{gpu}/gi{gi}/ci{ci}/access {_minor(gpu, gi, ci)}" for ci in range(_COMPUTE)]
    (folder / MINORS).write_text("\n".join(lines) + "\n", "ascii")


def move_gpu(folder: Path, old: int, minors: Collection[int]) -> None:
    """A GPU has another minor now, one of `minors`: its old file is gone."""
    gpu_node(folder, old).unlink(missing_ok=True)
    make_devices(folder, minors)


def gpu_node(folder: Path, gpu: int) -> Path:
    """The file of the whole GPU of this minor."""
    return folder / f"nvidia{gpu}"


def instance_node(folder: Path, gpu: int, gi_id: int, ci_id: int | None = None) -> Path:
    """The file of a GPU instance or a compute instance of the GPU of this minor."""
    return folder / "nvidia-caps" / f"nvidia-cap{_minor(gpu, gi_id, ci_id)}"


def open_nodes(folder: Path, minors: Collection[int]) -> list[int]:
    """Open every GPU's file as NVML does; one that is missing is left out, as the driver leaves out a GPU without its file."""
    return [os.open(node, os.O_RDONLY | os.O_CLOEXEC) for gpu in minors if (node := gpu_node(folder, gpu)).exists()]


def opened(paths: Collection[Path], *, writing: bool = False) -> bool:
    """Whether a process other than this one has one of the files open; only what this user may see counts.

    Args:
        writing: only those that may write count: here that tells who computes on the GPU from who only watches it.
    """
    wanted = {str(path.resolve()) for path in paths}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            for descriptor in (process / "fd").iterdir():
                if os.readlink(descriptor) in wanted and (not writing or _writable(descriptor)):  # noqa: PTH115 -- quicker
                    return True
        except OSError:
            continue  # ended meanwhile, or another user's
    return False


def _writable(descriptor: Path) -> bool:
    """From `flags:` in /proc/PID/fdinfo (proc(5)), which is octal."""
    text = (descriptor.parents[1] / "fdinfo" / descriptor.name).read_text()
    flags = next(line.split()[1] for line in text.splitlines() if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _minor(gpu: int, gi_id: int, ci_id: int | None = None) -> int:
    block = _FIRST_MINOR + (gpu * _INSTANCES + gi_id) * (_COMPUTE + 1)
    return block if ci_id is None else block + 1 + ci_id
