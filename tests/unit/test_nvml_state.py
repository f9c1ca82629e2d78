"""The file of a simulated machine: shared between processes, checked when read, never written by reading; planned failures."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from migctl.core.gpu.mig import Profile
from migctl.errors import HostError, MigctlError
from migctl.nvml.codes import Code
from migctl.nvml.driver import Driver
from migctl.nvml.open import open_driver
from migctl.nvml.simstate import SimState

CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"
MAKE_ONE = """
import sys
from pathlib import Path
from migctl.nvml.open import open_driver
with open_driver(sys.argv[2], sim_state=Path(sys.argv[1])) as driver:
    gpu = driver.gpus()[0]
    profile = gpu.profiles[0]
    for start in map(int, sys.argv[3:]):
        print(driver.create_gpu_instance(gpu.uuid, profile, profile.placements[start]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "sim.json"


def open_sim(path: Path, boards: str = "a100-40gb") -> Driver:
    return open_driver(f"sim:{boards}", sim_state=path)


def make(path: Path, *starts: int, boards: str = "a100-40gb") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MAKE_ONE, str(path), f"sim:{boards}", *map(str, starts)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def create(driver: Driver, start: int = 0, gpu: int = 0) -> int:
    seen = driver.gpus()[gpu]
    profile: Profile = seen.profiles[0]
    return driver.create_gpu_instance(seen.uuid, profile, profile.placements[start])


def raised(call: Callable[[], object]) -> MigctlError:
    with pytest.raises(MigctlError) as caught:
        call()
    return caught.value


def test_reading_writes_nothing(path: Path) -> None:
    with open_sim(path, "a100-40gbx2,t4") as driver:
        assert len(driver.gpus()) == 3
    assert not path.parent.exists()


def test_the_first_change_makes_the_file_and_the_machine_stays_the_same(path: Path) -> None:
    with open_sim(path) as driver:
        before, boot = driver.gpus()[0].uuid, driver.boot_id
        create(driver)
    with open_sim(path) as driver:
        assert (driver.gpus()[0].uuid, driver.boot_id) == (before, boot)
        assert [i.gi_id for i in driver.gpus()[0].instances] == [7]


def test_a_change_is_seen_by_a_session_that_is_open(path: Path) -> None:
    with open_sim(path) as one, open_sim(path) as other:
        for start in range(7):
            create(one, start)
            assert len(other.gpus()[0].instances) == start + 1


def test_two_processes_share_the_machine(path: Path) -> None:
    processes = [make(path, 0, 1, 2), make(path, 3, 4, 5, 6)]
    made = [int(line) for process in processes for line in process.communicate(timeout=30)[0].split()]
    assert sorted(made) == list(range(7, 14))
    assert len(SimState.load(path).gpus[0].instances) == 7


def test_two_processes_cannot_both_have_one_place(path: Path) -> None:
    processes = [make(path, 2), make(path, 2)]
    for process in processes:
        process.communicate(timeout=30)
    assert sorted(process.returncode for process in processes) == [0, 1]


def test_a_file_of_other_boards_is_refused_with_the_way_out(path: Path) -> None:
    SimState.create(path, "a30")
    error = raised(lambda: open_sim(path, "a100-40gb"))
    assert (type(error), error.id) == (HostError, "simulator-other-boards")
    assert str(path) in error.message
    assert "sim:a30" in str(error.hint)


def test_off_at_the_start_counts_only_until_the_file_exists(path: Path) -> None:
    SimState.create(path, "a100-40gb:off")
    with open_sim(path, "a100-40gb") as driver:
        mode = driver.gpus()[0].mig
    assert mode is not None
    assert not mode.current


def edited(**changes: object) -> Callable[[dict[str, Any]], object]:
    return lambda data: data | changes


def gpu_edited(**changes: object) -> Callable[[dict[str, Any]], object]:
    return lambda data: data | {"gpus": [data["gpus"][0] | changes]}


INSTANCE = {"gi_id": 7, "profile_id": 19, "start": 0, "size": 1, "serial": 1, "compute": [], "activity": 0.0}
GARBAGE: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda data: [data], "not an object"),
    (edited(version=2), "version is 2"),
    (edited(colour="red"), "colour is unknown"),
    (lambda data: {k: v for k, v in data.items() if k != "boots"}, "boots is missing"),
    (edited(boots="one"), "state.boots"),
    (edited(boots=True), "state.boots"),
    (edited(serial=-1), "state.serial"),
    (edited(delays_s={"create": "slow"}), "delays_s.create"),
    (edited(faults=[{"call": "x"}]), "state.faults[0]"),
    (gpu_edited(board="voodoo"), "voodoo"),
    (gpu_edited(activation="later"), "activation"),
    (gpu_edited(board="t4"), "has no MIG"),
    (gpu_edited(instances=[INSTANCE, INSTANCE | {"gi_id": 8}]), "cannot exist there"),
    (gpu_edited(instances=[INSTANCE | {"profile_id": 1}]), "cannot exist there"),
    (gpu_edited(current=False, instances=[INSTANCE]), "although MIG mode is off"),
]


@pytest.mark.parametrize(("damage", "says"), GARBAGE)
def test_a_damaged_file_is_refused_by_name(path: Path, damage: Callable[[dict[str, Any]], object], says: str) -> None:
    SimState.create(path, "a100-40gb")
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    error = raised(lambda: open_sim(path))
    assert (type(error), error.id) == (HostError, "simulator-state")
    assert says in error.message
    assert str(path) in error.message
    assert "MIGCTL_SIM_STATE" in str(error.hint)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"null", b"[" * 100_000])
def test_what_is_no_json_is_refused_by_name(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert raised(lambda: open_sim(path)).id == "simulator-state"


def test_a_folder_in_its_place_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    assert raised(lambda: open_sim(path)).id == "simulator-state"


def test_a_failed_change_leaves_the_file_as_it_was(path: Path) -> None:
    SimState.create(path, "a100-40gb")
    before = path.read_bytes()
    with open_sim(path) as driver:
        create(driver, 0)
        after = path.read_bytes()
        assert raised(lambda: create(driver, 0)).id == "no-room"
    assert before != after == path.read_bytes()


# -- planned failures


def test_a_planned_error_meets_the_nth_call_once(path: Path) -> None:
    SimState.create(path, "a100-40gb")
    with SimState.edit(path) as state:
        state.set_fault(CREATE, nth=2, code=Code.IN_USE)
    with open_sim(path) as driver:
        assert create(driver, 0) == 7
        assert raised(lambda: create(driver, 1)).id == "gpu-in-use"
        assert create(driver, 1) == 8


def test_a_planned_error_can_last(path: Path) -> None:
    SimState.create(path, "a100-40gbx2")
    with SimState.edit(path) as state:
        state.set_fault(CREATE, times=0, gpu=0, code=Code.UNKNOWN)
    with open_sim(path, "a100-40gbx2") as driver:
        assert [raised(lambda: create(driver)).id for _ in range(3)] == ["nvml-unknown"] * 3
        assert create(driver, gpu=1) == 7


@pytest.mark.parametrize(("after", "left"), [(False, []), (True, [7])])
def test_an_error_before_or_after_the_effect(path: Path, after: bool, left: list[int]) -> None:
    SimState.create(path, "a100-40gb")
    with SimState.edit(path) as state:
        state.set_fault(CREATE, after=after)
    with open_sim(path) as driver:
        raised(lambda: create(driver))
        assert [i.gi_id for i in driver.gpus()[0].instances] == left


@pytest.mark.parametrize(("after", "left"), [(False, [7]), (True, [7, 8])])
def test_death_at_the_second_call_and_never_again(path: Path, after: bool, left: list[int]) -> None:
    SimState.create(path, "a100-40gb")
    with SimState.edit(path) as state:
        state.set_fault(CREATE, "die", nth=2, after=after)
    dying = make(path, 0, 1, 2)
    dying.communicate(timeout=30)
    assert dying.returncode == -9
    assert [i.gi_id for i in SimState.load(path).gpus[0].instances] == left
    again = make(path, 5, 6)
    again.communicate(timeout=30)
    assert again.returncode == 0


def test_a_gpu_that_does_not_answer_is_left_out_and_the_process_ends(path: Path) -> None:
    SimState.create(path, "a100-40gbx2")
    with SimState.edit(path) as state:
        state.set_fault("nvmlDeviceGetMigMode", "hang", gpu=0)
    look = f"""
import time
from pathlib import Path
from migctl.nvml.driver import Driver
from migctl.nvml.models import parse_boards
from migctl.nvml.simulator import Simulator
simulator = Simulator(parse_boards("a100-40gbx2"), Path({str(path)!r}))
driver = Driver(simulator, simulated="a100-40gb x2", answer_timeout_s=0.5)
with driver:
    print([gpu.index for gpu in driver.gpus()], [failure.id for failure in driver.failures])
    began = time.monotonic()
    print([gpu.index for gpu in driver.gpus()], [failure.id for failure in driver.failures], time.monotonic() - began < 0.4)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, timeout=30, env=environment, check=True
    )
    assert done.stdout.splitlines() == ["[1] ['gpu-no-answer']", "[1] ['gpu-no-answer'] True"]


def test_changes_of_one_gpu_take_their_time_one_after_the_other_and_gpus_side_by_side(path: Path) -> None:
    SimState.create(path, "a100-40gbx2")
    with SimState.edit(path) as state:
        state.delays_s = {"create": 0.2}
    began = time.monotonic()
    with open_sim(path, "a100-40gbx2") as driver:
        one, two = driver.gpus()
        threads = [
            threading.Thread(
                target=driver.create_gpu_instance, args=(gpu.uuid, gpu.profiles[0], gpu.profiles[0].placements[s])
            )
            for gpu in (one, two)
            for s in (0, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 0.4 <= time.monotonic() - began < 0.75
    assert [len(gpu.instances) for gpu in SimState.load(path).gpus] == [2, 2]


def test_a_simulated_command_does_not_load_pynvml(path: Path) -> None:
    code = MAKE_ONE + "\nassert 'pynvml' not in sys.modules\n"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(
        [sys.executable, "-c", code, str(path), "sim:a30", "0"],
        env=environment,
        check=True,
        capture_output=True,
        timeout=30,
    )
