"""What the hardware allows: where instances fit, which ids they get, which compute instances they can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from migctl.core.gpu.mig import ComputeProfile, MemorySlices, Placement, Profile
from migctl.errors import PlanError
from migctl.nvml.codes import Code
from migctl.nvml.models import Board, board_under, name_uuid
from migctl.nvml.records import MalformedError
from migctl.nvml.simmodel import SimCompute, SimGpu, SimInstance

_SLICES_BY_INDEX: Final = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7}
"""NVML_COMPUTE_INSTANCE_PROFILE_*: compute slices by index."""
_REV1: Final = 7
"""1_SLICE_REV1 among them."""
_ID_BASE: Final = 16
"""On listings the id of a compute instance profile is its index; nothing documents that, so here no id is an index."""


def refusal(board: Board, gpu: SimGpu, profile: Profile, wanted: Placement) -> Code | None:
    """Why this GPU instance cannot be made now; `None`: it can."""
    if not gpu.current:
        return Code.NOT_SUPPORTED
    present = [(profile_of(board, i), Placement(i.start, MemorySlices(i.size))) for i in gpu.instances]
    others = [other.attribute for other, _ in present]
    full = (
        wanted not in profile.placements
        or any(wanted.overlaps(place) for _, place in present)
        or sum(other.compute_slices for other, _ in present) + profile.compute_slices > board.compute_slices
        or sum(other is profile for other, _ in present) >= profile.max_instances
        # REV1 (+me) exists once per GPU, whatever its size; ALL_ME leaves room for NO_ME only (nvml.h)
        or (profile.attribute == "+me" and "+me" in others)
        or (
            not board.mixes_four_and_three
            and {3, 4} <= {profile.compute_slices, *(o.compute_slices for o, _ in present)}
        )
        or ("+me.all" in others and profile.attribute != "-me")
        or (profile.attribute == "+me.all" and any(attribute != "-me" for attribute in others))
    )
    return Code.INSUFFICIENT_RESOURCES if full else None


def instance_id(board: Board, placement: Placement) -> int:
    """GI id of a placement: the nodes of the tree of halves, from the whole GPU (0) down, left to right.

    Seen on listings of A100, A30 and RTX PRO 6000 (the two halves of an eight-wide GPU count from the right); not documented.
    """
    nodes = board.memory_slices // placement.size
    node = placement.start // placement.size
    if nodes == 2 and board.memory_slices == 8:
        node = 1 - node
    return nodes - 1 + node


def mig_uuid(machine: str, gpu_uuid: str, gi_id: int, ci_id: int) -> str:
    """UUID of a MIG device: no two machines share one; as on hardware it comes back when the same instance is made again."""
    return "MIG-" + name_uuid(f"{machine}/{gpu_uuid}/{gi_id}/{ci_id}")


def compute_profiles(board: Board, profile: Profile) -> tuple[ComputeProfile, ...]:
    """The compute instances that a GPU instance of this profile can hold, by index; two can have all its slices.

    1_SLICE_REV1 is offered beside 1_SLICE, which has the SMs of the smallest instance (NVIDIA's DRA driver skips the former where
    it lists them), 7_SLICE_NVL beside 7_SLICE (nvml.h tells what each is for).
    """
    variant = board.variants.get(profile.id)
    every = profile.multiprocessors
    single = min(p.multiprocessors for p in board.profiles) if variant == _REV1 else every // profile.compute_slices
    plain = [
        ComputeProfile(
            index,
            index + _ID_BASE,
            slices,
            single if slices == 1 else every * slices // profile.compute_slices,
            profile.compute_slices // slices,
        )
        for index, slices in _SLICES_BY_INDEX.items()
        if slices <= profile.compute_slices
    ]
    extra = [] if variant is None else [ComputeProfile(variant, variant + _ID_BASE, profile.compute_slices, every, 1)]
    return (*plain, *extra)


def whole_compute_profile(board: Board, profile: Profile) -> ComputeProfile:
    """What nvidia-smi's `-C` makes: the plain one of the same slices, on a REV2 instance 1_SLICE_REV1 (seen on GH200)."""
    whole = [p for p in compute_profiles(board, profile) if p.slices == profile.compute_slices]
    return next((p for p in whole if p.index == _REV1), whole[0])


def add_instance(board: Board, gpu: SimGpu, profile: Profile, placement: Placement, serial: int) -> SimInstance:
    """Make a GPU instance that `refusal` had nothing against."""
    made = SimInstance(instance_id(board, placement), profile.id, placement.start, placement.size, serial)
    gpu.instances.append(made)
    gpu.instances.sort(key=lambda instance: instance.gi_id)
    return made


def compute_refusal(board: Board, instance: SimInstance, profile: ComputeProfile) -> Code | None:
    """Why this compute instance cannot be made now; `None`: it can."""
    used = sum(compute.slices for compute in instance.compute)
    full = used + profile.slices > profile_of(board, instance).compute_slices
    return Code.INSUFFICIENT_RESOURCES if full else None


def add_compute(
    gpu: SimGpu, instance: SimInstance, profile: ComputeProfile, serial: int, uuid: Callable[[int], str]
) -> SimCompute:
    """Make a compute instance that `compute_refusal` had nothing against; ids and MIG device indices are the lowest free ones.

    Args:
        uuid: the MIG UUID for its CI id.
    """
    ci_id = _lowest_free({compute.ci_id for compute in instance.compute})
    index = _lowest_free({compute.index for other in gpu.instances for compute in other.compute})
    made = SimCompute(ci_id, profile.index, profile.slices, index, serial, uuid(ci_id))
    instance.compute.append(made)
    return made


def check(gpu: SimGpu, driver: str) -> None:
    """Raise `MalformedError` where the data describes what no GPU could be in under that driver."""
    try:
        board = board_under(gpu.board, driver)
    except PlanError as error:
        raise MalformedError(str(error)) from error
    trial = SimGpu(gpu.board, gpu.uuid, gpu.pci, current=True, pending=True)
    if gpu.current and not board.profiles:
        raise MalformedError(f"a {gpu.board} has no MIG")
    if gpu.instances and not gpu.current:
        raise MalformedError("instances exist although MIG mode is off")
    for instance in gpu.instances:
        profile, place = board.profile(instance.profile_id), Placement(instance.start, MemorySlices(instance.size))
        if profile is None or refusal(board, trial, profile, place) is not None:
            raise MalformedError(
                f"instance {instance.gi_id} (profile id {instance.profile_id} at {place}) cannot exist there"
            )
        trial.instances.append(instance)


def profile_of(board: Board, instance: SimInstance) -> Profile:
    """The profile of an instance that `check` had nothing against."""
    found = board.profile(instance.profile_id)
    assert found is not None
    return found


def _lowest_free(taken: set[int]) -> int:
    return next(number for number in range(len(taken) + 1) if number not in taken)
