"""What affinity, cgroups and quotas leave of a machine, against trees as Linux shows them, and against this machine."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.errors import HostError
from migctl.host.cpulimits import allowed_cpus, cgroup_cpus, cpu_quota
from migctl.host.procfs import own_affinity
from migctl.runtimes.engine_host import engine_quota
from tests.support.machines import V1_MOUNTS, V2_MOUNT

OF_A_CONTAINER = "34 31 0:31 {root} /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset"


def tree(root: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


CGROUPS = {
    "version 2": (
        {
            "proc/self/cgroup": "0::/user.slice/session-1.scope",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/user.slice/session-1.scope/cpuset.cpus.effective": "0-3,8-11",
        },
        "0-3,8-11",
    ),
    "version 2 without the controller in the leaf: the parent's": (
        {
            "proc/self/cgroup": "0::/user.slice/session-1.scope",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/user.slice/session-1.scope/pids.max": "max",
            "sys/fs/cgroup/user.slice/cpuset.cpus.effective": "0-5",
        },
        "0-5",
    ),
    "version 1": (
        {
            "proc/self/cgroup": "3:cpuset:/slurm/job_7\n2:cpu,cpuacct:/\n0::/init.scope",
            "proc/self/mountinfo": V1_MOUNTS,
            "sys/fs/cgroup/cpuset/slurm/job_7/cpuset.effective_cpus": "4-7",
            "sys/fs/cgroup/cpuset/slurm/job_7/cpuset.cpus": "4-9",
        },
        "4-7",
    ),
    "version 1 of an older kernel": (
        {
            "proc/self/cgroup": "3:cpuset:/slurm/job_7",
            "proc/self/mountinfo": V1_MOUNTS,
            "sys/fs/cgroup/cpuset/slurm/job_7/cpuset.cpus": "4-9",
        },
        "4-9",
    ),
    "inside a container whose group is mounted as the root": (
        {
            "proc/self/cgroup": "3:cpuset:/docker/4f2a",
            "proc/self/mountinfo": OF_A_CONTAINER.format(root="/docker/4f2a"),
            "sys/fs/cgroup/cpuset/cpuset.effective_cpus": "0-1",
        },
        "0-1",
    ),
    "inside a container with a cgroup namespace": (
        {
            "proc/self/cgroup": "0::/../../system.slice/x.service",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/cpuset.cpus.effective": "2-3",
        },
        "2-3",
    ),
    "nothing mounted: the usual place": (
        {"proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/cpuset.cpus.effective": "1"},
        "1",
    ),
    "no cpuset controller at all": ({"proc/self/cgroup": "2:cpu:/\n0::/", "proc/self/mountinfo": V2_MOUNT}, None),
    "no /proc": ({}, None),
}


@pytest.mark.parametrize("name", CGROUPS)
def test_cpus_that_the_cgroup_allows(name: str, tmp_path: Path) -> None:
    texts, expected = CGROUPS[name]
    found = cgroup_cpus(tree(tmp_path, texts))

    assert found == (None if expected is None else CpuSet.parse(expected))


V1_QUOTA = "sys/fs/cgroup/cpu,cpuacct{}/cpu.cfs_quota_us"
V1_PERIOD = "sys/fs/cgroup/cpu,cpuacct{}/cpu.cfs_period_us"
QUOTAS = {
    "version 2, of its own group": ({"sys/fs/cgroup/a/b/cpu.max": "150000 100000"}, "0::/a/b", V2_MOUNT, "3/2"),
    "version 2, the smallest on the way up": (
        {"sys/fs/cgroup/a/b/cpu.max": "400000 100000", "sys/fs/cgroup/a/cpu.max": "100000 50000"},
        "0::/a/b",
        V2_MOUNT,
        "2",
    ),
    "version 2, no limit": ({"sys/fs/cgroup/a/cpu.max": "max 100000"}, "0::/a", V2_MOUNT, None),
    "version 2, in a namespace": ({"sys/fs/cgroup/cpu.max": "50000 100000"}, "0::/", V2_MOUNT, "1/2"),
    "version 1, above": (
        {
            V1_QUOTA.format("/a/b"): "-1",
            V1_PERIOD.format("/a/b"): "100000",
            V1_QUOTA.format("/a"): "250000",
            V1_PERIOD.format("/a"): "100000",
        },
        "4:cpu,cpuacct:/a/b\n0::/",
        V1_MOUNTS,
        "5/2",
    ),
    "version 1, no limit": (
        {V1_QUOTA.format(""): "-1", V1_PERIOD.format(""): "100000"},
        "4:cpu,cpuacct:/",
        V1_MOUNTS,
        None,
    ),
    "nonsense": ({"sys/fs/cgroup/cpu.max": "a lot"}, "0::/", V2_MOUNT, None),
    "a period of nothing": ({"sys/fs/cgroup/cpu.max": "1000 0"}, "0::/", V2_MOUNT, None),
    "no files": ({}, "0::/", V2_MOUNT, None),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_the_smallest_quota_on_the_way_up_counts(name: str, tmp_path: Path) -> None:
    texts, group, mounts, expected = QUOTAS[name]
    tree(tmp_path, {"proc/self/cgroup": group, "proc/self/mountinfo": mounts, **texts})

    assert cpu_quota(tmp_path) == (None if expected is None else Fraction(expected))


ENGINES = {
    "version 2, systemd": ({"system.slice/cpu.max": "800000 100000"}, "2", "systemd", "8"),
    "version 2, of the container that the engine runs in": ({"cpu.max": "300000 100000"}, "2", "cgroupfs", "3"),
    "version 1": ({"cpu/docker/cpu.cfs_quota_us": "200000", "cpu/docker/cpu.cfs_period_us": "100000"}, "1", "x", "2"),
    "none": ({"system.slice/cpu.max": "max 100000"}, "2", "systemd", None),
}


@pytest.mark.parametrize("name", ENGINES)
def test_the_engines_quota_is_that_of_the_cgroup_above_its_containers(name: str, tmp_path: Path) -> None:
    texts, version, driver, expected = ENGINES[name]
    found = engine_quota({"CgroupVersion": version, "CgroupDriver": driver}, tree(tmp_path, texts))

    assert found == (None if expected is None else Fraction(expected))


def test_below_another_root_affinity_and_cgroup_are_those_that_are_kept_there(tmp_path: Path) -> None:
    online = CpuSet(range(16))
    assert allowed_cpus(online, tmp_path) == online
    tree(tmp_path, {"proc/self/status": "Cpus_allowed_list:\t2-9", "proc/self/cgroup": "0::/a"})
    assert allowed_cpus(online, tmp_path) == CpuSet.parse("2-9")
    tree(tmp_path, {"sys/fs/cgroup/a/cpuset.cpus.effective": "8-31"})
    assert allowed_cpus(online, tmp_path) == CpuSet.parse("8-9")


NONSENSE = ["some", "3-1", "0-", "-1", "\x00", "0,,,x"]


@pytest.mark.parametrize("text", NONSENSE)
@pytest.mark.parametrize("file", ["proc/self/status", "sys/fs/cgroup/a/cpuset.cpus.effective"])
def test_nonsense_in_a_file_is_named(file: str, text: str, tmp_path: Path) -> None:
    tree(tmp_path, {"proc/self/cgroup": "0::/a"})
    tree(tmp_path, {file: f"Cpus_allowed_list:\t{text}" if "status" in file else text})

    with pytest.raises(HostError, match="cannot be understood") as caught:
        allowed_cpus(CpuSet(range(4)), tmp_path)
    assert file in caught.value.message


def test_on_this_machine_the_cgroup_never_allows_less_than_the_affinity_and_a_quota_is_some_time() -> None:
    allowed, quota = cgroup_cpus(), cpu_quota()

    assert allowed_cpus(CpuSet()) == own_affinity()
    assert allowed is None or own_affinity() <= allowed
    assert quota is None or quota > 0
