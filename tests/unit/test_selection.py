"""Which GPUs are meant: tables before code."""

from __future__ import annotations

import pytest

from migctl.core.choices import Strategy
from migctl.core.gpu.selection import select_gpus
from migctl.core.plan import GpuSelector
from migctl.errors import HostError, MigctlError, PlanError
from migctl.nvml.models import board_gpu, resolve_board

# A workstation with a display card between its MIG cards, as in NVIDIA's DGX Station example
STATION = tuple(
    board_gpu(resolve_board(key), n) for n, key in enumerate(["a100-80gb", "a100-80gb", "t4", "h100-pcie-80gb"])
)
ONE_MIG = STATION[1:3]
NO_MIG = STATION[2:3]

# selectors, indexes
CHOSEN: list[tuple[list[GpuSelector], list[int]]] = [
    ([GpuSelector(index=2)], [2]),
    ([GpuSelector(index=3), GpuSelector(index=0), GpuSelector(index=0)], [0, 3]),
    ([GpuSelector(model="a100")], [0, 1]),
    ([GpuSelector(model="H100"), GpuSelector(index=1)], [1, 3]),
    ([GpuSelector(all=True)], [0, 1, 2, 3]),
    ([GpuSelector(uuid=STATION[3].uuid.upper())], [3]),
    ([GpuSelector(uuid=STATION[3].uuid[:14])], [3]),
    ([GpuSelector(pci="0000:11:00.0")], [1]),
    ([GpuSelector(pci="00000000:11:00.0")], [1]),
    ([GpuSelector(pci="11:00.0")], [1]),
]


@pytest.mark.parametrize(("selectors", "indexes"), CHOSEN)
def test_selectors_are_a_union_in_the_machines_order(selectors: list[GpuSelector], indexes: list[int]) -> None:
    assert [gpu.index for gpu in select_gpus(selectors, STATION)] == indexes


# selector, id, part of the message, part of the hint
REFUSED: list[tuple[GpuSelector, str, str, str]] = [
    (GpuSelector(index=7), "no-such-gpu", "0 (NVIDIA A100-SXM4-80GB", "migctl status"),
    (GpuSelector(model="A10O"), "no-such-gpu", "3 (NVIDIA H100 PCIe", ""),
    (
        GpuSelector(uuid=STATION[0].uuid[:-1] + "x"),
        "no-such-gpu",
        "no GPU has GPU-",
        f"did you mean {STATION[0].uuid}?",
    ),
    (GpuSelector(uuid="GPU-"), "no-such-gpu", "no GPU has GPU-", ""),
    (GpuSelector(uuid="MIG-5c7c1dd3-5d6a-5a1c-9f4c-2f3d9a8f4b11"), "not-a-gpu", "a part of a GPU", "instance: MIG-"),
    (GpuSelector(uuid="MIG-GPU-3f1d/1/0"), "not-a-gpu", "a part of a GPU", "instance: MIG-"),
    (GpuSelector(uuid="0:1"), "not-a-gpu", "a part of a GPU", "name the GPU"),
    (GpuSelector(pci="0000:99:00.0"), "no-such-gpu", "no GPU has PCI id", ""),
]


@pytest.mark.parametrize(("selector", "id_", "message", "hint"), REFUSED)
def test_what_matches_nothing_is_refused_with_what_is_there(
    selector: GpuSelector, id_: str, message: str, hint: str
) -> None:
    with pytest.raises(PlanError) as caught:
        select_gpus([selector], STATION)

    assert caught.value.id == id_
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_without_a_selector_the_only_gpu_that_would_do_is_taken() -> None:
    assert select_gpus([], STATION[:1], Strategy.SEQUENTIAL) == STATION[:1]
    assert select_gpus([], NO_MIG) == NO_MIG
    assert select_gpus([], ONE_MIG, Strategy.MIG) == ONE_MIG[:1]
    assert select_gpus([], ONE_MIG) == ONE_MIG[:1]


@pytest.mark.parametrize("strategy", [None, Strategy.MIG])
def test_several_gpus_with_mig_and_none_chosen_is_an_error_that_lists_them(strategy: Strategy | None) -> None:
    with pytest.raises(PlanError) as caught:
        select_gpus([], STATION, strategy)

    assert caught.value.id == "which-gpu"
    assert all(gpu.uuid in caught.value.message for gpu in STATION if gpu.mig is not None)
    assert STATION[2].uuid not in caught.value.message


def test_whole_gpus_are_chosen_too_where_there_are_several() -> None:
    with pytest.raises(PlanError, match="2 GPUs would do"):
        select_gpus([], ONE_MIG, Strategy.SHARED)


def test_a_machine_without_a_gpu_is_not_a_mistake_in_the_plan() -> None:
    error: type[MigctlError] = HostError
    with pytest.raises(error, match="no GPU"):
        select_gpus([GpuSelector(index=0)], ())
