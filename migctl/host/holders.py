"""Who has a GPU's device files open or mapped, as /proc tells it; nothing is opened, stopped or changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from migctl.core.others.cgroups import cgroup_paths, container_of, service_of, slurm_job_of
from migctl.core.others.holders import DeviceNode, Holder, KernelModule, Sighting
from migctl.core.others.procstat import Stat, parse_stat

_KERNEL_THREAD: Final = 0x00200000
"""PF_KTHREAD of the kernel's include/linux/sched.h: such a process has no files."""
_MODULES: Final = ("nvidia_drm", "nvidia_modeset")
_MOST_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlaces:
    """Where a machine's GPU device files are, as the processes that open them see it."""

    folder: PurePosixPath = PurePosixPath("/dev")
    minors: Path = Path("/proc/driver/nvidia-caps/mig-minors")
    """The driver's list of capability → minor number (NVIDIA MIG User Guide, "Device Nodes and Capabilities")."""
    modules: Path = Path("/proc/modules")
    """The kernel's list of loaded modules (proc_modules(5))."""

    @classmethod
    def below(cls, root: Path) -> DevicePlaces:
        """Those of the machine whose /proc lies below `root`; what its processes have open is called /dev there too."""
        return cls(minors=root / "proc/driver/nvidia-caps/mig-minors", modules=root / "proc/modules")

    @classmethod
    def of_simulator(cls, folder: Path) -> DevicePlaces:
        """Those of a simulated machine: ordinary files and lists in one folder."""
        return cls(folder=PurePosixPath(folder.resolve()), minors=folder / "mig-minors", modules=folder / "modules")

    def nodes(self, gpus: Mapping[int, str], instances: Collection[tuple[int, int]] = ()) -> tuple[DeviceNode, ...]:
        """The device files of whole GPUs and of their instances.

        Args:
            gpus: device minor → UUID.
            instances: (device minor, GI id) of those that exist; the driver lists every one that could.
        """
        found = [DeviceNode(str(self.folder / f"nvidia{minor}"), uuid) for minor, uuid in gpus.items()]
        wanted = set(instances)
        for line in (_read(self.minors) or "").splitlines() if wanted else ():
            capability, _, number = line.partition(" ")
            match capability.split("/"):
                case [gpu, gi, *rest] if gpu.startswith("gpu") and gi.startswith("gi") and number.isdigit():
                    minor, gi_id = int(gpu.removeprefix("gpu")), int(gi.removeprefix("gi"))
                    ci_id = int(rest[0].removeprefix("ci")) if rest[0] != "access" else None
                    if (minor, gi_id) in wanted and minor in gpus:
                        path = str(self.folder / "nvidia-caps" / f"nvidia-cap{number}")
                        found.append(DeviceNode(path, gpus[minor], gi_id, ci_id))
        return tuple(found)


def find_holders(
    nodes: Sequence[DeviceNode],
    *,
    root: Path = Path("/"),
    modules: Path | None = None,
    named: Collection[int] = (),
    jobs: Mapping[str, str] | None = None,
    job_pids: Mapping[int, str] | None = None,
) -> Sighting:
    """Look through all processes but this one; without device files only at those that NVML names.

    Args:
        nodes: the device files asked for.
        root: root of the machine's /proc.
        modules: the list of loaded modules; `None`: they cannot hold these GPUs.
        named: processes that NVML names; they count although no file of theirs can be seen.
        jobs: container id → `RUN/JOB` of the caller's own.
        job_pids: main process → `RUN/JOB` of the caller's own; what it started belongs to it.
    """
    wanted = {node.path: node for node in nodes}
    numbers = _device_numbers(nodes)
    holders: list[Holder] = []
    unseen = 0
    own = os.getpid() if root == Path("/") else None
    for pid in _pids(root) if nodes else sorted(named):
        if pid == own:
            continue
        opened = _opened(root / f"proc/{pid}", wanted, numbers)
        if opened is None:
            unseen += pid not in named and not _kernel_thread(root, pid)
            opened = ()
        if opened or pid in named:
            holders.append(_holder(root, pid, opened, jobs or {}, job_pids or {}))
    if nodes and not holders:
        # Memory stays mapped when its file is closed. That is rare, and to ask costs more than all else, so it is asked last.
        for pid in _pids(root):
            mapped = _mapped(f"{root / 'proc' / str(pid)}/maps") & wanted.keys()
            if mapped and pid != own:
                holders.append(_holder(root, pid, tuple(wanted[p] for p in sorted(mapped)), jobs or {}, job_pids or {}))
    return Sighting(
        holders=tuple(holders), modules=_modules(modules), unseen=unseen, hidden=bool(nodes) and _hidden(root)
    )


def _pids(root: Path) -> list[int]:
    try:
        names = os.listdir(root / "proc")  # noqa: PTH208 -- names only: hundreds of Path objects are not wanted here
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isdigit())


def _opened(
    process: Path, wanted: Mapping[str, DeviceNode], numbers: Mapping[int, DeviceNode]
) -> tuple[DeviceNode, ...] | None:
    """Which of the device files a process has open or mapped; `None`: this user may not see it."""
    found: dict[str, DeviceNode] = {}
    folder = str(process / "fd")
    try:
        descriptors = os.listdir(folder)  # noqa: PTH208 -- as above
    except PermissionError:
        return None
    except OSError:
        return ()  # it has ended meanwhile
    for descriptor in descriptors:
        path = f"{folder}/{descriptor}"
        try:
            target = os.readlink(path)  # noqa: PTH115 -- as above
        except OSError:
            continue
        node = wanted.get(target)
        if node is None and target.rpartition("/")[2].startswith("nvidia") and numbers:
            # In a container the file can have another name; only here is it looked at, since a stat of just anything can hang.
            node = _by_number(path, numbers)
        if node is not None:
            found[node.path] = node
    return tuple(found.values())


def _mapped(maps: str) -> set[str]:
    """Files with "nvidia" in their path that a process has mapped (proc_pid_maps(5)); few processes have any."""
    try:
        with open(maps, "rb", buffering=0) as file:  # noqa: PTH123 -- as above
            text = file.readall()
    except OSError:
        return set()
    if b"nvidia" not in text:
        return set()
    rows = [line.split(None, 5) for line in text.splitlines() if b"nvidia" in line]
    return {os.fsdecode(row[5]) for row in rows if len(row) == 6}


def _device_numbers(nodes: Sequence[DeviceNode]) -> dict[int, DeviceNode]:
    numbers = {}
    for node in nodes:
        try:
            there = os.stat(node.path)  # noqa: PTH116 -- as above
        except OSError:
            continue
        if stat.S_ISCHR(there.st_mode):
            numbers[there.st_rdev] = node
    return numbers


def _by_number(path: str, numbers: Mapping[int, DeviceNode]) -> DeviceNode | None:
    try:
        there = os.stat(path)  # noqa: PTH116 -- as above
    except OSError:
        return None
    return numbers.get(there.st_rdev) if stat.S_ISCHR(there.st_mode) else None


def _holder(
    root: Path,
    pid: int,
    opened: tuple[DeviceNode, ...],
    jobs: Mapping[str, str],
    job_pids: Mapping[int, str],
) -> Holder:
    process = root / f"proc/{pid}"
    groups = cgroup_paths(_read(process / "cgroup") or "")
    container = container_of(groups)
    uid = _uid(process)
    program, command = _command(process)
    job = jobs.get(container.id) if container is not None else None
    return Holder(
        pid=pid,
        started=_started(root, pid),
        uid=uid,
        user=_user(uid, root),
        program=program,
        command=command,
        container=container,
        unit=None if container is not None else service_of(groups),
        slurm_job=slurm_job_of(groups),
        job=job or _job_of_ancestor(root, pid, job_pids),
        nodes=opened,
    )


def _job_of_ancestor(root: Path, pid: int, job_pids: Mapping[int, str]) -> str | None:
    seen: set[int] = set()
    while job_pids and pid > 1 and pid not in seen:
        if pid in job_pids:
            return job_pids[pid]
        seen.add(pid)
        stat = _stat(root, pid)
        pid = stat.parent if stat else 0
    return None


def _command(process: Path) -> tuple[str, str]:
    """The program's name and the whole command; a process that has overwritten its arguments still has a short name."""
    words = (_read(process / "cmdline") or "").replace("\0", " ").split()
    name = (_read(process / "comm") or "").strip()
    program = words[0].rpartition("/")[2].rstrip(":") if words else name
    return program, _printable(" ".join(words) or f"[{name}]")[:_MOST_CHARACTERS]


def _uid(process: Path) -> int | None:
    for line in (_read(process / "status") or "").splitlines():
        label, _, value = line.partition(":")
        if label == "Uid":
            return int(value.split()[0])
    return None


def _user(uid: int | None, root: Path) -> str:
    if uid is None:
        return "an unknown user"
    if root == Path("/"):
        import pwd

        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            pass
    return "root" if uid == 0 else f"uid {uid}"


def _started(root: Path, pid: int) -> int | None:
    stat = _stat(root, pid)
    return stat.start_ticks if stat else None


def _kernel_thread(root: Path, pid: int) -> bool:
    stat = _stat(root, pid)
    return stat is None or bool(stat.flags & _KERNEL_THREAD)


def _stat(root: Path, pid: int) -> Stat | None:
    return parse_stat(_read(root / f"proc/{pid}/stat") or "")


def _modules(path: Path | None) -> tuple[KernelModule, ...]:
    rows = [line.split() for line in ((path and _read(path)) or "").splitlines()]
    return tuple(
        KernelModule(row[0], int(row[2])) for row in rows if len(row) > 2 and row[0] in _MODULES and row[2].isdigit()
    )


def _hidden(root: Path) -> bool:
    """Whether /proc is mounted with hidepid=invisible, which a user who is not root cannot look behind."""
    if os.geteuid() == 0:
        return False
    for line in (_read(root / "proc/self/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[1] == "/proc" and fields[2] == "proc":
            return bool(
                {"hidepid=2", "hidepid=4", "hidepid=invisible", "hidepid=ptraceable"} & set(fields[3].split(","))
            )
    return False


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return None
