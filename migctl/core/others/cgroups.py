"""Whose a process is by the path of its cgroup: a container's, a systemd service's, or a Slurm job's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Container:
    """A container as its cgroup names it."""

    engine: str
    """`docker`, `podman`, `containerd`, `cri-o`, `lxc`, or `container` where the path does not tell."""
    id: str
    """The whole id; LXC's is its name."""
    pod: str | None = None
    """UID of the Kubernetes pod it belongs to."""

    @property
    def short_id(self) -> str:
        """As the engines' own lists show it."""
        return self.id[:12] if _HEX.fullmatch(self.id) else self.id


_HEX: Final = re.compile(r"[0-9a-f]{64}")
_ENGINES: Final = {
    "docker": "docker",
    "libpod": "podman",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "containerd": "containerd",
    "crio": "cri-o",
    "kubepods": "containerd",
}
"""The prefix of a scope (systemd driver) or the folder around the id (cgroupfs driver) → the engine that writes it."""
_SCOPE: Final = re.compile(r"(?:(?P<kind>[a-z][a-z-]*?)-)?(?P<id>[0-9a-f]{64})(?:\.scope)?")
_POD: Final = re.compile(r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?$")
_LXC: Final = re.compile(r"/lxc(?:\.payload[./]|/)(?P<name>[\w.-]+)")
_SLURM: Final = re.compile(r"/slurm(?:stepd\.scope|[\w.]*)/(?:[\w.]+/)*?job_(?P<id>\d+)(?:/|$)")
_UNIT: Final = re.compile(r"[\w@:.\\-]+\.service")
_SESSION: Final = re.compile(r"user@\d+\.service")
"""The manager of a user's own services: no service that anybody means."""


def cgroup_paths(text: str) -> tuple[str, ...]:
    """The different paths of /proc/PID/cgroup, version 1 or 2 (cgroups(7)), as they stand there."""
    return tuple(dict.fromkeys(line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2))


def container_of(paths: Iterable[str]) -> Container | None:
    """The innermost container that one of the paths lies in."""
    for path in paths:
        parts = [part for part in path.split("/") if part]
        for position in range(len(parts) - 1, -1, -1):
            found = _SCOPE.fullmatch(parts[position])
            if found is None:
                continue
            around = [part.partition(".")[0] for part in parts[:position]]
            pod = next((m["uid"].replace("_", "-") for part in parts[:position] if (m := _POD.search(part))), None)
            kind = found["kind"] or next((part for part in reversed(around) if part in _ENGINES), "")
            if kind == "kubepods" or (not kind and pod):
                kind = "containerd"
            return Container(_ENGINES.get(kind, "container"), found["id"], pod)
        if lxc := _LXC.search(path):
            return Container("lxc", lxc["name"])
    return None


def service_of(paths: Iterable[str]) -> str | None:
    """The systemd service (`nvidia-dcgm.service`); a login session is none."""
    for path in paths:
        for part in reversed(path.split("/")):
            if _UNIT.fullmatch(part) and not _SESSION.fullmatch(part):
                return part
    return None


def slurm_job_of(paths: Iterable[str]) -> int | None:
    """The number of the Slurm job, where Slurm confines its jobs by cgroup (cgroup.conf(5))."""
    for path in paths:
        if found := _SLURM.search(path):
            return int(found["id"])
    return None
