"""Measures all running jobs, the logical CPUs and the GPUs, a moment at a time; a source that fails blanks only its own figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from migctl.core.choices import RuntimeName
from migctl.core.cpu.pinning import Finding, pinning
from migctl.core.seeing.bottleneck import CROWD
from migctl.core.seeing.counters import CpuCounters, JobCounters
from migctl.core.seeing.rates import About, QueueRates, cpus_reading, job_reading, queue_rates
from migctl.core.seeing.readings import GpuReading, InstanceReading, JobReading, Reading, Stranger
from migctl.engine.session import Session
from migctl.host.cpumeter import CpuMeter
from migctl.host.jobmeter import JobMeter
from migctl.host.strangers import Strangers
from migctl.watch.gpuwatch import EVERY_S, GpuWatch
from migctl.watch.progress import NOT_TOLD, SPAN_S, EngineLog, LogFile, Pace, Progressing
from migctl.watch.roster import Watched, running

_ROSTER_EVERY_S: Final = 5.0
_MANY: Final = 16
"""Jobs from which the records are read in proportion less often: a job that ends is noticed at once all the same. From as many on,
pins and reports are looked at half as often."""
_PINS_EVERY: Final = 8
"""Readings between two looks at where all threads of a job may run; with something wrong, every time."""
_PACE_EVERY: Final = 2
"""Readings between two looks for a report of the training."""
_STRANGERS_FIRST_S: Final = 1.0
_STRANGERS_EVERY_S: Final = 5.0
"""Between the first two looks at all processes of the machine, and between later ones: each takes milliseconds."""
_SHORTEST_S: Final = 0.05
"""Less than a few ticks of the kernel's clock says nothing."""
_NO_REPORT: Final[Mapping[str, str]] = {"samples_s": NOT_TOLD, "wait_share": NOT_TOLD}
_NO_WAITING: Final[Mapping[str, str]] = {"wait_share": NOT_TOLD}
_ALL_TOLD: Final[Mapping[str, str]] = {}


@dataclass(slots=True)
class _Followed:
    """One job with what was seen of it last."""

    watched: Watched
    meter: JobMeter
    progress: Progressing
    rounds: int
    counters: JobCounters | None = None
    queue: QueueRates = QueueRates()
    slips: tuple[Finding, ...] = ()
    pace: Pace | None = None

    def close(self) -> None:
        """Give back what is open."""
        self.meter.close()
        self.progress.close()


class Sampler:
    """A `watch.watcher.Source`: call `read` about once a second.

    Args:
        session: whose store tells what runs.
        names: only these runs; `None` = all.
        gpu_every_s: between two readings of the GPUs; `None` = do not read them.
        roster: what runs; by default the records are asked every five seconds.
        span_s: over which a job's reports of progress are averaged.
    """

    def __init__(
        self,
        session: Session,
        names: Collection[str] | None = None,
        *,
        gpu_every_s: float | None = EVERY_S,
        roster: Callable[[], Sequence[Watched]] | None = None,
        span_s: float = SPAN_S,
    ) -> None:
        self._session = session
        self._roster = roster or (lambda: running(session, names))
        self._gpus = GpuWatch(session=session, every_s=gpu_every_s) if gpu_every_s is not None else None
        self._cpus = CpuMeter(session.root)
        self._strangers = Strangers(session.root)
        self._span_s = span_s
        self._followed: dict[tuple[str, int], _Followed] = {}
        self._roster_due_s = self._strangers_due_s = 0.0
        self._before: tuple[float, Mapping[int, CpuCounters] | None] | None = None

    def read(self) -> Reading | None:
        """What happened since the call before; `None` at the first, and where that is too short a time ago.

        Raises:
            HostError: the store, which tells what runs, cannot be read.
        """
        now_s = time.monotonic()
        if self._before is not None and now_s - self._before[0] < _SHORTEST_S:
            return None
        if now_s >= self._roster_due_s:
            self._follow(self._roster())
            self._roster_due_s = now_s + _ROSTER_EVERY_S * max(1.0, len(self._followed) / _MANY)
        unknown: dict[str, str] = {}
        try:
            counted: Mapping[int, CpuCounters] | None = self._cpus.read()
        except (OSError, ValueError) as error:
            counted, unknown["cpus"] = None, f"/proc/stat cannot be read: {error}"
        before, self._before = self._before, (now_s, counted)
        machine = cpus_reading(before[1], counted) if before is not None and before[1] and counted else None
        gpus = self._gpu_readings(unknown)
        instances = {(one.gpu_uuid, one.gi_id): one for gpu in gpus for one in gpu.instances}
        shares = machine.shares() if machine is not None else {}
        jobs = [found for one in list(self._followed.values()) if (found := self._job(one, shares, instances, now_s))]
        if before is None:
            return None
        return Reading(
            at_s=self._session.now(),
            seconds=now_s - before[0],
            jobs=tuple(self._with_strangers(jobs, now_s)),
            cpus=machine,
            gpus=gpus,
            unknown=unknown,
        )

    def close(self) -> None:
        """Give back what is open."""
        for one in self._followed.values():
            one.close()
        self._followed.clear()
        self._cpus.close()
        if self._gpus is not None:
            self._gpus.close()

    # -- inside

    def _follow(self, roster: Sequence[Watched]) -> None:
        wanted = {(one.handle or one.name, one.pid): one for one in roster}
        for key in self._followed.keys() - wanted.keys():
            self._followed.pop(key).close()
        for key, one in wanted.items():
            there = self._followed.get(key)
            if there is not None:
                there.watched = one
                continue
            self._followed[key] = _Followed(
                watched=one,
                meter=JobMeter(one.pid, container=one.container, root=self._session.root),
                progress=Progressing(self._output(one), self._span_s),
                rounds=one.pid % (2 * _PINS_EVERY),
            )

    def _output(self, one: Watched) -> LogFile | EngineLog:
        if one.container:
            return EngineLog(self._session.runtime(RuntimeName(one.runtime)), one.handle)
        return LogFile(f"{one.handle}/log")

    def _job(
        self,
        one: _Followed,
        machine: Mapping[int, tuple[float, float]],
        instances: Mapping[tuple[str, int | None], InstanceReading],
        now_s: float,
    ) -> JobReading | None:
        before, after = one.counters, one.meter.read()
        one.counters = after
        if after is None:
            self._roster_due_s = 0.0  # it has ended
            return None
        seldom = 1 if len(self._followed) <= _MANY else 2
        if one.rounds % (seldom * _PACE_EVERY) == 0:
            one.pace = one.progress.pace(now_s)
        pace = one.pace
        if one.rounds % (seldom * _PINS_EVERY) == 0 or one.slips:
            one.slips = self._slips(one)
        one.rounds += 1
        if before is None or after.at_s - before.at_s < _SHORTEST_S:
            return None
        if before.queue is not None and after.queue is not None and after.queue.at_s > before.queue.at_s:
            one.queue = queue_rates(before.queue, after.queue)
        watched = one.watched
        unknown = _NO_REPORT if pace is None else _NO_WAITING if pace.wait_share is None else _ALL_TOLD
        about = About(
            run=watched.run,
            job=watched.job,
            attempt=watched.attempt,
            cpus=watched.cpus,
            cores=watched.cores,
            age_s=self._session.now() - watched.started_at if watched.started_at is not None else None,
            planned_workers=watched.num_workers,
            samples_s=pace.samples_s if pace is not None else None,
            wait_share=pace.wait_share if pace is not None else None,
            reported_s=pace.seconds if pace is not None else None,
            slips=one.slips,
            instance=instances.get((watched.gpu_uuid or "", watched.gi_id)),
            unknown=unknown,
        )
        return job_reading(before, after, about, one.queue, machine)

    @staticmethod
    def _slips(one: _Followed) -> tuple[Finding, ...]:
        """Only what is wrong with the pinning itself: load is judged over time, elsewhere."""
        watched = one.watched
        seen = pinning(one.meter.placed(), cpus=watched.cpus, cores=watched.cores, num_workers=None)
        return tuple(finding for finding in seen.findings if finding.drift) if seen is not None else ()

    def _gpu_readings(self, unknown: dict[str, str]) -> tuple[GpuReading, ...]:
        if self._gpus is None:
            return ()
        seen = self._gpus.latest()
        if seen.why is not None:
            unknown["gpus"] = seen.why
        return seen.gpus

    def _with_strangers(self, jobs: Sequence[JobReading], now_s: float) -> Sequence[JobReading]:
        """Who the others are is looked for only where they are in somebody's way."""
        crowded = [job for job in jobs if (job.other_cpus or 0.0) >= CROWD * max(1, len(job.cpus))]
        if not crowded:
            return jobs
        if now_s >= self._strangers_due_s:
            lapsed = now_s > self._strangers_due_s + _STRANGERS_EVERY_S
            self._strangers.scan()
            self._strangers_due_s = now_s + (_STRANGERS_FIRST_S if lapsed else _STRANGERS_EVERY_S)
        own = frozenset(pid for one in self._followed.values() for pid in one.meter.pids())
        found: dict[str, tuple[Stranger, ...]] = {job.name: self._strangers.on(job.cpus, own) for job in crowded}
        hidden = self._strangers.hidden() if not all(found.values()) else None
        for job in crowded:
            if not found[job.name] and hidden is None:
                del found[job.name]  # nobody is to be named
        return [_with(job, found[job.name], hidden) if job.name in found else job for job in jobs]


def _with(job: JobReading, strangers: tuple[Stranger, ...], hidden: str | None) -> JobReading:
    why = {"strangers": hidden} if hidden is not None and not strangers else {}
    return replace(job, strangers=strangers, unknown={**job.unknown, **why})
