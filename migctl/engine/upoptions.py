"""What the command line says about an `up`."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.runs.record import JobState

_AGAIN = frozenset({JobState.FAILED, JobState.STOPPED, JobState.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What was asked for."""

    replacing: bool = False
    retry: bool = False
    resume: bool = False
    """Run lost jobs again, whatever took them."""
    jobs: frozenset[str] = frozenset()
    """Run these again, however they ended."""
    wait_for_s: float = 0.0
    """How long to wait for a lock that somebody else holds."""

    @property
    def again(self) -> frozenset[JobState]:
        """How jobs must have ended to be run once more."""
        if self.retry:
            return _AGAIN
        return frozenset({JobState.LOST}) if self.resume else frozenset()
