"""What an engine can do for a job: its way to a GPU, the folders, limits and CPUs it has; each asked once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from migctl.errors import Notice
from migctl.runtimes.access import GpuAccess, Way, choose_access
from migctl.runtimes.cdi_files import choose_folder
from migctl.runtimes.engine_host import (
    engine_cpus,
    engine_quota,
    finds_hook,
    lacks_cpuset,
    open_files_limit,
    podman_folders,
    toolkit_accepts_variable,
    unlinked_nodes,
)
from migctl.runtimes.engine_ids import id_map
from migctl.runtimes.engine_link import EngineLink
from migctl.runtimes.facts import RuntimeFacts

OPEN_FILES = 524288
"""systemd's default hard limit (DefaultLimitNOFILE), which every service has."""


class EngineAbilities:
    """Safe to use from several threads: the first one asks, the others wait for its answer.

    Args:
        link: the engine.
        environ: the caller's environment.
        root: below which this machine's /dev and /sys lie.
    """

    def __init__(self, link: EngineLink, environ: Mapping[str, str], root: Path = Path("/")) -> None:
        self._link = link
        self._environ = environ
        self._root = root
        self._lock = threading.RLock()
        self._open_files: int | None = None
        self._access: dict[bool, GpuAccess] = {}

    @property
    def cdi_folders(self) -> tuple[str, ...]:
        """Where it reads CDI specifications, the most important last; nothing where it reads none, or another machine's."""
        if not self._link.local:
            return ()
        if self._link.podman:
            return podman_folders(self._environ)
        return tuple(str(folder) for folder in self._link.info.get("CDISpecDirs") or ())

    @property
    def rootless(self) -> bool:
        """It runs without root, so it cannot raise limits."""
        return any("rootless" in str(option) for option in self._link.info.get("SecurityOptions") or ())

    @property
    def open_files(self) -> int | None:
        """How many open files a container may be allowed at most; `None` = the engine's default is left alone."""
        with self._lock:
            if self._open_files is None:
                socket = self._link.engine.endpoint.socket
                self._open_files = (
                    open_files_limit(socket) if socket is not None and self._link.local else None
                ) or OPEN_FILES
            return None if self.rootless else min(self._open_files, OPEN_FILES)

    def access(self, *, simulated: bool) -> GpuAccess:
        """How a container of this engine gets its device."""
        with self._lock:
            if simulated not in self._access:
                socket = self._link.engine.endpoint.socket
                hook = finds_hook(socket) if socket is not None and self._link.local else None
                allowed = not self._link.local or toolkit_accepts_variable()
                folders = self.cdi_folders
                self._access[simulated] = choose_access(
                    self._link.info,
                    self._link.engine.version,
                    simulated,
                    hook=hook,
                    variable_allowed=allowed,
                    elsewhere=self._link.elsewhere,
                    folders=folders,
                    folder=choose_folder(folders),
                )
            return self._access[simulated]

    def facts(self) -> RuntimeFacts:
        """The engine, its address, the CPUs it may use and its way to a GPU (of a real one)."""
        version = self._link.engine.version
        name = "podman" if self._link.podman else "docker"
        access = self.access(simulated=False)
        return RuntimeFacts(
            name=f"{name} {str(version.get('Version', 'of an unknown version')).partition('+')[0]}",
            endpoint=self._link.engine.endpoint.url,
            cpus=engine_cpus(self._link.info) if self._link.local else None,
            cpu_quota=engine_quota(self._link.info) if self._link.local else None,
            gpu_access=str(access),
            local=self._link.local,
            source=self._link.engine.endpoint.source,
            rootless=self.rootless,
            ids=id_map(self._link.info, rootless=self.rootless, owner=self._link.engine.endpoint.owner),
            gpu_hint=access.hint,
            notes=self._notes(access),
        )

    def _notes(self, access: GpuAccess) -> tuple[Notice, ...]:
        notes: list[Notice] = []
        uid = self._link.engine.endpoint.owner
        if self._link.local and self.rootless and lacks_cpuset(uid, self._root / "sys/fs/cgroup"):
            notes.append(
                Notice(
                    "no-cpuset-delegated",
                    f"the rootless engine of uid {uid} may not set cpusets: jobs would not stay on their cores",
                    hint="sudo systemctl edit user@.service: [Service] Delegate=cpu cpuset io memory pids; then log in again",
                )
            )
        if (
            self._link.local
            and access.way in (Way.REQUEST, Way.RUNTIME)
            and self._link.info.get("CgroupDriver") == "systemd"
        ):
            unlinked = unlinked_nodes(self._root / "dev")
            if unlinked:
                notes.append(
                    Notice(
                        "no-dev-char-links",
                        f"{len(unlinked)} of NVIDIA's device nodes have no link in /dev/char ({unlinked[0]} …): after a systemctl "
                        "daemon-reload running containers lose their GPU (NVIDIA/nvidia-container-toolkit#48)",
                        hint="sudo nvidia-ctk system create-dev-char-symlinks --create-all",
                    )
                )
        return tuple(notes)
