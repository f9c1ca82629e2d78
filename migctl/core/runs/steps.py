"""What to do, as data: the steps of one job, in order; different jobs' steps are independent of each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from migctl.core.runs.record import Action, Record
from migctl.core.words import counted


@dataclass(frozen=True, slots=True)
class Step:
    """One effect on one job's behalf."""

    job: str
    action: Action


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps of one job; each needs the one before it."""

    job: str
    steps: tuple[Step, ...]


def chain(job: str, *actions: Action) -> Chain:
    """The chain of these actions for one job."""
    return Chain(job, tuple(Step(job, action) for action in actions))


def sentence(step: Step, record: Record | None) -> str:
    """The step as a person would say it; `record` is what it begins with, unknown for a job that is being taken out."""
    what = f"{record.profile} at {record.placement}" if record is not None and record.profile else "its"
    container = "process" if record is not None and record.runtime == "process" else "container"
    match step.action:
        case Action.CREATE_GPU_INSTANCE:
            return f"{step.job}: make GPU instance {what}"
        case Action.CREATE_COMPUTE_INSTANCE:
            return f"{step.job}: make its compute instance"
        case Action.JOIN_INSTANCE:
            return f"{step.job}: share GPU instance {what}"
        case Action.CREATE_CONTAINER:
            return f"{step.job}: create its {container}" + (f" on CPUs {record.cpus}" if record is not None else "")
        case Action.START:
            return f"{step.job}: start" + (
                f" with {counted(record.num_workers, 'worker')}" if record is not None else ""
            )
        case Action.STOP:
            return f"{step.job}: stop"
        case Action.REMOVE_CONTAINER:
            return f"{step.job}: remove its {container}"
        case Action.LEAVE_INSTANCE:
            return f"{step.job}: leave its GPU instance to those that share it"
        case Action.DESTROY_COMPUTE_INSTANCE:
            return f"{step.job}: destroy its compute instance"
        case Action.DESTROY_GPU_INSTANCE:
            return f"{step.job}: destroy its GPU instance"
        case _:
            assert_never(step.action)
