"""Whatever is made and removed on a simulated GPU: instances never overlap, ids and UUIDs are distinct, and both come back."""

from hypothesis import given
from hypothesis import strategies as st

from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.nvml import simrules
from migctl.nvml.models import boards, gpu_uuid, resolve_board
from migctl.nvml.simmodel import SimGpu

MIG_BOARDS = [key for key in boards() if key != "t4"]


@given(st.data())
def test_random_creation_and_removal_keep_the_gpu_sound(data: st.DataObject) -> None:
    board = resolve_board(data.draw(st.sampled_from(MIG_BOARDS)))
    gpu = SimGpu(board.key, gpu_uuid(board.key, 0), "0000:10:00.0", current=True, pending=True)
    ids: dict[tuple[int, int], int] = {}
    for serial in range(1, 16):
        if len(gpu.instances) > 0 and data.draw(st.booleans()):
            del gpu.instances[data.draw(st.integers(0, len(gpu.instances) - 1))]
            continue
        profile = data.draw(st.sampled_from(board.profiles))
        place = data.draw(st.sampled_from(profile.placements))
        if simrules.refusal(board, gpu, profile, place) is not None:
            continue
        made = simrules.add_instance(board, gpu, profile, place, serial)
        assert ids.setdefault((made.start, made.size), made.gi_id) == made.gi_id
    simrules.check(gpu, "580.65.06")
    places = [Placement(i.start, MemorySlices(i.size)) for i in gpu.instances]
    assert not any(a.overlaps(b) for n, a in enumerate(places) for b in places[:n])
    assert len({i.gi_id for i in gpu.instances}) == len(gpu.instances)


def test_mig_uuids_are_distinct_over_machines_gpus_instances_and_compute_instances() -> None:
    uuids = [
        simrules.mig_uuid(machine, gpu_uuid(board, index), gi_id, ci_id)
        for machine in ("/a/sim.json", "/b/sim.json")
        for board in MIG_BOARDS
        for index in range(8)
        for gi_id in range(15)
        for ci_id in range(7)
    ]
    assert len(set(uuids)) == len(uuids)


def test_mig_uuids_differ_where_gpu_uuids_differ_in_one_character() -> None:
    base = gpu_uuid("a100-40gb", 0)
    others = [
        base[:i] + ("0" if base[i] != "0" else "1") + base[i + 1 :] for i in range(4, len(base)) if base[i] != "-"
    ]
    assert len({simrules.mig_uuid("", uuid, 7, 0) for uuid in [base, *others]}) == 33
