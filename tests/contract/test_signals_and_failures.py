"""A signal and a failure both end what `up` waits for, and stay two things: one is 130, the other its own code."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from migctl.core.runs.events import Event, Moment, NoteEvent, StepEvent
from migctl.core.runs.record import Action
from migctl.engine.converge import converge
from migctl.engine.down import take_down
from migctl.engine.upoptions import UpOptions
from migctl.errors import Interrupted, MigctlError, PartlyApplied
from migctl.host.lock import machine_lock
from migctl.nvml.codes import Code
from migctl.nvml.simstate import SimState
from tests.support.world import World

CREATE, DESTROY = "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy"
SOON_S = 15.0
"""Far from the minute that is waited otherwise."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "a100-40gb,a100-40gb")


def in_use_for_ever(world: World, call: str, gpu: int | None = None) -> None:
    with SimState.edit(world.sim) as state:
        state.set_fault(call, code=Code.IN_USE, times=0, gpu=gpu)


def when(event: Callable[[Event], bool], act: Callable[[], None]) -> Callable[[Event], None]:
    """A listener that acts at such an event."""
    return lambda seen: act() if event(seen) else None


def once_waited_for(lock: Path, act: Callable[[], None]) -> None:
    """Act when a second one in here has opened the lock file that the first one holds."""

    def watch() -> None:
        while sum(opened(fd) == lock for fd in Path("/proc/self/fd").iterdir()) < 2:
            time.sleep(0.01)
        act()

    threading.Thread(target=watch, daemon=True).start()


def opened(descriptor: Path) -> Path | None:
    try:
        return descriptor.readlink()
    except OSError:
        return None  # closed again meanwhile


def waits(event: Event) -> bool:
    return isinstance(event, NoteEvent) and "waiting up to" in event.text


def up(
    world: World,
    jobs: dict[str, str],
    cancel: threading.Event,
    report: Callable[[Event], None] = lambda _: None,
    *,
    replacing: bool = False,
) -> None:
    converge(world.session(), world.plan("one", jobs), UpOptions(wait_for_s=60, replacing=replacing), report, cancel)


def test_a_failing_job_ends_the_waiting_of_the_others_and_is_no_signal(world: World) -> None:
    in_use_for_ever(world, CREATE, gpu=0)
    with SimState.edit(world.sim) as state:
        state.set_fault(CREATE, code=Code.NOT_READY, gpu=1)
    cancel = threading.Event()
    began = time.monotonic()

    with pytest.raises(MigctlError) as failed:
        up(world, {"a": "7g.40gb", "b": "7g.40gb"}, cancel)

    assert time.monotonic() - began < SOON_S
    assert "gpu-not-ready" in {error.id for error in failed.value.all}
    assert not cancel.is_set()
    world.settle()
    assert world.instances() == {}


def test_a_signal_while_a_holder_is_waited_for_is_an_interruption_and_undoes_everything(world: World) -> None:
    in_use_for_ever(world, CREATE, gpu=1)
    cancel = threading.Event()
    began = time.monotonic()

    with pytest.raises(Interrupted):
        up(world, {"a": "7g.40gb", "b": "7g.40gb"}, cancel, when(waits, cancel.set))

    assert time.monotonic() - began < SOON_S
    world.settle()
    world.check_gone()


def test_what_is_put_where_an_interrupted_creation_was_refused_is_not_ours(world: World) -> None:
    in_use_for_ever(world, CREATE)
    cancel = threading.Event()

    def be_quicker() -> None:
        with SimState.edit(world.sim) as state:
            for gpu in (0, 1):
                made = state.add_foreign_instance(gpu, "7g.40gb", 0)
                world.strangers[made.serial] = made
        cancel.set()

    with pytest.raises(Interrupted):
        up(world, {"a": "7g.40gb"}, cancel, when(waits, be_quicker))

    world.settle()
    world.check_gone()


@pytest.mark.parametrize("name", ["machine", "run"])
def test_a_signal_while_a_lock_is_waited_for_ends_up_at_once(world: World, name: str) -> None:
    cancel = threading.Event()
    lock = name if name == "machine" else f"run-{world.session().caller.uid}-one"
    began = time.monotonic()

    once_waited_for(world.run_dir / f"{lock}.lock", cancel.set)
    with machine_lock(world.run_dir, lock), pytest.raises(Interrupted):
        up(world, {"a": "1g.5gb"}, cancel)

    assert time.monotonic() - began < SOON_S
    world.check_gone()


@pytest.mark.parametrize("name", ["machine", "run"])
def test_a_signal_while_down_waits_for_a_lock_leaves_what_is_left_to_the_next_down(world: World, name: str) -> None:
    world.up(world.plan("one", {"a": "1g.5gb", "b": "1g.5gb", "c": "2g.10gb"}), UpOptions())
    cancel = threading.Event()
    began = time.monotonic()
    lock = name if name == "machine" else f"run-{world.session().caller.uid}-one"

    once_waited_for(world.run_dir / f"{lock}.lock", cancel.set)
    with machine_lock(world.run_dir, lock), pytest.raises(Interrupted):
        take_down(world.session(), "one", grace_s=0.0, report=lambda _: None, cancel=cancel, wait_for_s=60)

    assert time.monotonic() - began < SOON_S
    world.check()
    world.down("one")
    world.check_gone()


def test_a_signal_that_came_before_down_asks_for_haste_and_leaves_nothing_behind(world: World) -> None:
    world.up(world.plan("one", {"a": "1g.5gb"}), UpOptions())
    cancel = threading.Event()
    cancel.set()
    held, let_go = threading.Event(), threading.Event()

    def other() -> None:
        with machine_lock(world.run_dir, "machine"):
            held.set()
            let_go.wait(20)

    thread = threading.Thread(target=other)
    thread.start()
    assert held.wait(10)
    threading.Timer(0.3, let_go.set).start()
    take_down(world.session(), "one", grace_s=None, report=lambda _: None, cancel=cancel)
    thread.join()

    world.check_gone()


def test_a_signal_while_down_waits_for_a_holder_names_him_and_what_goes_on_there(world: World) -> None:
    world.up(world.plan("one", {"a": "1g.5gb"}), UpOptions())
    in_use_for_ever(world, DESTROY)
    cancel = threading.Event()

    with pytest.raises(Interrupted) as told:
        take_down(world.session(), "one", grace_s=0.0, report=when(waits, cancel.set), cancel=cancel, wait_for_s=60)

    assert "no process that holds it was found" in told.value.message
    assert str(told.value.hint).endswith("then migctl down one")
    world.settle()
    world.down("one")
    world.check_gone()


OLD, NEW = {"a": "1g.5gb", "stays": "1g.5gb"}, {"a": "2g.10gb", "stays": "1g.5gb"}


def test_where_replacing_jobs_fail_the_removed_ones_are_named_and_it_is_partly_applied(world: World) -> None:
    world.up(world.plan("one", OLD), UpOptions())
    with SimState.edit(world.sim) as state:
        state.set_fault(CREATE, code=Code.NOT_READY)

    with pytest.raises(PartlyApplied) as told:
        up(world, NEW, threading.Event(), replacing=True)

    assert "the GPU is not ready yet" in told.value.message
    assert "Removed already, to be replaced: a" in told.value.message
    assert str(told.value.hint).endswith("then migctl up")
    assert told.value.data["removed"] == ["a"]
    assert [record.job for record in world.records()] == ["stays"]
    world.up(world.plan("one", NEW), UpOptions())
    assert {record.job: record.profile for record in world.records()} == NEW


def test_replacing_that_a_signal_ends_stays_an_interruption_and_names_them_too(world: World) -> None:
    world.up(world.plan("one", OLD), UpOptions())
    cancel = threading.Event()
    gone = StepEvent("a", Action.DESTROY_GPU_INSTANCE, Moment.RECORDED)

    with pytest.raises(Interrupted) as told:
        up(world, NEW, cancel, when(lambda event: event == gone, cancel.set), replacing=True)

    assert "Removed already, to be replaced: a" in told.value.message
    assert told.value.hint == "migctl up"
    assert [record.job for record in world.records()] == ["stays"]


def test_a_signal_before_anything_is_removed_removes_nothing(world: World) -> None:
    world.up(world.plan("one", OLD), UpOptions())
    cancel = threading.Event()
    cancel.set()

    with pytest.raises(Interrupted):
        up(world, NEW, cancel, replacing=True)

    assert {record.job: record.profile for record in world.records()} == OLD
