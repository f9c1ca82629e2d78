"""Processes of this machine that were handed a simulated MIG device: they hold it, as CUDA programs hold a real one."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Final

_HANDED_BY: Final = (b"CUDA_VISIBLE_DEVICES=", b"NVIDIA_VISIBLE_DEVICES=", b"MIGCTL_MIG_UUID=")
_PIECE: Final = 1 << 16


def holders(uuids: Collection[str]) -> Mapping[str, tuple[int, ...]]:
    """The living processes that were handed each of these MIG devices, by one walk through /proc.

    What counts is the environment that a process was started with: that of the job, not that of its supervisor. It is empty for a
    process that has ended and is not collected yet. One that this user may not read does not count, nor does this very process.
    """
    wanted = {uuid.encode(): uuid for uuid in uuids}
    found: dict[str, list[int]] = {uuid: [] for uuid in uuids}
    if wanted:
        own = os.getpid()
        for name in os.listdir("/proc"):  # noqa: PTH208 -- a walk at every removal: quicker
            if name.isdigit() and int(name) != own:
                for device in _handed(name) & wanted.keys():
                    found[wanted[device]].append(int(name))
    return {uuid: tuple(sorted(pids)) for uuid, pids in found.items()}


def _handed(pid: str) -> set[bytes]:
    environment = b""
    try:
        descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return set()
    try:
        while piece := os.read(descriptor, _PIECE):
            environment += piece
            if len(piece) < _PIECE:
                break
    except OSError:
        return set()
    finally:
        os.close(descriptor)
    if b"MIG-" not in environment:
        return set()
    lines = (line for line in environment.split(b"\0") if line.startswith(_HANDED_BY))
    return {device.strip() for line in lines for device in line.partition(b"=")[2].split(b",")}
