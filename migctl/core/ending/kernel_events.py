"""What the kernel's log says about jobs: processes killed for lack of memory, and the GPU driver's Xid reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class OomKill:
    """A process that the kernel killed for lack of memory.

    mm/oom_kill.c: `oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/a,task_memcg=/a/b,task=python,pid=7,uid=0`.
    """

    at_s: float
    """Seconds since boot."""
    constraint: str
    """`NONE`: the whole machine; `MEMCG`: a cgroup's limit; `CPUSET`, `MEMORY_POLICY`: its memory nodes."""
    limit_cgroup: str
    """Whose limit it was; nothing for the machine's."""
    cgroup: str
    """Of the killed process."""
    pid: int
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """A report of the GPU driver: `NVRM: Xid (PCI:0000:3b:00): 94, pid=1234, name=python, …` (NVIDIA, "Xid Errors")."""

    at_s: float
    """Seconds since boot."""
    pci: str
    """Bus address as sysfs writes it, without the function: `0000:3b:00`."""
    number: int
    pid: int | None


KernelEvent = OomKill | Xid

_OOM: Final = re.compile(
    r"oom-kill:constraint=CONSTRAINT_(?P<constraint>\w+),(?P<rest>.*?)task=(?P<process>.*),pid=(?P<pid>\d+),uid=\d+"
)
_XID: Final = re.compile(
    r"NVRM: Xid \(PCI:(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\S*\): (?P<number>\d+)(?:, pid='?(?P<pid>\d+)'?)?"
)
_PREFIX: Final = re.compile(r"\d+,\d+,(?P<us>\d+),[^;]*;(?P<text>.*)", re.DOTALL)
"""A record of /dev/kmsg: `priority,sequence,microseconds since boot,flags;text` (Documentation/ABI/testing/dev-kmsg)."""

GPU_FAULTS: Final = {
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    95: "uncontained ECC error",
    119: "the GPU's system processor does not answer",
    120: "the GPU's system processor reported an error",
    140: "unrecovered ECC error",
}
"""Xids that concern the whole GPU (NVIDIA, "Xid Errors", Xid Catalog); 94 is one contained to a process."""
CONTAINED: Final = 94
PROGRAM_FAULTS: Final = {
    13: "graphics engine exception: the program accessed what it must not, or the GPU is faulty",
    31: "memory page fault: the program accessed an address that is not its own",
    43: "the program's own fault stopped its GPU work",
}
"""Xids that a program causes itself."""


def kernel_events(records: Iterable[str]) -> Iterator[KernelEvent]:
    """Those among the records of /dev/kmsg that concern jobs."""
    for record in records:
        found = _PREFIX.match(record)
        if found is None:
            continue
        at_s, text = int(found["us"]) / 1e6, found["text"]
        if (oom := _OOM.search(text)) is not None:
            fields = dict(part.partition("=")[::2] for part in oom["rest"].split(",") if "=" in part)
            yield OomKill(
                at_s=at_s,
                constraint=oom["constraint"],
                limit_cgroup=fields.get("oom_memcg", ""),
                cgroup=fields.get("task_memcg", ""),
                pid=int(oom["pid"]),
                process=oom["process"],
            )
        elif (xid := _XID.search(text)) is not None:
            domain, _, place = xid["pci"].lower().partition(":")
            yield Xid(
                at_s=at_s,
                pci=f"{int(domain, 16):04x}:{place}",
                number=int(xid["number"]),
                pid=int(xid["pid"]) if xid["pid"] else None,
            )
