"""The engine as one command sees it: connected when first needed, everything it says of itself asked once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from migctl.errors import Notice
from migctl.runtimes.access import GpuAccess, Way, choose_access, is_podman
from migctl.runtimes.api import RuntimeFacts
from migctl.runtimes.cdi_files import choose_folder
from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.endpoint import find_endpoint
from migctl.runtimes.engine_client import Engine, connect
from migctl.runtimes.engine_host import (
    engine_cpus,
    finds_hook,
    lacks_cpuset,
    open_files_limit,
    podman_folders,
    toolkit_accepts_variable,
    unlinked_nodes,
    where_else,
)

OPEN_FILES = 524288
"""systemd's default hard limit (DefaultLimitNOFILE), which every service has."""


class EngineLink:
    """Safe to use from several threads: the first one asks, the others wait for its answer."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._lock = threading.RLock()
        self._connected: Engine | None = None
        self._asked: Mapping[str, Any] | None = None
        self._open_files: int | None = None
        self._access: dict[bool, GpuAccess] = {}

    @property
    def engine(self) -> Engine:
        """The connection."""
        with self._lock:
            if self._connected is None:
                self._connected = connect(find_endpoint(self._environ))
            return self._connected

    @property
    def info(self) -> Mapping[str, Any]:
        """Answer of `GET /info`."""
        with self._lock:
            if self._asked is None:
                with engine_errors(self.engine.endpoint):
                    self._asked = self.engine.client.info()
            return self._asked

    @property
    def local(self) -> bool:
        """Its pids and paths are this machine's."""
        return not self.elsewhere

    @property
    def elsewhere(self) -> str:
        """Where it runs if not on this machine, in words."""
        return where_else(self.engine.endpoint.url, self.engine.version)

    @property
    def podman(self) -> bool:
        """It is podman, behind Docker's API."""
        return is_podman(self.engine.version)

    @property
    def cdi_folders(self) -> tuple[str, ...]:
        """Where it reads CDI specifications, the most important last; nothing where it reads none, or another machine's."""
        if not self.local:
            return ()
        if self.podman:
            return podman_folders(self._environ)
        return tuple(str(folder) for folder in self.info.get("CDISpecDirs") or ())

    @property
    def rootless(self) -> bool:
        """It runs without root, so it cannot raise limits."""
        return any("rootless" in str(option) for option in self.info.get("SecurityOptions") or ())

    @property
    def open_files(self) -> int | None:
        """How many open files a container may be allowed at most; `None` = the engine's default is left alone."""
        with self._lock:
            if self._open_files is None:
                socket = self.engine.endpoint.socket
                self._open_files = (
                    open_files_limit(socket) if socket is not None and self.local else None
                ) or OPEN_FILES
            return None if self.rootless else min(self._open_files, OPEN_FILES)

    def close(self) -> None:
        """Give the connections back; the next call opens new ones."""
        with self._lock:
            if self._connected is not None:
                self._connected.client.close()
            self._connected = None

    def access(self, *, simulated: bool) -> GpuAccess:
        """How a container of this engine gets its device."""
        with self._lock:
            if simulated not in self._access:
                socket = self.engine.endpoint.socket
                hook = finds_hook(socket) if socket is not None and self.local else None
                allowed = not self.local or toolkit_accepts_variable()
                folders = self.cdi_folders
                self._access[simulated] = choose_access(
                    self.info,
                    self.engine.version,
                    simulated,
                    hook=hook,
                    variable_allowed=allowed,
                    elsewhere=self.elsewhere,
                    folders=folders,
                    folder=choose_folder(folders),
                )
            return self._access[simulated]

    def facts(self) -> RuntimeFacts:
        """The engine, its address, the CPUs it may use and its way to a GPU (of a real one)."""
        version = self.engine.version
        name = "podman" if self.podman else "docker"
        access = self.access(simulated=False)
        return RuntimeFacts(
            name=f"{name} {str(version.get('Version', 'of an unknown version')).partition('+')[0]}",
            endpoint=self.engine.endpoint.url,
            cpus=engine_cpus(self.info) if self.local else None,
            gpu_access=str(access),
            local=self.local,
            source=self.engine.endpoint.source,
            rootless=self.rootless,
            gpu_hint=access.hint,
            notes=self._notes(access),
        )

    def _notes(self, access: GpuAccess) -> tuple[Notice, ...]:
        notes: list[Notice] = []
        uid = self.engine.endpoint.owner
        if self.local and self.rootless and lacks_cpuset(uid):
            notes.append(
                Notice(
                    "no-cpuset-delegated",
                    f"the rootless engine of uid {uid} may not set cpusets: jobs would not stay on their cores",
                    hint="sudo systemctl edit user@.service: [Service] Delegate=cpu cpuset io memory pids; then log in again",
                )
            )
        if self.local and access.way in (Way.REQUEST, Way.RUNTIME) and self.info.get("CgroupDriver") == "systemd":
            unlinked = unlinked_nodes()
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
