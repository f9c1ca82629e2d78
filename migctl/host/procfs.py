"""What /proc and the cgroup tree tell about this process and others: CPUs, boot, start times, memory."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from migctl.core.cpuset import CpuSet
from migctl.errors import HostError


def own_affinity() -> CpuSet:
    """Logical CPUs that this process may run on; the cgroup's cpuset is already applied by the kernel."""
    return CpuSet(os.sched_getaffinity(0))


def boot_id(root: Path = Path("/")) -> str:
    """This boot's random id: instances and start times belong to one boot.

    Raises:
        HostError: the kernel does not tell.
    """
    path = root / "proc/sys/kernel/random/boot_id"
    text = _read(path)
    if not text:
        raise HostError(
            "no-boot-id",
            f"{path} cannot be read, so instances of an earlier boot cannot be told from living ones",
            where=str(path),
            hint="migctl needs /proc of the machine",
        )
    return text


def memory_total_mib(root: Path = Path("/")) -> int | None:
    """RAM of the machine in MiB, `None` if unknown."""
    for line in (_read(root / "proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            # "kB" in this file are KiB (proc(5)).
            return int(value.split()[0]) // 1024
    return None


def process_start_ticks(pid: int, root: Path = Path("/")) -> int | None:
    """When a process started, in clock ticks since boot; `None` if there is no such process."""
    text = _read(root / f"proc/{pid}/stat")
    if not text:
        return None
    # The command's name may hold spaces and parentheses; field 22 is counted from the last one (proc_pid_stat(5)).
    return int(text.rpartition(")")[2].split()[19])


def process_words(pid: int, root: Path = Path("/")) -> str:
    """A process in words, as far as this user may know: `pid 4711 (python, of alice)`."""
    folder = root / f"proc/{pid}"
    name = _read(folder / "comm")
    try:
        uid = folder.stat().st_uid
    except OSError:
        return f"pid {pid}"
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        owner = f"uid {uid}"
    return f"pid {pid} ({name}, of {owner})" if name else f"pid {pid} (of {owner})"


def cgroup_cpus(root: Path = Path("/"), pid: int | str = "self") -> CpuSet | None:
    """CPUs that the cgroup of a process allows, by cgroup v1 or v2; `None` if it sets no limit that can be read.

    Args:
        root: root of the machine's /proc and /sys.
        pid: process id, or `self`.
    """
    groups = dict(_groups(_read(root / f"proc/{pid}/cgroup") or ""))
    mounts = list(_mounts(_read(root / "proc/self/mountinfo") or ""))
    # Where both exist the cpuset controller is bound to one of them: v1 if its list names it.
    for controller, kind, files in (
        ("cpuset", "cgroup", ("cpuset.effective_cpus", "cpuset.cpus")),
        ("", "cgroup2", ("cpuset.cpus.effective",)),
    ):
        group = groups.get(controller)
        if group is None:
            continue
        mount = next((m for m in mounts if m.kind == kind and (not controller or controller in m.options)), None)
        if mount is None:
            mount = _Mount(PurePosixPath("/"), f"/sys/fs/cgroup/{controller}", kind, frozenset())
        cpus = _limit(root / mount.point.lstrip("/"), mount.relative(group), files)
        if cpus:
            return cpus
    return None


@dataclass(frozen=True, slots=True)
class _Mount:
    """A mounted cgroup hierarchy; in a container `root` is the container's own group."""

    root: PurePosixPath
    point: str
    kind: str
    options: frozenset[str]

    def relative(self, group: str) -> PurePosixPath:
        """Where below the mount point a group lies; the mount point itself where it is not below (another namespace)."""
        path = PurePosixPath(group)
        inside = path.is_relative_to(self.root) and ".." not in path.parts
        return path.relative_to(self.root) if inside else PurePosixPath()


def _groups(text: str) -> Iterator[tuple[str, str]]:
    """`cpuset` → path for cgroup v1, the empty name → path for v2 (cgroups(7))."""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            if controller == "cpuset" or number == "0":
                yield controller, path


def _mounts(text: str) -> Iterator[_Mount]:
    """The cgroup mounts of /proc/PID/mountinfo (proc_pid_mountinfo(5))."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) >= 5 and len(tail) >= 3 and tail[0] in ("cgroup", "cgroup2"):
            yield _Mount(PurePosixPath(fields[3]), fields[4], tail[0], frozenset(tail[2].split(",")))


def _limit(base: Path, group: PurePosixPath, files: tuple[str, ...]) -> CpuSet | None:
    """The first list on the way up: a group without the controller has its parent's CPUs."""
    for folder in (group, *group.parents):
        for name in files:
            text = _read(base / folder / name)
            if text:
                return CpuSet.parse(text)
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None
