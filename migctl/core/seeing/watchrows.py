"""The rows of `status --watch`: every job with its figures and verdicts, as far as it is wanted, in the order that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from migctl.core.runs.record import JobState
from migctl.core.seeing.readings import JobReading
from migctl.core.seeing.verdicts import Kind, Level, Verdict
from migctl.core.views.status import JobView, RunView
from migctl.core.views.watch import Sort, WatchView

_STATES = (
    JobState.RUNNING,
    JobState.STARTING,
    JobState.FAILED,
    JobState.LOST,
    JobState.STOPPED,
    JobState.QUEUED,
    JobState.SUCCEEDED,
)
_URGENCY = (Level.ALARM, Level.ADVICE, Level.STATE)


@dataclass(frozen=True, slots=True)
class Row:
    """One job."""

    run: RunView
    job: JobView
    reading: JobReading | None = None
    verdicts: tuple[Verdict, ...] = ()

    @property
    def name(self) -> str:
        """`run/job`."""
        return f"{self.run.name}/{self.job.name}"

    @property
    def running(self) -> bool:
        """Whether figures are to be expected of it."""
        return self.job.state in (JobState.RUNNING, JobState.STARTING)

    @property
    def words(self) -> str:
        """A few words on how it does: its first verdict, or how it ended, or what it waits for."""
        if self.running:
            first = next((v for v in self.verdicts if v.kind is not Kind.UNKNOWN), None)
            if first is not None:
                return first.title
            return self.job.reason or (self.verdicts[0].title if self.verdicts else "")
        code = f" ({self.job.exit_code})" if self.job.exit_code else ""
        return f"{self.job.state.value}{code}" + (f": {self.job.reason}" if self.job.reason else "")

    @property
    def level(self) -> Level:
        """The most urgent of its verdicts; of a job that has gone wrong, an alarm."""
        if self.job.state in (JobState.FAILED, JobState.LOST):
            return Level.ALARM
        levels = {verdict.level for verdict in self.verdicts}
        return next((level for level in _URGENCY if level in levels), Level.STATE)


def rows(view: WatchView) -> tuple[Row, ...]:
    """The jobs that are to be shown, in their order."""
    figures = {one.name: one for one in view.reading.jobs} if view.reading is not None else {}
    found = [
        Row(run, job, figures.get(name := f"{run.name}/{job.name}"), view.diagnosis.jobs.get(name, ()))
        for run in view.status.runs
        for job in run.jobs
    ]
    wanted = view.wishes.pattern.casefold()
    if wanted:
        found = [row for row in found if wanted in f"{row.name} {row.job.state.value} {row.words}".casefold()]
    return tuple(sorted(found, key=_KEYS[view.wishes.sort]))


def selected(shown: Sequence[Row], name: str) -> int | None:
    """At which place the job of this name stands; `None` where none is selected or it is not shown."""
    return next((n for n, row in enumerate(shown) if row.name == name), None) if name else None


def moved(shown: Sequence[Row], name: str, steps: int) -> str:
    """The name of the job that is selected after so many steps down; from none, the first or the last."""
    if not shown:
        return ""
    place = selected(shown, name)
    if place is None:
        return shown[0 if steps >= 0 else -1].name
    return shown[max(0, min(len(shown) - 1, place + steps))].name


def _most(figure: Callable[[JobReading], float | None]) -> Callable[[Row], tuple[bool, float]]:
    """The highest figure first; jobs of which it is not known last."""

    def key(row: Row) -> tuple[bool, float]:
        value = figure(row.reading) if row.reading is not None else None
        return value is None, -(value or 0.0)

    return key


def _gpu(reading: JobReading) -> float | None:
    return reading.instance.activity_share if reading.instance is not None else None


def _memory(reading: JobReading) -> float | None:
    return reading.instance.memory_used_mib if reading.instance is not None else None


_KEYS: dict[Sort, Callable[[Row], tuple[object, ...]]] = {
    Sort.PLAN: lambda row: (_STATES.index(row.job.state),),
    Sort.URGENCY: lambda row: (_URGENCY.index(row.level), _STATES.index(row.job.state)),
    Sort.CPU: _most(lambda reading: reading.own_cpus),
    Sort.WAIT: _most(lambda reading: reading.wait_share),
    Sort.GPU: _most(_gpu),
    Sort.MEMORY: _most(_memory),
    Sort.NAME: lambda row: (row.name,),
}
