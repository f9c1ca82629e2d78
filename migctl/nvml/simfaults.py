"""Errors of the simulator: those of pynvml's kind, and the failures planned for it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from migctl.nvml.codes import code_name
from migctl.nvml.simmodel import Fault

if TYPE_CHECKING:
    from migctl.nvml.simstate import StateFile


class NVMLError(Exception):
    """What pynvml raises: `value` is the return code."""

    def __init__(self, value: int) -> None:
        super().__init__(code_name(value))
        self.value = int(value)


def count(file: StateFile, call: str, gpu: int | None, *, after: bool) -> tuple[Fault, ...]:
    """Count this call for the failures planned for it; returns those due now. Writes only where one is planned.

    Args:
        after: the call had its effect: count it for the failures that come after one. Refused, it does not count for them.
    """

    def concerned(fault: Fault) -> bool:
        return fault.call == call and fault.after is after and not fault.spent and fault.gpu in (None, gpu)

    if not any(concerned(fault) for fault in file.read().faults):
        return ()
    due = []
    with file.edit() as state:
        for fault in filter(concerned, state.faults):
            fault.seen += 1
            if fault.due:
                due.append(replace(fault))
    return tuple(due)


def meet(due: Sequence[Fault]) -> None:
    """Let the failures happen that are due."""
    for fault in due:
        match fault.effect:
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                while True:
                    time.sleep(3600)
            case "error":
                raise NVMLError(fault.code)
            case "pretend" | "misplace":
                continue  # the call itself knows
