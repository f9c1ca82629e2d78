"""Who holds a GPU: cgroup paths, trees of /proc written as folders, and the words and advice made of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from migctl.core.others.cgroups import Container, cgroup_paths, container_of, service_of, slurm_job_of
from migctl.core.others.holders import (
    DeviceNode,
    Holder,
    KernelModule,
    Purpose,
    Sighting,
    advice,
    held_by,
    holder_name,
)
from migctl.host.holders import DevicePlaces, find_holders
from tests.support.other_user import NOBODY, as_user, needs_root, open_folder

ID = "0123456789abcdef" * 4
POD = "8f6f4d0e-4b7e-4a67-9d5c-2f1f2f7d9a10"
GPU = DeviceNode("/dev/nvidia0", "GPU-a")
SLICE = DeviceNode("/dev/nvidia-caps/nvidia-cap12", "GPU-a", 3)

# (what wrote it, /proc/PID/cgroup, container)
CONTAINERS = [
    ("docker, cgroupfs, v1", f"12:cpuset:/docker/{ID}\n1:name=systemd:/docker/{ID}\n", Container("docker", ID)),
    ("docker, systemd, v2", f"0::/system.slice/docker-{ID}.scope\n", Container("docker", ID)),
    ("docker with a parent group", f"0::/lab/docker/{ID}\n", Container("docker", ID)),
    ("podman as root", f"0::/machine.slice/libpod-{ID}.scope/container\n", Container("podman", ID)),
    (
        "rootless podman",
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope\n",
        Container("podman", ID),
    ),
    (
        "kubernetes, systemd, containerd",
        f"0::/kubepods.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n",
        Container("containerd", ID, POD),
    ),
    (
        "kubernetes, cgroupfs",
        f"5:devices:/kubepods/besteffort/pod{POD}/{ID}\n",
        Container("containerd", ID, POD),
    ),
    (
        "kubernetes, cri-o",
        f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/crio-{ID}.scope\n",
        Container("cri-o", ID, POD),
    ),
    ("nerdctl", f"0::/system.slice/nerdctl-{ID}.scope\n", Container("containerd", ID)),
    ("an engine not known", f"0::/garden/{ID}\n", Container("container", ID)),
    ("lxc", "0::/lxc.payload.lab-7/init.scope\n", Container("lxc", "lab-7")),
    ("a service", "0::/system.slice/nvidia-persistenced.service\n", None),
    ("a login session", "0::/user.slice/user-1000.slice/session-3.scope\n", None),
    ("the root group", "0::/\n", None),
    ("a short hexadecimal name", "0::/docker/0123456789ab\n", None),
    ("nothing", "", None),
]


@pytest.mark.parametrize(("text", "container"), [row[1:] for row in CONTAINERS], ids=[row[0] for row in CONTAINERS])
def test_a_container_is_known_by_its_cgroup_whoever_made_it(text: str, container: Container | None) -> None:
    assert container_of(cgroup_paths(text)) == container


@pytest.mark.parametrize(
    ("text", "unit", "job"),
    [
        ("0::/system.slice/nvidia-dcgm.service\n", "nvidia-dcgm.service", None),
        ("1:name=systemd:/system.slice/nvsm.service\n", "nvsm.service", None),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-jupyter.service\n",
            "app-jupyter.service",
            None,
        ),
        ("0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", None, None),
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", None, 4711),
        ("9:cpuset:/slurm/uid_1000/job_12/step_batch\n", None, 12),
        ("0::/system.slice/slurmd.service\n", "slurmd.service", None),
    ],
)
def test_services_and_slurm_jobs_are_known_by_their_cgroup(text: str, unit: str | None, job: int | None) -> None:
    paths = cgroup_paths(text)

    assert (service_of(paths), slurm_job_of(paths)) == (unit, job)


@dataclass
class Proc:
    """A /proc written as folders."""

    root: Path

    def process(
        self,
        pid: int,
        *,
        command: str = "python train.py",
        uid: int = 1000,
        cgroup: str = "0::/\n",
        files: tuple[str, ...] = (),
        maps: str = "",
        parent: int = 1,
        flags: int = 0,
        readable: bool = True,
    ) -> None:
        folder = self.root / f"proc/{pid}"
        (folder / "fd").mkdir(parents=True)
        name = command.split()[0].rpartition("/")[2][:15] if command else "kworker/0:1"
        (folder / "cmdline").write_text("\0".join(command.split()) + "\0" if command else "")
        (folder / "comm").write_text(f"{name}\n")
        (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (folder / "cgroup").write_text(cgroup)
        (folder / "maps").write_text(maps)
        fields = ["S", str(parent), "1", "1", "0", "-1", str(flags), *["0"] * 12, str(pid * 10), "0"]
        (folder / "stat").write_text(f"{pid} ({name}) o) {' '.join(fields)}\n")
        for number, target in enumerate(("/dev/null", "socket:[17]", *files)):
            (folder / "fd" / str(number)).symlink_to(target)
        if not readable:
            (folder / "fd").chmod(0)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_everybody_with_the_device_file_open_is_found_and_nobody_else(proc: Proc) -> None:
    proc.process(10, command="/usr/bin/nvidia-persistenced --verbose", uid=0, files=("/dev/nvidia0", "/dev/nvidia1"),
                 cgroup="0::/system.slice/nvidia-persistenced.service\n")  # fmt: skip
    proc.process(11, files=("/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia0-not", "/home/a/dev/nvidia0"))
    proc.process(12, files=("/dev/nvidia0",), cgroup=f"0::/system.slice/docker-{ID}.scope\n", uid=0)
    proc.process(13, files=("/dev/nvidia-caps/nvidia-cap12",))

    found = find_holders([GPU, SLICE], root=proc.root)

    assert [(h.pid, h.unit, h.container, h.nodes, h.started) for h in found.holders] == [
        (10, "nvidia-persistenced.service", None, (GPU,), 100),
        (12, None, Container("docker", ID), (GPU,), 120),
        (13, None, None, (SLICE,), 130),
    ]
    assert found.holders[0].stoppable
    assert found.complete


def test_a_mapping_counts_although_the_file_is_closed(proc: Proc) -> None:
    proc.process(
        10, maps="7f00-7f01 rw-s 00000000 00:05 301   /dev/nvidia0\n7f02-7f03 r-xp 0 08:01 7 /usr/lib/libc.so\n"
    )
    proc.process(11, maps="7f00-7f01 r-xp 00000000 08:01 302   /usr/lib/libnvidia-ml.so.1\n")

    assert [h.pid for h in find_holders([GPU], root=proc.root).holders] == [10]


def test_own_jobs_are_named_by_container_or_by_the_process_that_started_them(proc: Proc) -> None:
    proc.process(20, command="python train.py", files=())
    proc.process(21, command="python worker", files=("/dev/nvidia0",), parent=20)
    proc.process(22, files=("/dev/nvidia0",), cgroup=f"0::/docker/{ID}\n")
    proc.process(23, files=("/dev/nvidia0",), parent=1)

    found = find_holders([GPU], root=proc.root, jobs={ID: "sweep/a"}, job_pids={20: "sweep/b"})

    assert [(h.pid, h.job) for h in found.holders] == [(21, "sweep/b"), (22, "sweep/a"), (23, None)]


@needs_root
def test_what_this_user_may_not_see_is_counted_without_kernel_threads() -> None:
    with open_folder() as root:
        proc = Proc(root)
        proc.process(10, files=("/dev/nvidia0",))
        proc.process(11, uid=0, readable=False)
        proc.process(12, command="", flags=0x00208040, readable=False)
        proc.process(13, readable=False)

        def look() -> object:
            found = find_holders([GPU], root=root)
            return [[h.pid for h in found.holders], found.unseen, found.complete]

        assert as_user(NOBODY, look) == [[10], 2, False]
        assert find_holders([GPU], root=root).complete


def test_processes_that_only_nvml_names_are_found_without_any_device_file(proc: Proc) -> None:
    proc.process(10, command="python train.py")
    proc.process(11, files=("/dev/nvidia0",))

    found = find_holders([], root=proc.root, named={10})

    assert [(h.pid, h.command) for h in found.holders] == [(10, "python train.py")]


def test_the_modules_that_can_hold_a_gpu_are_told_with_their_references(proc: Proc) -> None:
    (proc.root / "proc").mkdir()
    modules = proc.root / "proc/modules"
    modules.write_text(
        "nvidia_drm 118784 4 - Live 0x0\nnvidia_modeset 1511424 1 nvidia_drm, Live 0x0\nnvidia 5 9 nvidia_modeset, Live 0x0\n"
    )

    assert find_holders([GPU], root=proc.root, modules=modules).modules == (
        KernelModule("nvidia_drm", 4),
        KernelModule("nvidia_modeset", 1),
    )


def test_device_files_of_instances_come_from_the_drivers_list_by_device_minor(tmp_path: Path) -> None:
    minors = tmp_path / "mig-minors"
    minors.write_text(
        "config 1\nmonitor 2\ngpu0/gi3/access 30\ngpu0/gi3/ci0/access 31\ngpu1/gi3/access 165\ngpu1/gi3/ci0/access 166\n"
    )

    assert DevicePlaces(minors=minors).nodes({1: "GPU-b"}, [(1, 3)]) == (
        DeviceNode("/dev/nvidia1", "GPU-b"),
        DeviceNode("/dev/nvidia-caps/nvidia-cap165", "GPU-b", 3),
        DeviceNode("/dev/nvidia-caps/nvidia-cap166", "GPU-b", 3, 0),
    )


def test_an_instance_is_held_by_its_users_else_by_who_holds_the_whole_gpu() -> None:
    monitor = Holder(pid=1, nodes=(GPU,))
    neighbour = Holder(pid=2, nodes=(GPU, DeviceNode("/dev/nvidia-caps/nvidia-cap9", "GPU-a", 9)))
    user = Holder(pid=3, nodes=(GPU, SLICE))
    by_nvml = Holder(pid=4, gi_id=3)

    def who(*holders: Holder) -> list[int]:
        return [h.pid for h in Sighting(holders=holders).on(3).holders]

    assert who(monitor, neighbour, user, by_nvml) == [3, 4]
    assert who(monitor, neighbour) == [1]
    assert who(neighbour) == []


ME = 1000
PERSISTENCED = Holder(pid=812, user="root", uid=0, program="nvidia-persistenced", unit="nvidia-persistenced.service")
DCGM = Holder(pid=900, user="root", uid=0, program="nv-hostengine", unit="nvidia-dcgm.service")
MINE = Holder(pid=77, user="me", uid=ME, program="python", command="python train.py")
ALICES = Holder(pid=78, user="alice", uid=1001, program="python", command="python train.py")
DOCKER = Holder(pid=79, user="root", uid=0, command="python t.py", container=Container("docker", ID))
PODS = Holder(pid=80, user="root", uid=0, command="python t.py", container=Container("containerd", ID, POD))
JOB = Holder(pid=81, user="me", uid=ME, command="python t.py", job="sweep/a")
KUBELET = Holder(pid=82, user="root", uid=0, program="kubelet", unit="kubelet.service")
XORG = Holder(pid=83, user="root", uid=0, program="Xorg", command="/usr/lib/xorg/Xorg :0")
SLURM = Holder(pid=84, user="alice", uid=1001, program="python", command="python t.py", slurm_job=4711)
EXPORTER = Holder(pid=85, user="root", uid=0, program="dcgm-exporter", container=Container("docker", ID))
DRM = (KernelModule("nvidia_drm", 4),)

# (holders, modules, processes unseen, purpose, a part of what is said, a part of the advice)
ADVICE = [
    ((PERSISTENCED,), (), 0, Purpose.MODE, "pid 812 of root (service nvidia-persistenced.service)",
     "add --stop-services, or: sudo systemctl stop nvidia-persistenced   and afterwards   sudo systemctl start nvidia-per"),
    ((DCGM, PERSISTENCED), (), 0, Purpose.RESET, "nvidia-dcgm.service",
     "sudo systemctl stop nvidia-dcgm nvidia-persistenced   and afterwards   sudo systemctl start nvidia-persistenced nvidia-dcgm"),
    ((DCGM,), (), 0, Purpose.DESTROY, "nvidia-dcgm.service", "sudo systemctl stop nvidia-dcgm"),
    ((MINE,), (), 0, Purpose.DESTROY, "pid 77 of me (python train.py)", "kill 77"),
    ((ALICES,), (), 0, Purpose.DESTROY, "pid 78 of alice (python train.py)", "ask alice to end pid 78"),
    ((DOCKER,), (), 0, Purpose.DESTROY, "in docker container 0123456789ab", "docker stop 0123456789ab   once its owner agrees"),
    ((PODS,), (), 0, Purpose.MODE, f"of pod {POD}", f"end pod {POD}"),
    ((JOB,), (), 0, Purpose.DESTROY, "job sweep/a (pid 81 of me)", "migctl stop sweep/a"),
    ((KUBELET,), (), 0, Purpose.MODE, "kubelet.service", "drain this machine, then sudo systemctl stop kubelet"),
    ((XORG,), (), 0, Purpose.RESET, "Xorg :0", "log out of the desktop"),
    ((SLURM,), (), 0, Purpose.MODE, "Slurm job 4711", "wait for Slurm job 4711"),
    ((EXPORTER,), (), 0, Purpose.MODE, "docker container", "docker stop 0123456789ab"),
    ((), DRM, 0, Purpose.RESET, "no process holds it, but the kernel module nvidia_drm (4 in use) is loaded",
     "sudo modprobe -r nvidia_drm nvidia_modeset"),
    ((), DRM, 0, Purpose.DESTROY, "no process that holds it was found", "restarting nvidia-dcgm"),
    ((), (), 0, Purpose.DESTROY, "no process that holds it was found", "restarting nvidia-dcgm is known to help"),
    ((), (), 12, Purpose.DESTROY, "12 processes of other users could not be looked into (needs root)", "with sudo names"),
    ((MINE,), (), 1, Purpose.MODE, "1 process of other users could not be looked into (needs root)", "kill 77"),
]  # fmt: skip


@pytest.mark.parametrize(("holders", "modules", "missing", "purpose", "said", "advised"), ADVICE)
def test_each_holder_is_named_and_gets_the_advice_that_fits_it(
    holders: tuple[Holder, ...],
    modules: tuple[KernelModule, ...],
    missing: int,
    purpose: Purpose,
    said: str,
    advised: str,
) -> None:
    sighting = Sighting(holders=holders, modules=modules, unseen=missing)

    assert said in held_by(sighting, purpose)
    assert advised in advice(sighting, purpose, ME)


def test_nobody_is_told_to_end_somebody_elses_work_by_root_either() -> None:
    assert "kill" not in advice(Sighting(holders=(ALICES,)), Purpose.MODE, 0)
    assert "owner agrees" in advice(Sighting(holders=(DOCKER,)), Purpose.MODE, 0)


def test_many_holders_are_counted_and_a_long_command_is_cut() -> None:
    many = tuple(Holder(pid=pid, user="me", uid=ME, command="python " + "x" * 200) for pid in range(1, 9))

    text = held_by(Sighting(holders=many), Purpose.DESTROY)

    assert text.endswith("4 more")
    assert len(holder_name(many[0])) < 90


def test_hidden_processes_are_told_as_hidden() -> None:
    assert "are hidden from this user (needs root)" in held_by(Sighting(hidden=True), Purpose.MODE)
