"""Both ways of listing instances are asked, and what only one of them tells is said to be doubtful, not taken for nothing."""

from pathlib import Path
from typing import Any

import pytest

from migctl.core.gpu.layout import hidden_error
from migctl.core.gpu.mig import Gpu
from migctl.nvml.codes import Code
from migctl.nvml.open import open_driver
from migctl.nvml.simstate import SimState

BY_PROFILE, BY_INDEX = "nvmlDeviceGetGpuInstances", "nvmlDeviceGetMigDeviceHandleByIndex"
PROFILE, PLACES = "nvmlDeviceGetGpuInstanceProfileInfo", "nvmlDeviceGetGpuInstancePossiblePlacements"
INFO, COMPUTE = "nvmlGpuInstanceGetInfo", "nvmlGpuInstanceGetComputeInstances"


def seen(path: Path, call: str, **how: Any) -> Gpu:
    """A GPU with 3g at 4, a half-made 1g at 2 and 1g at 0, looked at while a call fails."""
    state = SimState.create(path, "a100-40gb")
    state.add_foreign_instance(0, "3g.20gb", 4)
    state.add_foreign_instance(0, "1g.5gb", 2, compute=False)
    state.add_foreign_instance(0, "1g.5gb", 0)
    state.set_fault(call, **how)
    state.save(path)
    with open_driver("sim:a100-40gb", sim_state=path) as driver:
        (gpu,) = driver.gpus()
    return gpu


# (what fails and how, the GI ids told all the same, what the reason says; nothing: they are all known)
DOUBTS: list[tuple[str, dict[str, Any], list[int], str]] = [
    (BY_PROFILE, {"code": Code.NOT_SUPPORTED, "times": 0}, [1, 7], "does not list them"),
    (BY_PROFILE, {"code": Code.NOT_SUPPORTED, "times": 0, "nth": 3}, [1, 7], "does not list them"),
    (BY_PROFILE, {"code": Code.NO_PERMISSION, "times": 0}, [1, 7], "needs root"),
    (PROFILE, {"code": Code.NOT_SUPPORTED, "times": 0}, [1, 7], "tells no profile"),
    (PLACES, {"code": Code.FUNCTION_NOT_FOUND, "times": 0}, [1, 7], "tells no profile"),
    (PROFILE, {"code": Code.NOT_SUPPORTED, "nth": 3}, [1, 7, 9], "GPU instance 1"),  # 3g is missing among the profiles
    (BY_INDEX, {"code": Code.NOT_FOUND, "times": 0}, [1, 7, 9], "GPU instances 1, 7"),
    # it was only just being changed
    (BY_INDEX, {"code": Code.NOT_FOUND, "times": 7}, [1, 7, 9], ""),
    (BY_PROFILE, {"code": Code.NOT_SUPPORTED}, [1, 7, 9], ""),
    (INFO, {"code": Code.INVALID_ARGUMENT}, [1, 7, 9], ""),
    (COMPUTE, {"code": Code.INVALID_ARGUMENT, "nth": 2}, [1, 7, 9], ""),
    ("nvmlDeviceGetGpuInstanceId", {"code": Code.INVALID_ARGUMENT}, [1, 7, 9], ""),
]


@pytest.mark.parametrize(("call", "how", "told", "says"), DOUBTS)
def test_what_the_lists_disagree_on_is_told_with_a_reason(
    tmp_path: Path, call: str, how: dict[str, Any], told: list[int], says: str
) -> None:
    gpu = seen(tmp_path / "sim.json", call, **how)
    assert [instance.gi_id for instance in gpu.instances] == told
    if says:
        assert says in str(gpu.instances_reason)
        assert gpu.instances_doubtful == (says != "needs root")
    else:
        assert gpu.instances_reason is None
        assert [len(instance.compute_instances) for instance in gpu.instances] == [1, 1, 0]


def test_nothing_is_planned_on_a_gpu_whose_lists_disagree(tmp_path: Path) -> None:
    gpu = seen(tmp_path / "sim.json", BY_PROFILE, code=Code.NOT_SUPPORTED, times=0)
    error = hidden_error(gpu)
    assert (error.id, "needs_root" in error.data) == ("instances-doubtful", False)
    assert "does not list them" in error.message


def test_a_query_of_an_unknown_version_is_asked_in_the_first(tmp_path: Path) -> None:
    gpu = seen(tmp_path / "sim.json", PROFILE, code=Code.INVALID_ARGUMENT)
    assert [p.name for p in gpu.profiles][:2] == ["1g.5gb", "1g.5gb+me"]
    assert gpu.instances_reason is None
