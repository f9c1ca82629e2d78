"""What to do, as data: the steps of one job, in order; different jobs' steps are independent of each other."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.record import Action


@dataclass(frozen=True, slots=True)
class Step:
    """One effect on one job's behalf."""

    job: str
    action: Action

    def __str__(self) -> str:
        return f"{self.job}: {self.action.value}"


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps of one job; each needs the one before it."""

    job: str
    steps: tuple[Step, ...]


def chain(job: str, *actions: Action) -> Chain:
    """The chain of these actions for one job."""
    return Chain(job, tuple(Step(job, action) for action in actions))
