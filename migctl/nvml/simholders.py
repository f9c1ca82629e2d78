"""Processes of this machine that were handed a simulated MIG device: they hold it, as CUDA programs hold a real one."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from migctl.core.runs.shim import shim_of

_HANDED_BY: Final = (b"CUDA_VISIBLE_DEVICES=", b"NVIDIA_VISIBLE_DEVICES=", b"MIGCTL_MIG_UUID=")
_PIECE: Final = 1 << 16


def holders(uuids: Collection[str]) -> Mapping[str, tuple[int, ...]]:
    """The living processes that were handed each of these MIG devices, by one walk through /proc.

    What counts is the environment that a process was started with: that of the job, not that of its shim. It is empty for a
    process that has ended and is not collected yet. A driver knows other users' processes as well; where their environment may not
    be read, their shim's command line tells. This very process does not count.
    """
    wanted = {uuid.encode(): uuid for uuid in uuids}
    found: dict[str, set[int]] = {uuid: set() for uuid in uuids}
    if wanted:
        own = os.getpid()
        for name in os.listdir("/proc"):  # noqa: PTH208 -- a walk at every removal: quicker
            if name.isdigit() and int(name) != own:
                try:
                    environment = _read(f"/proc/{name}/environ")
                except PermissionError:
                    for uuid, pids in _by_shim(name, found.keys()):
                        found[uuid] |= pids
                    continue
                for device in _handed(environment) & wanted.keys():
                    found[wanted[device]].add(int(name))
    return {uuid: tuple(sorted(pids)) for uuid, pids in found.items()}


def _handed(environment: bytes) -> set[bytes]:
    if b"MIG-" not in environment:
        return set()
    lines = (line for line in environment.split(b"\0") if line.startswith(_HANDED_BY))
    return {device.strip() for line in lines for device in line.partition(b"=")[2].split(b",")}


def _by_shim(pid: str, wanted: Collection[str]) -> Iterator[tuple[str, set[int]]]:
    """The device of the shim of another user's job, and the job's processes; the shim where they are not told."""
    job = shim_of(os.fsdecode(_read(f"/proc/{pid}/cmdline")).split("\0"))
    if job is not None and job.device in wanted:
        below = {int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()}
        yield job.device, below or {int(pid)}


def _read(path: str) -> bytes:
    """The whole file; nothing where the process has ended.

    Raises:
        PermissionError: it is another user's.
    """
    text = b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise
    except OSError:
        return b""
    try:
        while piece := os.read(descriptor, _PIECE):
            text += piece
            if len(piece) < _PIECE:
                break
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return text
