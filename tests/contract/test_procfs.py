"""Readers of /proc and cgroups against trees as Linux shows them, and against this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from migctl.core.cpuset import CpuSet
from migctl.errors import HostError
from migctl.host.procfs import (
    boot_id,
    cgroup_cpus,
    memory_total_mib,
    own_affinity,
    process_start_ticks,
)

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1_MOUNT = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 {root} /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset"
)


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
            "proc/self/mountinfo": V1_MOUNT.format(root="/"),
            "sys/fs/cgroup/cpuset/slurm/job_7/cpuset.effective_cpus": "4-7",
            "sys/fs/cgroup/cpuset/slurm/job_7/cpuset.cpus": "4-9",
        },
        "4-7",
    ),
    "version 1 of an older kernel": (
        {
            "proc/self/cgroup": "3:cpuset:/slurm/job_7",
            "proc/self/mountinfo": V1_MOUNT.format(root="/"),
            "sys/fs/cgroup/cpuset/slurm/job_7/cpuset.cpus": "4-9",
        },
        "4-9",
    ),
    "inside a container whose group is mounted as the root": (
        {
            "proc/self/cgroup": "3:cpuset:/docker/4f2a",
            "proc/self/mountinfo": V1_MOUNT.format(root="/docker/4f2a"),
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


def test_the_cgroup_of_another_process_is_read_from_its_own_file(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a",
            "proc/77/cgroup": "0::/b",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/a/cpuset.cpus.effective": "0",
            "sys/fs/cgroup/b/cpuset.cpus.effective": "1",
        },
    )

    assert cgroup_cpus(tmp_path, 77) == CpuSet({1})


def test_own_cgroup_never_allows_less_than_the_affinity() -> None:
    allowed = cgroup_cpus()

    assert allowed is None or own_affinity() <= allowed


def test_boot_id_is_read_and_its_absence_is_an_error(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/sys/kernel/random/boot_id": "0c5a7a0e-7d4d"})

    assert boot_id(tmp_path) == "0c5a7a0e-7d4d"
    with pytest.raises(HostError) as caught:
        boot_id(tmp_path / "nowhere")
    assert caught.value.id == "no-boot-id"


def test_memory_is_in_mib_or_unknown(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/meminfo": "MemTotal:       16384 kB\nMemFree: 1 kB"})

    assert memory_total_mib(tmp_path) == 16
    assert memory_total_mib(tmp_path / "nowhere") is None


def test_start_time_survives_a_name_with_spaces_and_parentheses(tmp_path: Path) -> None:
    before = "R 1 2 2 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 1 0"
    tree(tmp_path, {"proc/9/stat": f"9 (a) b (c)) {before} 123456 9999 1"})

    assert process_start_ticks(9, tmp_path) == 123456
    assert process_start_ticks(10, tmp_path) is None


def test_living_processes_have_a_start_time() -> None:
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        started = process_start_ticks(child.pid)
        own = process_start_ticks(os.getpid())

        assert started is not None
        assert own is not None
        assert started >= own
        child.communicate("")
    assert process_start_ticks(child.pid) is None
