"""From what a job asks for to a profile: tables before code."""

from __future__ import annotations

import pytest

from migctl.core.gpu.mig import MigMode
from migctl.core.gpu.sizes import auto_candidates, near_miss_notice, options
from migctl.core.plan import Auto, ByInstance, ByMemory, ByProfile, BySlices, GpuRequest
from migctl.errors import DoesNotFit, HostError, MigctlError, PlanError
from migctl.nvml.models import board_gpu, resolve_board

GPUS = {
    key: board_gpu(resolve_board(key))
    for key in ("a100-40gb", "a30", "h200-141gb", "rtx-pro-6000-blackwell-96gb", "t4")
}

# board, request, profile
FOUND: list[tuple[str, GpuRequest, str]] = [
    ("a100-40gb", ByProfile("2g.10gb"), "2g.10gb"),
    ("a100-40gb", ByProfile("MIG 1g.5gb"), "1g.5gb"),
    ("a100-40gb", ByProfile("1g.5gb+me"), "1g.5gb+me"),
    ("a100-40gb", ByProfile("1g.5gb.me"), "1g.5gb+me"),
    ("rtx-pro-6000-blackwell-96gb", ByProfile("1g.24gb.me.all"), "1g.24gb+me.all"),
    ("a100-40gb", ByMemory(4864), "1g.5gb"),
    ("a100-40gb", ByMemory(4865), "2g.10gb"),  # 1g.10gb has as many memory slices and fewer compute slices
    ("a100-40gb", ByMemory(10240), "4g.20gb"),
    ("a100-40gb", ByMemory(20000), "7g.40gb"),
    ("rtx-pro-6000-blackwell-96gb", ByMemory(24000), "1g.24gb"),
    ("a100-40gb", BySlices(1), "1g.5gb"),
    ("a100-40gb", BySlices(7), "7g.40gb"),
    ("a30", BySlices(4), "4g.24gb"),
]


@pytest.mark.parametrize(("board", "request_", "profile"), FOUND)
def test_a_request_means_one_profile_of_this_very_gpu(board: str, request_: GpuRequest, profile: str) -> None:
    assert options(request_, GPUS[board]).name == profile


# board, request, class, part of the message, part of the hint
REFUSED: list[tuple[str, GpuRequest, type[MigctlError], str, str]] = [
    ("h200-141gb", ByProfile("3g.70gb"), PlanError, "3g.71gb", "did you mean 3g.71gb?"),
    ("h200-141gb", ByProfile("1g.33gb"), PlanError, "1g.18gb", "did you mean 1g.35gb?"),
    ("a100-40gb", ByProfile("19"), PlanError, "has no profile 19", "did you mean 1g.5gb?"),
    ("a100-40gb", ByProfile("7g.80gb"), PlanError, "it offers 1g.5gb", "did you mean 7g.40gb?"),
    ("a100-40gb", ByProfile("large"), PlanError, "it offers 1g.5gb", "migctl profiles"),
    ("a100-40gb", BySlices(5), PlanError, "with 1, 2, 3, 4, 7", "migctl profiles"),
    ("a100-40gb", ByMemory(41000), DoesNotFit, "the largest, 7g.40gb has 39.2 GiB. A near miss", "less memory"),
    ("a100-40gb", Auto(), PlanError, "names no profile", ""),
    ("a100-40gb", ByInstance("MIG-a"), PlanError, "names no profile", ""),
    ("t4", BySlices(1), HostError, "it has no MIG", "strategy: shared"),
]


@pytest.mark.parametrize(("board", "request_", "kind", "message", "hint"), REFUSED)
def test_what_this_gpu_does_not_have_is_refused_with_what_it_has(
    board: str, request_: GpuRequest, kind: type[MigctlError], message: str, hint: str
) -> None:
    with pytest.raises(kind) as caught:
        options(request_, GPUS[board])

    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_a_driver_that_names_no_profiles_while_mig_mode_is_off_is_not_a_mistake_in_the_plan() -> None:
    from dataclasses import replace

    off = replace(GPUS["a100-40gb"], profiles=(), mig=MigMode(current=False, pending=False))

    with pytest.raises(HostError, match="only in MIG mode"):
        options(ByProfile("1g.5gb"), off)


def test_auto_means_plain_profiles_largest_first() -> None:
    assert [p.name for p in auto_candidates(GPUS["a100-40gb"])] == [
        "7g.40gb", "4g.20gb", "3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb",
    ]  # fmt: skip
    assert [p.name for p in auto_candidates(GPUS["rtx-pro-6000-blackwell-96gb"])] == ["4g.96gb", "2g.48gb", "1g.24gb"]


def test_a_near_miss_is_said_and_nothing_else() -> None:
    gpu = GPUS["a100-40gb"]
    notice = near_miss_notice(ByMemory(10240), gpu)

    assert notice is not None
    assert notice.message == "memory: 10.0 GiB takes 4g.20gb; 2g.10gb has 9.6 GiB"
    assert near_miss_notice(ByMemory(15000), gpu) is None
    assert near_miss_notice(ByMemory(4864), gpu) is None
    assert near_miss_notice(BySlices(1), gpu) is None
