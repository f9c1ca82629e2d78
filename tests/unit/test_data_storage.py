"""`storage: auto`: which folders are the data, and what follows from the devices behind them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.core.allocate import allocate
from migctl.core.choices import RuntimeName, Storage
from migctl.core.cpu.topology import uniform_topology
from migctl.core.machine import Machine
from migctl.core.plan import Job, Plan, Volume
from migctl.core.storage import DataDevice, data_paths, together
from migctl.nvml.models import board_gpu, parse_boards

READ = Volume("/data", "/mnt/imagenet", read_only=True)
CODE = Volume("/workspace", "/home/me/code")
NAMED = Volume("/cache", "cache", kind="volume")
JOB = Job(name="a", origin="a", image="x")
NVME = DataDevice(path="/mnt", kind=Storage.NVME, what="nvme0n1")
HDD = DataDevice(path="/old", kind=Storage.HDD, what="sda")
NFS = DataDevice(path="/net", kind=None, what="a network file system (nfs4)")


@pytest.mark.parametrize(
    ("job", "paths"),
    [
        (replace(JOB, volumes=(CODE, READ)), ("/mnt/imagenet",)),
        (replace(JOB, volumes=(CODE, NAMED)), ("/home/me/code",)),
        (replace(JOB, volumes=(NAMED,)), ()),
        (JOB, ()),
        (replace(JOB, image=None), ("/plan",)),
        (replace(JOB, image=None, working_dir="/srv/train"), ("/srv/train",)),
    ],
)
def test_what_is_mounted_read_only_is_data(job: Job, paths: tuple[str, ...]) -> None:
    assert data_paths(job, "/plan") == paths


def test_several_folders_must_agree() -> None:
    assert together([NVME, replace(NVME, path="/b")]) == NVME
    assert together([NVME, NFS]) == NFS
    assert together([]).kind is None
    mixed = together([NVME, HDD])
    assert mixed.kind is None
    assert mixed.what == "they are on nvme and hdd"


@pytest.mark.parametrize(
    ("device", "workers"), [(NVME, 5), (HDD, 2), (NFS, 4), (None, 4)], ids=["nvme", "hdd", "nfs", "elsewhere"]
)
def test_the_device_moves_the_number_of_workers_and_an_unknown_one_is_told(
    device: DataDevice | None, workers: int
) -> None:
    gpus = tuple(board_gpu(slot.board, n) for n, slot in enumerate(parse_boards("a100-40gb")))
    topology = uniform_topology(8, threads=2)
    machine = Machine(
        gpus=gpus,
        topology=topology,
        affinity=topology.online,
        storage={"a": device, "b": device} if device is not None else {},
    )
    jobs = tuple(replace(JOB, name=name, origin=name, storage=Storage.AUTO) for name in ("a", "b"))
    plan = Plan(name="p", path="", folder="/plan", jobs=jobs, runtime=RuntimeName.DOCKER)

    answer = allocate(plan, machine)

    told = [notice for notice in answer.notices if notice.id == "storage-unknown"]
    assert [assignment.cpu.num_workers for assignment in answer.assignments] == [workers, workers]
    assert len(told) == (device is None or device.kind is None)
    assert all("for a, b," in notice.message for notice in told)
