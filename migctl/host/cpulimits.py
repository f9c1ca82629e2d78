"""Which CPUs this process may use, and how much of them: affinity, the cgroup's cpuset, and CPU quotas on the whole way up.

Below another root the same is read from that machine's /proc/self and cgroup tree, as far as they are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath

from migctl.core.cpu.cpuquota import cpu_quota_of
from migctl.core.cpu.cpuset import CpuSet
from migctl.errors import HostError
from migctl.host.procfs import own_affinity


def allowed_cpus(online: CpuSet, root: Path = Path("/")) -> CpuSet:
    """Those of the online CPUs that may be used here, or (below another root) by whoever's /proc/self is kept there.

    Raises:
        HostError: a file below another root is nonsense.
    """
    if root == Path("/"):
        return own_affinity()
    found = online
    for line in (_read(root / "proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            found &= _listed(value, root / "proc/self/status")
    by_group = cgroup_cpus(root)
    return found & by_group if by_group is not None else found


def cgroup_cpus(root: Path = Path("/"), pid: int | str = "self") -> CpuSet | None:
    """CPUs that the cgroup of a process allows, by cgroup v1 or v2; `None` if it sets no limit that can be read.

    Args:
        root: root of the machine's /proc and /sys.
        pid: process id, or `self`.
    """
    # Where both exist the cpuset controller is bound to one of them: v1 if its list names it.
    for controller, files in (("cpuset", ("cpuset.effective_cpus", "cpuset.cpus")), ("", ("cpuset.cpus.effective",))):
        for folder in _way_up(root, pid, controller):
            # The first on the way up: a group without the controller has its parent's CPUs.
            for file in (folder / name for name in files):
                if text := _read(file):
                    return _listed(text, file)
    return None


def cpu_quota(root: Path = Path("/"), pid: int | str = "self") -> Fraction | None:
    """CPUs' worth of time that the cgroup of a process may use, by the smallest quota on the way up; `None` = no limit."""
    found = [
        quota
        for controller in ("cpu", "")
        for folder in _way_up(root, pid, controller)
        if (quota := _quota(folder)) is not None
    ]
    return min(found, default=None)


def _listed(text: str, file: Path) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise HostError(
            "bad-topology",
            f"{file} cannot be understood: {error}",
            where=str(file),
            hint="MIGCTL_ROOT names the root of the machine's /sys and /proc",
        ) from error


def _quota(folder: Path) -> Fraction | None:
    return cpu_quota_of(lambda name: _read(folder / name))


def _way_up(root: Path, pid: int | str, controller: str) -> Iterator[Path]:
    """The folders of a process's group and of those above it, as far as they can be seen; `controller` empty = version 2."""
    group = dict(_groups(_read(root / f"proc/{pid}/cgroup") or "")).get(controller)
    if group is None:
        return
    kind = "cgroup" if controller else "cgroup2"
    mounts = _mounts(_read(root / "proc/self/mountinfo") or "")
    mount = next((m for m in mounts if m.kind == kind and (not controller or controller in m.options)), None)
    if mount is None:
        mount = _Mount(PurePosixPath("/"), f"/sys/fs/cgroup/{controller}", kind, frozenset())
    base, path = root / mount.point.lstrip("/"), mount.relative(group)
    for folder in (path, *path.parents):
        yield base / folder


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
            if controller or number == "0":
                yield controller, path


def _mounts(text: str) -> Iterator[_Mount]:
    """The cgroup mounts of /proc/PID/mountinfo (proc_pid_mountinfo(5))."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) >= 5 and len(tail) >= 3 and tail[0] in ("cgroup", "cgroup2"):
            yield _Mount(PurePosixPath(fields[3]), fields[4], tail[0], frozenset(tail[2].split(",")))


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").strip()
    except (OSError, ValueError):  # a path with a NUL in it, from a file that is none of the kernel's
        return None
