"""What a job that was just started really got, compared with what it was to get; what cannot be told is told as that."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.settle import UNVERIFIED
from migctl.runtimes import proc


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at one thing found."""

    ok: bool | None
    """`None` = could not be told."""
    reason: str = ""

    def told(self, what: str) -> str | None:
        """What to say of a running job whose `what` (`its CPUs`) could not be told; nothing where it could."""
        return f"{what} {UNVERIFIED}: {self.reason}" if self.ok is None else None


def cpus_of(pid: int, start_ticks: int | None, wanted: CpuSet) -> Found:
    """Whether the kernel lets a process run on exactly these CPUs; ok for one that has ended: nothing can be said, or need be."""
    seen = proc.cpus_allowed(pid)
    if seen is None or (start_ticks is not None and proc.start_ticks(pid) not in (None, start_ticks)):
        return Found(True)
    if isinstance(seen, proc.Unread):
        return Found(None, seen.reason)
    if seen == wanted:
        return Found(True)
    return Found(False, f"not on its CPUs: wanted {wanted}, the kernel allows {seen or 'none'}")
