"""How the queue will run: the decision of `core/queueing/queue.py`, with a simulated clock and the durations that jobs expect."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from heapq import nlargest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import Placement
from migctl.core.queueing.choice import choose
from migctl.core.queueing.decision import Start
from migctl.core.queueing.queue_order import Line, line_up, listed
from migctl.core.queueing.reservation import LOOK_BACK, Impatience, numbered
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import WHOLE_GPU, WHOLE_PLACEMENT, Site, Spare, Stay, Turn
from migctl.core.runs.record import JobState

_RUNNING = (JobState.STARTING, JobState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """When a job is expected to run. Times are Unix seconds; `None`: not known."""

    start: float | None
    end: float | None
    gpu_uuid: str | None = None
    profile: str = ""
    """Nothing on a GPU without instances."""
    placement: Placement | None = None
    reason: str | None = None
    """Why a time is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The expected course of a run, if every job succeeds and takes as long as it says."""

    jobs: Mapping[str, Expected] = field(default_factory=dict)
    """Jobs that run or wait, in the order in which they start; those of which nothing is known last."""
    ends_at: float | None
    """When the last one ends (Unix seconds)."""
    reason: str | None = None
    """Why that is not known."""


def forecast(situation: Situation, durations: Mapping[str, float] | None = None) -> Forecast:
    """Let the queue run on paper until nothing more happens.

    A job without `expect` is taken to run on: what waits for it, or for its room, has no times. One that is overdue is taken to
    end now.

    Args:
        situation: the jobs and the machine.
        durations: how long jobs really take (seconds), where that is known to whoever asks and not to the queue.
    """
    return _Course(situation, durations or {}).run()


class _Course:
    """A run on paper."""

    def __init__(self, situation: Situation, durations: Mapping[str, float]) -> None:
        self.situation = situation
        self.now = situation.now
        self.durations = durations
        self.turns = {turn.name: turn for turn in situation.turns}
        self.order = numbered(situation.turns)
        self.states = dict(situation.states)
        self.stays = [list(site.stays) for site in situation.sites]
        self.spares = [list(site.spares) for site in situation.sites]
        self.numbers = {site.gpu.uuid: n for n, site in enumerate(situation.sites)}
        self.cores = dict(situation.free_cores) if situation.free_cores is not None else None
        self.cpus = situation.free_cpus
        self.lent = set(situation.lent)
        began = ((at, name) for name, at in situation.history.started.items())
        self.latest = deque(nlargest(LOOK_BACK, began), LOOK_BACK)
        self.finished = dict(situation.history.finished)
        self.ends: list[tuple[float, int, str]] = []
        self.made = 0
        self.running = sum(state in _RUNNING for state in self.states.values())
        self.expected: dict[str, Expected] = {}
        self.places: dict[str, int] = {}
        # Only the end of such a job can change whose turn it is.
        self.heeded = {need for turn in situation.turns for need in turn.needs}
        self.heeded |= {turn.name for turn in situation.turns if turn.stage is not None}
        for here in situation.sites:
            for stay in here.stays:
                if stay.job in self.turns:
                    self._expect_running(self.turns[stay.job], stay, here)
        for turn in situation.turns:
            if self.states.get(turn.name) in _RUNNING and turn.name not in self.expected:
                self._expect_lent(turn)

    def run(self) -> Forecast:
        line = self._line()
        while True:
            line = self._start(line)
            pauses = [at for at in self.situation.not_before.values() if at > self.now]
            at = min((*pauses, *(end for end, _, _ in self.ends[:1])), default=None)
            if at is None:
                break
            ended = self._end_until(at)
            self.now = at
            if pauses or not self.heeded.isdisjoint(ended):
                line = self._line()
        return self._result()

    def _line(self) -> Line:
        s = self.situation
        line = line_up(
            s.turns,
            self.states,
            held=s.held_words if s.held else None,
            held_jobs=s.held_jobs,
            not_before=s.not_before,
            now=self.now,
        )
        self.places = {turn.name: n for n, turn in enumerate(line.order)}
        return line

    def _start(self, line: Line) -> Line:
        """Start what starts now; the line without it."""
        history = replace(self.situation.history, finished=self.finished)
        now = replace(
            self.situation,
            sites=[
                replace(site, stays=tuple(stays), spares=tuple(spares))
                for site, stays, spares in zip(self.situation.sites, self.stays, self.spares, strict=True)
            ],
            now=self.now,
            free_cores=self.cores,
            free_cpus=self.cpus,
            lent=frozenset(self.lent),
            history=history,
        )
        impatience = Impatience(
            self.situation.turns, history, self.situation.patience, self.now, self.order, list(self.latest)
        )
        choice = choose(line, self.running, now, impatience)
        for start in choice.starts:
            self._begin(self.turns[start.job], start)
        gone = {start.job for start in choice.starts}
        return _without(line, self.places, gone) if gone else line

    def _begin(self, turn: Turn, start: Start) -> None:
        wish = turn.wish
        self.states[turn.name] = JobState.RUNNING
        self.running += 1
        self.latest.appendleft((self.now, turn.name))
        believed = self.now + turn.expect_s if turn.expect_s is not None else None
        end = self.now + self.durations[turn.name] if turn.name in self.durations else believed
        if end is not None:
            self._ends(end, turn.name)
        self.expected[turn.name] = Expected(
            start=self.now,
            end=end,
            gpu_uuid=start.gpu_uuid or None,
            profile=start.profile.name if start.profile is not None else "",
            placement=start.placement,
            reason=None if end is not None else f"{turn.name} gives no expect",
        )
        if wish.instance_uuid is not None:
            self.lent.add(wish.instance_uuid)
            return
        n = self.numbers[start.gpu_uuid]
        taken = {spare.gi_id for spare in start.destroys} | ({start.takes_over.gi_id} if start.takes_over else set())
        self.spares[n] = [spare for spare in self.spares[n] if spare.gi_id not in taken]
        self.stays[n].append(
            Stay(
                placement=start.placement or WHOLE_PLACEMENT,
                profile_id=start.profile.id if start.profile is not None else WHOLE_GPU,
                owner="",
                job=turn.name,
                cores=start.cores,
                memory_mib=wish.memory_mib,
                ends_at=believed,
                company=wish.company,
            )
        )
        self._cores(n, -start.cores)
        if wish.cpuset is not None:
            self.cpus = self.cpus - wish.cpuset

    def _end_until(self, at: float) -> set[str]:
        """End what ends by then."""
        ended: set[str] = set()
        while self.ends and self.ends[0][0] <= at:
            ended.add(heapq.heappop(self.ends)[2])
        self.running -= len(ended)
        for name in ended:
            self.states[name] = JobState.SUCCEEDED
            self.finished[name] = at
            wish = self.turns[name].wish
            if wish.cpuset is not None:
                self.cpus = CpuSet(self.cpus | wish.cpuset)
            self.lent.discard(wish.instance_uuid or "")
        for n, stays in enumerate(self.stays):
            for stay in [stay for stay in stays if stay.job in ended]:
                stays.remove(stay)
                self._cores(n, stay.cores)
                if stay.lasting:
                    stays.append(replace(stay, job=None))
                elif stay.profile_id != WHOLE_GPU and all(other.placement != stay.placement for other in stays):
                    self._leave(n, stay)
        return ended

    def _leave(self, n: int, stay: Stay) -> None:
        """An ended job's instance stays until somebody needs the room."""
        self.made += 1
        self.spares[n].append(
            Spare(
                gpu_uuid=self.situation.sites[n].gpu.uuid,
                gi_id=-self.made,
                profile_id=stay.profile_id,
                placement=stay.placement,
                owner=stay.job or "",
                mig_uuid="on paper",
            )
        )

    def _cores(self, n: int, change: int) -> None:
        if self.cores is not None:
            scope = self.situation.sites[n].scope
            self.cores[scope] = self.cores.get(scope, 0) + change

    def _expect_running(self, turn: Turn, stay: Stay, site: Site) -> None:
        end = max(stay.ends_at, self.now) if stay.ends_at is not None else None
        if end is not None:
            self._ends(end, turn.name)
        profile = next((p.name for p in site.gpu.profiles if p.id == stay.profile_id), "")
        self.expected[turn.name] = Expected(
            start=self.situation.history.started.get(turn.name, self.now),
            end=end,
            gpu_uuid=site.gpu.uuid,
            profile=profile,
            placement=stay.placement if stay.profile_id != WHOLE_GPU else None,
            reason=None if end is not None else f"{turn.name} gives no expect",
        )

    def _expect_lent(self, turn: Turn) -> None:
        """A running job without a place of the run's own: it has an administrator's instance."""
        start = self.situation.history.started.get(turn.name)
        end = max(start + turn.expect_s, self.now) if start is not None and turn.expect_s is not None else None
        if end is not None:
            self._ends(end, turn.name)
        reason = None if end is not None else f"{turn.name} gives no expect"
        self.expected[turn.name] = Expected(start=start, end=end, reason=reason)

    def _ends(self, at: float, job: str) -> None:
        self.made += 1
        heapq.heappush(self.ends, (at, self.made, job))

    def _result(self) -> Forecast:
        left = [turn for turn in self.situation.turns if not self.states.get(turn.name, JobState.QUEUED).ended]
        silent = tuple(turn.name for turn in left if turn.expect_s is None)
        reason = None
        if left and self.situation.held:
            reason = self.situation.held_words
        elif silent:
            reason = f"{listed(silent)} {'gives' if len(silent) == 1 else 'give'} no expect"
        elif left:
            reason = f"{listed([turn.name for turn in left])} would not start"
        jobs = dict(self.expected)
        for turn in left:
            if turn.name not in jobs:
                jobs[turn.name] = Expected(start=None, end=None, reason=reason)
        ends = [one.end for one in jobs.values() if one.end is not None]
        return Forecast(jobs=jobs, ends_at=max(ends, default=None) if not left else None, reason=reason)


def _without(line: Line, places: Mapping[str, int], gone: set[str]) -> Line:
    """The line when some have started."""
    left = {places[name] for name in gone}
    for group in line.groups:
        for place in left:
            n = bisect_left(group.members, place)
            if n < len(group.members) and group.members[n] == place:
                del group.members[n]
    groups = sorted((group for group in line.groups if group.members), key=lambda group: group.members[0])
    return replace(line, groups=groups)
