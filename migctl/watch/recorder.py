"""Keeps what is seen of runs in their folders: every ten seconds a sample, and verdicts as they begin and end."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from migctl.core.seeing.readings import Reading
from migctl.core.seeing.tracks import FINEST_S, Said, changes, merged, sample
from migctl.core.seeing.verdicts import Verdict
from migctl.errors import MigctlError
from migctl.store.samples import TrackWriter
from migctl.watch.watcher import Seen


@dataclass(slots=True)
class _Run:
    """What of one run is not written yet."""

    writer: TrackWriter
    waiting: list[Reading] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    verdicts: dict[str, dict[str, Verdict]] = field(default_factory=dict)
    """Job or GPU → kind → what is said of it now."""
    last: dict[str, tuple[Verdict, ...]] = field(default_factory=dict)
    """The same as it was handed over: what is judged once in five seconds is mostly the very same."""


class Recorder:
    """Give its `add` to a `Watcher`. A disk that takes nothing keeps nobody from watching: `trouble` says so once.

    Args:
        state: the state directory of whoever owns the runs.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._runs: dict[str, _Run] = {}
        self.trouble: MigctlError | None = None
        """Why the last write failed."""

    def add(self, seen: Seen) -> None:
        """Take over one moment; write the runs whose ten seconds are over."""
        reading = seen.reading
        for name in dict.fromkeys(job.run for job in reading.jobs):
            run = self._runs.setdefault(name, _Run(TrackWriter(self._state, name)))
            self._note(run, name, seen)
            run.waiting.append(reading)
        for name, run in self._runs.items():
            if run.waiting and int(run.waiting[0].at_s // FINEST_S) != int(reading.at_s // FINEST_S):
                self._write(name, run)

    def close(self) -> None:
        """Write what is left."""
        for name, run in self._runs.items():
            self._write(name, run)
        self._runs.clear()

    def _note(self, run: _Run, name: str, seen: Seen) -> None:
        at_s = seen.reading.at_s
        for job in seen.reading.jobs:
            if job.run == name:
                self._say(run, at_s, job.job, "", seen.diagnosis.jobs.get(job.name, ()))
        used = {job.instance.gpu_uuid for job in seen.reading.jobs if job.run == name and job.instance is not None}
        for uuid in used:
            self._say(run, at_s, "", uuid, seen.diagnosis.gpus.get(uuid, ()))

    @staticmethod
    def _say(run: _Run, at_s: float, job: str, gpu: str, verdicts: tuple[Verdict, ...]) -> None:
        if run.last.get(job or gpu, ()) is verdicts:
            return
        run.last[job or gpu] = verdicts
        now = {verdict.kind.value: verdict for verdict in verdicts}
        begun, ended = changes(run.verdicts.get(job or gpu, {}), now)
        for over, told in ((False, begun), (True, ended)):
            run.said += [
                Said(
                    at_s=at_s,
                    job=job,
                    gpu=gpu,
                    kind=verdict.kind.value,
                    title=verdict.title,
                    message=verdict.message,
                    hint=verdict.hint,
                    over=over,
                )
                for verdict in told
            ]
        run.verdicts[job or gpu] = now

    def _write(self, name: str, run: _Run) -> None:
        waiting, said = run.waiting, run.said
        run.waiting, run.said = [], []
        if not waiting and not said:
            return
        try:
            run.writer.add([merged([sample(reading, name) for reading in waiting])] if waiting else [], said)
            self.trouble = None
        except MigctlError as error:
            self.trouble = error
