"""The one way to watch: readings with their verdicts, one a call, and nothing held open between two calls."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

from migctl.core.seeing.diagnose import Patience, diagnose_gpu, diagnose_job
from migctl.core.seeing.readings import GpuReading, Reading
from migctl.core.seeing.verdicts import Diagnosis, Verdict
from migctl.core.seeing.windows import Moment

_GPU_LOOKS: Final = 120


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
        self._jobs: dict[str, deque[Moment]] = {}
        self._gpus: dict[str, deque[GpuReading]] = {}
        self._said: dict[str, tuple[float, tuple[Verdict, ...]]] = {}

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
        seen = Seen(reading, self._diagnosis(reading))
        for keep in self._keep:
            keep(seen)
        return seen

    def _diagnosis(self, reading: Reading) -> Diagnosis:
        oldest_s = reading.at_s - self._patience.longest_s
        there = {job.name: job for job in reading.jobs}
        for gone in self._jobs.keys() - there.keys():
            del self._jobs[gone]
            self._said.pop(gone, None)
        due = sorted(there, key=lambda name: self._said.get(name, (-1.0, ()))[0])
        turn = math.ceil(len(due) * min(1.0, reading.seconds / self._patience.between_s))
        for name, job in there.items():
            past = self._jobs.setdefault(name, deque())
            past.append(Moment(reading.at_s, reading.seconds, job))
            while past[0].at_s < oldest_s:
                past.popleft()
        for name in due[:turn]:
            self._said[name] = (reading.at_s, diagnose_job(tuple(self._jobs[name]), self._patience))
        gpus: dict[str, tuple[Verdict, ...]] = {}
        for gpu in reading.gpus:
            looks = self._gpus.setdefault(gpu.uuid, deque(maxlen=_GPU_LOOKS))
            if not looks or looks[-1].at_s != gpu.at_s:
                looks.append(gpu)
            gpus[gpu.uuid] = diagnose_gpu(tuple(looks), self._patience, reading.at_s)
        return Diagnosis(jobs={name: self._said.get(name, (0.0, ()))[1] for name in there}, gpus=gpus)
