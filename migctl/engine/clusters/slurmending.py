"""Ends jobs on Slurm as their graces say: SIGTERM, their time to save, and only then what Slurm itself does to be rid of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

from migctl.core.cluster.clusterrun import ClusterRun
from migctl.core.cluster.slurmstate import Told, state_of
from migctl.core.runs.record import JobState
from migctl.errors import PartlyApplied
from migctl.slurm.client import Slurm
from migctl.slurm.tellings import Tellings

_PAUSE_S: Final = 0.2
_KILL_S: Final = 90.0
"""After Slurm was asked to be rid of a job: the site's KillWait (30 s by default), and what slurmd needs to clean up."""

Name = tuple[str, int | None]


class Ending:
    """One ending of some of a run's jobs.

    Args:
        slurm: is asked to end them.
        tellings: by which it is seen that they have.
        run: whose they are.
        own: what Slurm shows of the run now.
        grace_s: between SIGTERM and Slurm's own end; `None`: each job's own.
        cancel: set by a signal: no more grace.
    """

    def __init__(
        self,
        slurm: Slurm,
        tellings: Tellings,
        run: ClusterRun,
        own: Callable[[], Iterable[Told]],
        *,
        grace_s: float | None,
        cancel: threading.Event,
    ) -> None:
        self._slurm = slurm
        self._tellings = tellings
        self._run = run
        self._own = own
        self._grace_s = grace_s
        self._cancel = cancel

    def end(self, chosen: Callable[[Told], bool]) -> None:
        """Return when none of the chosen jobs is left at Slurm.

        Raises:
            PartlyApplied: some are, after all the time that Slurm needs.
        """
        alive = [told for told in self._own() if chosen(told) and _is_alive(told)]
        running = {_name(told) for told in alive if _has_begun(told)}
        self._slurm.cancel(_ids(_name(told) for told in alive if not _has_begun(told)))
        if running:
            self._slurm.terminate(_ids(running))
            self._slurm.cancel(_ids(self._after_grace(running)))
        self._await_end(chosen)

    def _after_grace(self, running: Collection[Name]) -> set[Name]:
        """Those that have not ended in their time; the others may go on completing."""
        graces = {(job.unit, job.index): job.grace_s for job in self._run.jobs}
        begin = time.monotonic()
        left, late = set(running), set[Name]()
        while left and not self._cancel.is_set():
            _, ended = self._tellings.read()
            left = {name for name in left if _id(name) not in ended}
            passed = time.monotonic() - begin
            over = {
                name for name in left if passed >= (graces.get(name, 0.0) if self._grace_s is None else self._grace_s)
            }
            late |= over
            left -= over
            if left:
                self._cancel.wait(_PAUSE_S)
        return late | left

    def _await_end(self, chosen: Callable[[Told], bool]) -> None:
        deadline = time.monotonic() + _KILL_S
        while True:
            left = [told for told in self._own() if chosen(told) and _is_alive(told)]
            if not left:
                return
            if time.monotonic() > deadline:
                raise PartlyApplied(
                    "not-all-ended",
                    f"Slurm has not ended {', '.join(_id(_name(told)) for told in left[:8])}",
                    where=f"run {self._run.run}",
                    hint=f"squeue --jobs {left[0].unit} tells why; then migctl down {self._run.run}",
                )
            # One that was queued again, or that began between the look and the signal.
            self._slurm.cancel(_ids(_name(told) for told in left if not _has_begun(told)))
            time.sleep(_PAUSE_S)


def _name(told: Told) -> Name:
    return told.unit, told.index


def _is_alive(told: Told) -> bool:
    state = state_of(told.state)
    return state is None or not state.ended


def _has_begun(told: Told) -> bool:
    return state_of(told.state) is not JobState.QUEUED


def _id(name: Name) -> str:
    unit, index = name
    return unit if index is None else f"{unit}_{index}"


def _ids(names: Iterable[Name]) -> list[str]:
    return sorted(_id(name) for name in names)
