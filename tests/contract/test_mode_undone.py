"""`up` that turned MIG mode on and failed: the mode is as before, or it is said where it stays on; nobody else's is touched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from migctl.core.runs.events import Event, NoteEvent
from migctl.core.runs.run import Run
from migctl.engine.converge import UpResult, converge
from migctl.engine.down import take_down
from migctl.engine.upoptions import UpOptions
from migctl.errors import Busy, HostError, Interrupted, MigctlError, PartlyApplied
from migctl.host.lock import machine_lock
from migctl.nvml.codes import Code
from migctl.nvml.simstate import SimState
from tests.support.fake_engine import EngineFault
from tests.support.world import World

AMPERE, HOPPER = "a100-40gb:off", "h100-sxm5-80gb:off"
SMALL = {AMPERE: "1g.5gb", HOPPER: "1g.10gb"}
WHOLE = {AMPERE: "7g.40gb", HOPPER: "7g.80gb"}
NOWHERE = "6g.1gb"
"""A profile that no GPU has."""
CREATE, SET_MODE = "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlDeviceSetMigMode"
ON, OFF = (True, True), (False, False)


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., World]:
    def make(boards: str, **state: bool) -> World:
        world = World(tmp_path, boards)
        with SimState.edit(world.sim) as machine:
            vars(machine).update(state)
        return world

    return make


def modes(world: World) -> list[tuple[bool, bool]]:
    return [(gpu.current, gpu.pending) for gpu in world.state().gpus]


def runs(world: World) -> tuple[Run, ...]:
    with world.session().ledger(write=False) as ledger:
        return ledger.runs()


def fault(world: World, call: str, code: Code, *, gpu: int | None = None, nth: int = 1, after: bool = False) -> None:
    with SimState.edit(world.sim) as state:
        state.set_fault(call, code=code, gpu=gpu, nth=nth, after=after)


def up(
    world: World,
    jobs: dict[str, str],
    *,
    wait_for_s: float = 0.0,
    report: Callable[[Event], None] = lambda _: None,
    cancel: threading.Event | None = None,
) -> UpResult:
    options = UpOptions(wait_for_s=wait_for_s)
    return converge(world.session(), world.plan("one", jobs), options, report, cancel or threading.Event())


def failing(world: World, jobs: dict[str, str], **options: object) -> MigctlError:
    with pytest.raises(MigctlError) as failed:
        up(world, jobs, **options)  # type: ignore[arg-type]  # `up`'s own keywords
    return failed.value


def no_instance_is_made(world: World, board: str) -> MigctlError:
    fault(world, CREATE, Code.NOT_READY)
    return failing(world, {"a": SMALL[board]})


def it_turns_out_not_to_fit(world: World, _board: str) -> MigctlError:
    return failing(world, {"a": NOWHERE})


def no_container_is_made(world: World, board: str) -> MigctlError:
    world.engine.fault = EngineFault("create", 1, after=False)
    return failing(world, {"a": SMALL[board]})


def a_signal_comes(world: World, board: str) -> MigctlError:
    cancel = threading.Event()

    def report(event: Event) -> None:
        if isinstance(event, NoteEvent) and "MIG mode is on" in event.text:
            cancel.set()

    return failing(world, {"a": SMALL[board]}, report=report, cancel=cancel)


FAILURES = [no_instance_is_made, it_turns_out_not_to_fit, no_container_is_made, a_signal_comes]
"""Once the mode is on."""


@pytest.mark.parametrize("what", FAILURES)
def test_where_no_reset_is_needed_the_mode_is_off_again_and_no_run_is_left(
    machine: Callable[..., World], what: Callable[[World, str], MigctlError]
) -> None:
    world = machine(HOPPER, profiles_with_mig_off=False)

    error = what(world, HOPPER)

    assert not isinstance(error, PartlyApplied)
    assert modes(world) == [OFF]
    assert runs(world) == ()
    assert world.instances() == {}


@pytest.mark.parametrize("what", FAILURES)
def test_where_a_reset_is_needed_the_gpu_is_named_and_the_run_keeps_the_note_until_down(
    machine: Callable[..., World], what: Callable[[World, str], MigctlError]
) -> None:
    world = machine(AMPERE, profiles_with_mig_off=False)

    error = what(world, AMPERE)

    assert type(error) is (Interrupted if what is a_signal_comes else PartlyApplied)
    assert "GPU 0 stays in MIG mode (turning it off needs a GPU reset)" in error.message
    assert error.hint == "migctl mode disable --gpu 0 --reset, then migctl down one"
    assert modes(world) == [ON]
    assert [run.mig_enabled for run in runs(world)] == [(world.state().gpus[0].uuid,)]
    assert world.instances() == {}

    world.settle()
    world.down("one")
    assert runs(world) == ()


def test_after_it_the_same_plan_comes_up_and_its_end_still_knows_who_turned_the_mode_on(
    machine: Callable[..., World],
) -> None:
    world = machine(AMPERE)
    fault(world, CREATE, Code.NOT_READY)
    assert isinstance(failing(world, {"a": "1g.5gb"}), PartlyApplied)

    up(world, {"a": "1g.5gb"})

    assert [run.mig_enabled for run in runs(world)] == [(world.state().gpus[0].uuid,)]
    # That the mode was on before this call is no reason to tell of it again.
    world.down("one")
    assert runs(world) == ()


# board, code, whether the mode is on all the same → the error's kind, the modes
REFUSED: list[tuple[str, Code, bool, type[MigctlError], tuple[bool, bool]]] = [
    (AMPERE, Code.NO_PERMISSION, False, HostError, OFF),
    (AMPERE, Code.IN_USE, False, Busy, OFF),
    (AMPERE, Code.UNKNOWN, True, PartlyApplied, ON),
    (HOPPER, Code.UNKNOWN, True, HostError, OFF),
]


@pytest.mark.parametrize(("board", "code", "after", "kind", "mode"), REFUSED)
def test_a_mode_that_could_not_be_turned_on_is_noted_only_where_it_is_on(
    machine: Callable[..., World],
    board: str,
    code: Code,
    after: bool,
    kind: type[MigctlError],
    mode: tuple[bool, bool],
) -> None:
    world = machine(board)
    fault(world, SET_MODE, code, after=after)

    assert type(failing(world, {"a": SMALL[board]})) is kind

    assert modes(world) == [mode]
    assert len(runs(world)) == (1 if mode == ON else 0)


def test_what_an_administrator_turns_on_after_a_failure_is_not_turned_off_by_down(
    machine: Callable[..., World],
) -> None:
    world = machine(HOPPER)
    fault(world, SET_MODE, Code.NO_PERMISSION)
    failing(world, {"a": "1g.10gb"})
    with SimState.edit(world.sim) as state:
        state.gpus[0].current = state.gpus[0].pending = True

    world.down("one")

    assert modes(world) == [ON]


@pytest.mark.parametrize(("board", "first"), [(AMPERE, ON), (HOPPER, OFF)])
def test_of_two_gpus_the_one_that_was_turned_on_is_put_back_or_noted(
    machine: Callable[..., World], board: str, first: tuple[bool, bool]
) -> None:
    world = machine(f"{board},{board}")
    fault(world, SET_MODE, Code.NO_PERMISSION, gpu=1)

    error = failing(world, {"a": WHOLE[board], "b": WHOLE[board]})

    assert modes(world) == [first, OFF]
    assert isinstance(error, PartlyApplied) is (first == ON)
    noted = [(world.state().gpus[0].uuid,)] if first == ON else []
    assert [run.mig_enabled for run in runs(world)] == noted


def test_jobs_that_run_keep_their_gpu_while_the_one_that_was_to_be_added_is_put_back(
    machine: Callable[..., World],
) -> None:
    world = machine("h100-sxm5-80gb,h100-sxm5-80gb")
    up(world, {"a": "7g.80gb"})
    (used,) = {record.gpu_uuid for record in world.records()}
    with SimState.edit(world.sim) as state:
        for gpu in state.gpus:
            gpu.current = gpu.pending = gpu.uuid == used
    fault(world, CREATE, Code.NOT_READY)

    error = failing(world, {"a": "7g.80gb", "b": "7g.80gb"})

    assert type(error) is HostError
    assert modes(world) == [ON if gpu.uuid == used else OFF for gpu in world.state().gpus]
    assert [(run.name, run.mig_enabled) for run in runs(world)] == [("one", ())]
    assert [(record.job, record.gpu_uuid) for record in world.records()] == [("a", used)]


def test_who_is_quicker_with_the_mode_keeps_it(machine: Callable[..., World]) -> None:
    world = machine(HOPPER)
    held, waited = threading.Event(), threading.Event()

    def other() -> None:
        with machine_lock(world.run_dir, "machine"):
            held.set()
            waited.wait(20)
            with SimState.edit(world.sim) as state:
                state.gpus[0].current = state.gpus[0].pending = True

    thread = threading.Thread(target=other)
    thread.start()
    assert held.wait(10)
    threading.Timer(0.5, waited.set).start()
    up(world, {"a": "1g.10gb"}, wait_for_s=20)
    thread.join()

    assert [run.mig_enabled for run in runs(world)] == [()]
    world.down("one")
    assert modes(world) == [ON]


@pytest.mark.parametrize("told", [True, False], ids=["profiles-known", "profiles-only-with-the-mode-on"])
def test_what_needs_no_mode_is_checked_before_it_is_changed(machine: Callable[..., World], told: bool) -> None:
    world = machine(AMPERE, profiles_with_mig_off=told)
    world.engine.fault = EngineFault("prepare", 1, after=False)

    error = failing(world, {"a": "1g.5gb"})

    assert (type(error), error.id) == (HostError, "engine-trouble")
    assert modes(world) == [OFF]
    assert runs(world) == ()


def test_a_plan_that_can_be_seen_not_to_fit_changes_no_mode(machine: Callable[..., World]) -> None:
    world = machine(AMPERE)

    error = failing(world, {"a": NOWHERE})

    assert not isinstance(error, PartlyApplied)
    assert modes(world) == [OFF]


@pytest.mark.parametrize("by_code", [True, False], ids=["refused", "accepted-but-pending"])
def test_a_gpu_that_is_held_leaves_no_wish_behind_however_its_driver_says_so(
    machine: Callable[..., World], by_code: bool
) -> None:
    world = machine(AMPERE, in_use_by_code=by_code)
    with SimState.edit(world.sim) as state:
        state.gpus[0].held = True

    error = failing(world, {"a": "1g.5gb"})

    assert error.exit_code == (5 if by_code else 4)
    assert "no process that holds it was found" in error.message
    assert modes(world) == [OFF]
    assert runs(world) == ()


def test_down_leaves_no_wish_behind_where_the_mode_cannot_be_turned_off_now(machine: Callable[..., World]) -> None:
    world = machine(HOPPER)
    up(world, {"a": "1g.10gb"})
    with SimState.edit(world.sim) as state:
        state.gpus[0].held = True

    done = take_down(world.session(), "one", grace_s=0.0, report=lambda _: None, cancel=threading.Event())

    assert [(notice.id, notice.hint) for notice in done.notices] == [("mig-mode-left", "migctl mode disable --gpu 0")]
    assert modes(world) == [ON]


def test_the_logs_of_an_earlier_run_outlive_a_failure_before_anything_was_made(machine: Callable[..., World]) -> None:
    world = machine(HOPPER)
    up(world, {"a": "1g.10gb"})
    world.down("one")
    fault(world, SET_MODE, Code.NO_PERMISSION)

    failing(world, {"a": "1g.10gb"})

    with world.session().ledger(write=False) as ledger:
        assert [record.job for record in ledger.history("one")] == ["a"]
