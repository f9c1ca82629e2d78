"""A process that not even SIGKILL ends: how long that may take until it counts as one, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from migctl.errors import Busy
from migctl.runtimes import proc

KILL_DEADLINE_S: Final = 30.0
"""How long a killed process may take to die before it counts as stuck in the kernel."""
STUCK: Final = "process-stuck"
STUCK_HINT: Final = (
    "it ends when the device or file server it waits for answers, or at a reboot; then migctl down again"
)


def process_stuck(pids: Iterable[int | None], whose: str, where: str, *, local: bool = True) -> Busy:
    """The error for what does not die.

    Args:
        pids: the processes that should have, the most likely first; the first that still lives is named.
        whose: what they belong to: ` of job a`.
        local: they are this machine's.
    """
    known = [pid for pid in pids if pid is not None]
    pid = next((pid for pid in known if local and proc.is_alive(pid, None)), known[0] if known else None)
    return Busy(
        STUCK,
        f"process {pid}{whose} does not die of SIGKILL: {proc.why_stuck(pid if local else None)}",
        where=where,
        hint=STUCK_HINT,
        data={"pid": pid},
    )
