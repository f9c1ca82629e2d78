"""The one way to watch: readings with their verdicts, one a call, and nothing held open between two calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from migctl.core.diagnose import Patience, diagnose
from migctl.core.readings import Reading
from migctl.core.verdicts import Diagnosis


@dataclass(frozen=True, slots=True)
class Seen:
    """One moment: what was measured, and what is said of it."""

    reading: Reading
    diagnosis: Diagnosis


class Source(Protocol):
    """Where readings come from: the sampler, or stored ones."""

    def read(self) -> Reading | None:
        """What happened since the call before; `None` at the first one, which has nothing to compare with."""
        ...

    def close(self) -> None:
        """Give back what is open."""
        ...


class Watcher:
    """Reads when asked and remembers as much as verdicts need.

    Call `look` about once a second: `with Watcher(Sampler(session)) as watcher: seen = watcher.look()`. The caller sleeps; no
    thread of a watcher works between two calls but the one that reads the GPUs, which has closed NVML again before it sleeps.

    Args:
        source: usually `watch.sampler.Sampler`; the watcher closes it.
        patience: how long a state must last before it is said.
        keep: called with each moment: `watch.recorder.Recorder.add` stores it.
    """

    def __init__(
        self, source: Source, patience: Patience | None = None, keep: Sequence[Callable[[Seen], object]] = ()
    ) -> None:
        self._source = source
        self._patience = patience or Patience()
        self._keep = tuple(keep)
        self._past: deque[Reading] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    @property
    def past(self) -> tuple[Reading, ...]:
        """The readings that verdicts stand on, oldest first: enough for a sparkline."""
        return tuple(self._past)

    def look(self) -> Seen | None:
        """The present moment; `None` at the first call.

        A source of figures that fails blanks only its own figures; nothing is raised but `HostError` where the store, which
        says what runs, cannot be read.
        """
        reading = self._source.read()
        if reading is None:
            return None
        self._past.append(reading)
        while self._past[0].at_s < reading.at_s - self._patience.longest_s:
            self._past.popleft()
        seen = Seen(reading, diagnose(tuple(self._past), self._patience))
        for keep in self._keep:
            keep(seen)
        return seen
