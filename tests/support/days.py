"""Days of a machine as a state machine: commands fail or die anywhere, jobs end, strangers come and go, records are lost."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from migctl.core.runs.record import JobState
from migctl.engine.upoptions import UpOptions
from migctl.errors import MigctlError, PartlyApplied
from migctl.nvml.codes import Code
from migctl.nvml.simstate import SimState
from tests.support.crashes import size
from tests.support.fake_engine import CALLS, EngineFault, Killed
from tests.support.world import RUNS, World

P = ParamSpec("P")
R = TypeVar("R")

BOARDS = ("a100-40gb", "a100-40gbx2", "h100-sxm5-80gb:off", "a30")
PROFILES = {
    "a100-40gb": ("1g.5gb", "2g.10gb*2", "3g.20gb"),
    "h100-sxm5-80gb": ("1g.10gb*3", "2g.20gb", "3g.40gb"),
    "a30": ("1g.6gb", "2g.12gb*2", "4g.24gb"),
}
JOBS = ("a", "b", "c", "d")
_MAKING = ("nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance")
_REMOVING = ("nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy")
_READING = (
    "nvmlGpuInstanceGetInfo",
    "nvmlDeviceGetGpuInstances",
    "nvmlDeviceGetMigMode",
    "nvmlComputeInstanceGetInfo_v2",
)
WHICH = st.integers(0, 11)
SPECS = st.dictionaries(st.sampled_from(JOBS), st.integers(0, 3), min_size=1, max_size=3)
"""Job → the profile's number; 3 = the instance of a stranger, where there is one."""

ENGINE_FAULTS = st.builds(EngineFault, st.sampled_from(CALLS), st.integers(1, 3), st.booleans(), st.booleans())
NVML_FAULTS = st.one_of(
    st.tuples(st.sampled_from(_MAKING), st.just("error"), st.sampled_from([Code.UNKNOWN, Code.IN_USE]), st.booleans()),
    st.tuples(
        st.sampled_from(_REMOVING), st.just("error"), st.sampled_from([Code.UNKNOWN, Code.IN_USE]), st.booleans()
    ),
    st.tuples(st.sampled_from(_REMOVING), st.just("pretend"), st.just(Code.UNKNOWN), st.just(False)),
    st.tuples(st.just(_MAKING[0]), st.just("misplace"), st.just(Code.UNKNOWN), st.just(False)),
    st.tuples(st.just(_MAKING[0]), st.just("error"), st.just(Code.INSUFFICIENT_RESOURCES), st.just(False)),
    st.tuples(st.sampled_from(_READING), st.just("error"), st.just(Code.UNKNOWN), st.just(False)),
)
TROUBLE = st.one_of(
    st.none(),
    st.tuples(st.just("engine"), ENGINE_FAULTS),
    st.tuples(st.just("nvml"), NVML_FAULTS, st.integers(1, 4), st.integers(1, 30)),
    st.tuples(st.just("kill"), st.integers(1, 40)),
)
"""What befalls one command: one thing at most, since two at once tell nothing that each alone does not."""


def told(step: Callable[P, R]) -> Callable[P, R]:
    """Where a step finds something, say on stderr what led there: threads make no two tries alike, so it may never come again."""

    @wraps(step)
    def tell(*args: P.args, **kwargs: P.kwargs) -> R:
        story = cast("Days", args[0]).story
        story.append(f"{step.__name__}({', '.join(f'{name}={value}' for name, value in kwargs.items())})")
        try:
            return step(*args, **kwargs)
        except Exception:
            sys.stderr.write("\n".join(["--- what happened", *story, "--- the last one found a fault", ""]))
            raise

    return tell


class Days(RuleBasedStateMachine):
    """Everything that can happen on the machine, in any order."""

    folder: Path
    world: World

    def __init__(self) -> None:
        super().__init__()
        self.story: list[str] = []
        self.checked = False
        """The last step has looked by itself."""

    @initialize(boards=st.sampled_from(BOARDS), lag_s=st.sampled_from([0.0, 0.02]))
    @told
    def a_machine(self, boards: str, lag_s: float) -> None:
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="migctl-days-", dir=memory if memory.is_dir() else None))
        self.world = World(self.folder, boards)
        with SimState.edit(self.world.sim) as state:
            state.release_lag_s = lag_s
        self.profiles = PROFILES[boards.partition("x2")[0].partition(":")[0]]

    @told
    def teardown(self) -> None:
        try:
            self.world.settle()
            for run in RUNS:
                self.world.down(run)
            self.world.check_gone()
        finally:
            self.world.bell.close()
            shutil.rmtree(self.folder)

    # Commands

    @rule(
        run=st.sampled_from(RUNS),
        spec=SPECS,
        which=WHICH,
        replacing=st.booleans(),
        how=st.integers(0, 3),
        trouble=TROUBLE,
    )
    @told
    def up(self, run: str, spec: dict[str, int], which: int, replacing: bool, how: int, trouble: object) -> None:
        lent = self.world.strangers_uuids()
        words = [*self.profiles, lent[which % len(lent)] if lent else self.profiles[0]]
        plan = self.world.plan(run, {job: words[number] for job, number in spec.items()})
        options = UpOptions(replacing=replacing, retry=how == 1, resume=how == 2)
        before = [r.job for r in self.world.last if r.run == run and r.state is JobState.SUCCEEDED]
        with self._trouble(trouble) as kill_at:
            result = self.world.up(plan, options, kill_at=kill_at)
            kept = set(result.decision.difference.kept)
            assert not {*before} & kept & {*result.started}, "a job that succeeded ran again"
            self.world.check()
            born = {
                r.job for r in self.world.last if r.run == run and r.state not in (JobState.QUEUED, JobState.STARTING)
            }
            assert set(spec) <= born | self.world.waiting(run)
            self.checked = True

    @rule(run=st.sampled_from(RUNS), trouble=TROUBLE)
    @told
    def the_supervisor_takes_a_turn(self, run: str, trouble: object) -> None:
        with self._trouble(trouble) as kill_at:
            before = [r.job for r in self.world.records() if r.run == run and r.state is JobState.SUCCEEDED]
            turn = self.world.turn(run, kill_at=kill_at)
            assert not {*before} & {*turn.started}, "a job that succeeded ran again"

    @rule(run=st.sampled_from(RUNS), trouble=TROUBLE)
    @told
    def down(self, run: str, trouble: object) -> None:
        with self._trouble(trouble) as kill_at:
            self.world.down(run, kill_at=kill_at)
            assert run not in self.world.looks()

    @rule(odds=st.integers(0, 3))
    @told
    def the_records_are_lost_and_leftovers_adopted(self, odds: int) -> None:
        if odds or not self.world.engine.containers:
            return
        self.world.lose_records()
        result = self.world.adopt()
        known = {r.container_id for r in result.adopted}
        self.world.stray |= set(self.world.engine.containers) - known
        owned = {
            (r.instance.gpu_uuid, r.instance.gi_id) for r in result.adopted if r.instance and not r.instance.foreign
        }
        for gpu in self.world.state().gpus:
            for instance in gpu.instances:
                if (gpu.uuid, instance.gi_id) not in owned:
                    self.world.strangers[instance.serial] = instance

    @contextlib.contextmanager
    def _trouble(self, trouble: object) -> Iterator[int]:
        """One command with what befalls it. An error is fine where something did; without trouble, only for want of room."""
        kill_at = 0
        match trouble:
            case ("engine", EngineFault() as fault):
                self.world.engine.fault = fault
            case ("nvml", (call, effect, code, after), int(times), int(nth)):
                with SimState.edit(self.world.sim) as state:
                    few = nth if call in _READING else (nth - 1) % 4 + 1
                    state.set_fault(call, effect, nth=few, times=times, code=int(code), after=after)
            case ("kill", int(at)):
                kill_at = at
        try:
            yield kill_at
        except Killed:
            assert trouble is not None
        except PartlyApplied:
            assert trouble is not None or self._in_use(), "nothing was wrong and all the same it was only partly done"
        except MigctlError:
            pass
        finally:
            self.world.settle()

    def _in_use(self) -> bool:
        return bool(self.world.stray)

    # What else happens

    @rule(which=WHICH, code=st.sampled_from([0, 0, 1, 137]))
    @told
    def a_job_ends(self, which: int, code: int) -> None:
        running = [c for c in self.world.engine.running() if c.handle not in self.world.stray]
        if running:
            self.world.engine.end(running[which % len(running)], code)

    @rule(
        gpu=st.integers(0, 1),
        profile=st.integers(0, 2),
        start=st.sampled_from([0, 1, 2, 3, 4, 6]),
        compute=st.booleans(),
    )
    @told
    def a_stranger_comes(self, gpu: int, profile: int, start: int, compute: bool) -> None:
        gpus = len(self.world.state().gpus)
        self.world.stranger_comes(gpu % gpus, size(self.profiles[profile])[0], start, compute=compute)

    @rule(which=WHICH)
    @told
    def a_stranger_leaves(self, which: int) -> None:
        self.world.stranger_leaves(which)

    @rule(which=WHICH, what=st.sampled_from(["destroy", "halve", "shrink"]))
    @told
    def somebody_lays_hands_on_ours(self, which: int, what: str) -> None:
        self.world.hand(which, what, size(self.profiles[0])[0])

    @rule()
    @told
    def reboot(self) -> None:
        self.world.reboot()

    @invariant()
    @told
    def strangers_are_safe_and_everything_else_is_owned_once(self) -> None:
        if not self.checked:
            self.world.check()
        self.checked = False
