"""The container runtime: each job a container of a Docker engine (or podman behind the same socket), owned by its labels."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.labels import LABEL
from migctl.core.runs.observed import ForeignContainer, Recorded, Unit
from migctl.errors import Busy, HostError, MigctlError, Notice, Problems
from migctl.runtimes.container_gpu import lost_gpus, takes_its_gpu_from_a_hook
from migctl.runtimes.container_stop import stop_container
from migctl.runtimes.container_units import each, is_foreign, is_ours, leftover_of, unit_of
from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.engine_client import Engine
from migctl.runtimes.engine_link import EngineLink
from migctl.runtimes.logfile import write_log
from migctl.runtimes.socket_client import SocketClient, is_missing
from migctl.runtimes.stuck import KILL_DEADLINE_S

if TYPE_CHECKING:
    # What only those who start jobs need is loaded by them: `status` looks at containers and is gone.
    from migctl.core.plan import Job
    from migctl.core.runs.adoption import Leftover
    from migctl.runtimes.api import ProgressReport
    from migctl.runtimes.container_devices import ContainerDevices
    from migctl.runtimes.engine_abilities import EngineAbilities
    from migctl.runtimes.facts import CdiEntry, RuntimeFacts
    from migctl.runtimes.images import Image
    from migctl.runtimes.launch import Launch

_POLL_S = 0.1


class Containers:
    """Jobs as containers; safe to use from several threads at once.

    Args:
        environ: the caller's environment, which says where the engine is; nothing here reads `os.environ`.
        root: below which the GPU's device nodes and the driver's part of /proc lie.
    """

    kind: str = "docker"

    def __init__(self, environ: Mapping[str, str], root: Path = Path("/")) -> None:
        self._environ = environ
        self._root = root
        self._link = EngineLink(environ)
        self._images: dict[str, Image] = {}
        self._notices: list[Notice] = []
        self._ours: set[str] = set()
        """Ids whose labels were seen to be migctl's: neither changes in a container's life."""
        self._hooked: set[str] = set()
        """Ids of those seen whose GPU came by a hook, which the engine can take away again without knowing it."""

    @property
    def _engine(self) -> Engine:
        return self._link.engine

    @cached_property
    def _abilities(self) -> EngineAbilities:
        from migctl.runtimes.engine_abilities import EngineAbilities

        return EngineAbilities(self._link, self._environ, self._root)

    @cached_property
    def _devices(self) -> ContainerDevices:
        from migctl.runtimes.container_devices import ContainerDevices

        return ContainerDevices(self._link, self._abilities, self._environ, self._root)

    def close(self) -> None:
        """Give the connections back; the next call opens new ones."""
        self._link.close()

    def facts(self) -> RuntimeFacts:
        """The engine, its address, the CPUs it may use and its way to a GPU (of a real one)."""
        return self._abilities.facts()

    def prepare(
        self,
        jobs: Sequence[Job],
        *,
        simulated: bool,
        on_progress: ProgressReport | None = None,
        cancel: threading.Event | None = None,
    ) -> dict[str, str]:
        """Check everything that can be known before a change, and pull what is missing. Returns job → image id.

        Raises:
            HostError: no way to a GPU, or an image is missing, of another architecture, or cannot be pulled.
            PlanError: no image, or a bind's source does not exist.
            Problems: several of these.
            Interrupted: `cancel` was set.
        """
        from migctl.runtimes.bind_sources import missing_sources
        from migctl.runtimes.images import cuda_notices, prepare_images

        problems: list[MigctlError] = []
        access = self._abilities.access(simulated=simulated)
        if not access.usable and not simulated:
            problems.append(
                HostError(
                    "no-gpu-access",
                    f"this engine cannot give a container a GPU: {access.reason}",
                    where=self._engine.endpoint.url,
                    hint=access.hint,
                )
            )
        if self._link.local:
            problems += missing_sources(jobs)
        images, wrong = prepare_images(self._engine, jobs, on_progress, cancel)
        problems += wrong
        if len(problems) > 1:
            raise Problems(problems)
        if problems:
            raise problems[0]
        self._images.update({image.id: image for image in images.values()})
        self._notices += cuda_notices(jobs, images)
        return {name: image.id for name, image in images.items()}

    def notices(self) -> tuple[Notice, ...]:
        """What was found in preparing that the user should know."""
        return tuple(self._notices)

    def create(self, launch: Launch) -> str:
        """Create the container; one of the same attempt that never ran or is dead is replaced.

        Raises:
            Busy: somebody else's container, or a running one, has the name.
        """
        from migctl.runtimes.container_config import container_config
        from migctl.runtimes.container_names import clear_name

        where = f"job {launch.job}"
        config = container_config(
            launch,
            self._abilities.access(simulated=launch.simulated),
            image_sets_cuda=self._image(launch.image_id, where).sets_cuda,
            open_files=self._abilities.open_files,
            rootless=self._abilities.rootless,
        )
        self._devices.make_ready(launch)
        try:
            made = self._make(config, launch, where)
        except Busy as error:
            if error.id != "name-taken":
                raise
            clear_name(self._engine, launch, where)
            made = self._make(config, launch, where)
        handle = str(made["Id"])
        self._ours.add(handle)
        return handle

    def _make(self, config: dict[str, Any], launch: Launch, where: str) -> Mapping[str, Any]:
        """By podman's own API where a device is asked for: its Docker API leaves devices out (containers/podman#22645)."""
        from migctl.runtimes.container_late import is_unanswered, made_unanswered

        with engine_errors(self._engine.endpoint, where):
            client, name = self._engine.client, launch.name
            try:
                if self._link.podman and config["HostConfig"].get("DeviceRequests"):
                    from migctl.runtimes.podman_create import podman_spec

                    made: Mapping[str, Any] = client.create_podman_container(podman_spec(config, name))
                else:
                    made = client.create_container_from_config(config, name)
            except Exception as error:
                late = made_unanswered(self._engine, launch, error) if is_unanswered(error) else None
                if late is None:
                    raise
                return late
            return made

    def _image(self, image_id: str | None, where: str) -> Image:
        """Known from `prepare`; another process may have prepared it."""
        image = self._images.get(image_id or "")
        if image is None:
            from migctl.runtimes.images import image_of, look_up

            data = look_up(self._engine, image_id) if image_id else None
            if data is None:
                raise HostError("image-missing", f"the engine does not have the image {image_id}", where=where)
            image = image_of(data)
            self._images[image.id] = image
        return image

    def start(self, handle: str) -> Unit:
        """Start it and read back its CPUs and its GPU; a container with others is killed and its unit says failed.

        Raises:
            HostError, Busy, PlanError: the engine refused.
        """
        from migctl.runtimes.container_start import start_container

        data = self._own(handle) if handle not in self._ours else None
        name = str(data["Name"]).lstrip("/") if data else handle[:12]
        return start_container(self._engine, self._devices, handle, name, local=self._link.local)

    def leave(self, name: str) -> None:
        """Take away the CDI specification of a unit that is gone."""
        self._devices.leave(name)

    def cdi_entries(self) -> tuple[CdiEntry, ...]:
        """The devices of all CDI specifications that the engine reads."""
        return self._devices.entries()

    def units(self, run: str | None, folders: Sequence[str] = ()) -> list[Unit]:  # noqa: ARG002 -- labels find them
        """All containers of this user's run, or of all this user's runs, ended ones too."""
        engine = self._engine
        labels = [f"{LABEL}owner={engine.endpoint.owner}", LABEL + "token"]
        if run is not None:
            labels.append(f"{LABEL}run={run}")
        found = self._labelled(labels)
        units = [unit_of(data, local=self._link.local) for data in found]
        self._ours.update(unit.handle for unit in units)
        self._hooked.update(str(data["Id"]) for data in found if takes_its_gpu_from_a_hook(data))
        return units

    def lost_gpus(self, handles: Sequence[str]) -> dict[str, str]:
        """Handle → what NVML says inside, of those that do not reach their GPU any more; asked are those that `units` has seen."""
        client = self._engine.client
        asked = [handle for handle in handles if handle in self._hooked]
        return lost_gpus(client, asked) if asked and isinstance(client, SocketClient) else {}

    def leftovers(self) -> list[Leftover]:
        """All containers with migctl's labels, whoever they say made them."""
        return [leftover_of(data, local=self._link.local) for data in self._labelled([LABEL + "token"])]

    def _labelled(self, labels: Sequence[str]) -> list[Mapping[str, Any]]:
        engine = self._engine
        with engine_errors(engine.endpoint):
            listed = engine.client.containers(all=True, filters={"label": list(labels)})
        found = each(self._inspect, [c["Id"] for c in listed if is_ours(c["Labels"])])
        # What is inspected is asked once more: only with its own labels is it ours.
        return [data for data in found if data is not None and is_ours(data["Config"].get("Labels"))]

    def foreign(self, known: Recorded | None = None) -> list[ForeignContainer]:
        """Running containers of others, with their cpusets; those that we made and no record knows any more count as well."""
        engine = self._engine
        with engine_errors(engine.endpoint):
            listed = engine.client.containers()
        found = each(self._inspect, [c["Id"] for c in listed if is_foreign(c["Labels"], known)])
        return [
            ForeignContainer(str(data["Name"]).lstrip("/"), CpuSet.parse(data["HostConfig"].get("CpusetCpus") or ""))
            for data in found
            if data is not None
        ]

    def _inspect(self, handle: str) -> Mapping[str, Any] | None:
        """`None` for one that went away meanwhile."""
        with engine_errors(self._engine.endpoint, handle[:12]):
            try:
                data: Mapping[str, Any] = self._engine.client.inspect_container(handle)
            except Exception as error:
                if is_missing(error):
                    return None
                raise
            return data

    def _own(self, handle: str) -> Mapping[str, Any] | None:
        """Inspect it and make sure that it is ours; `None` when it is gone.

        Raises:
            HostError: a container without migctl's labels, or another user's.
        """
        data = self._inspect(handle)
        if data is None:
            return None
        labels = data["Config"].get("Labels")
        if not is_ours(labels) or data["Id"] != handle:
            raise HostError(
                "not-ours", f"container {handle} was not made by migctl, so it is not touched", where=handle
            )
        self._ours.add(handle)
        return data

    def _gone(self, handle: str) -> bool:
        return handle not in self._ours and self._own(handle) is None

    def stop(self, handle: str, grace_s: float, *, hurry: threading.Event | None = None) -> None:
        """SIGTERM to the main process (the engine's init hands it on), after the grace SIGKILL to the whole container.

        Raises:
            Busy: a process does not even die of SIGKILL; pid and wait channel are in the message.
        """
        if not self._gone(handle):
            stop_container(self._engine, handle, grace_s, hurry, local=self._link.local)

    def wait(self, handle: str, timeout_s: float | None = None) -> Unit | None:
        """Block until it ended; the engine tells, nothing is polled but a container that was not started yet."""
        from migctl.runtimes.container_wait import wait_container

        return wait_container(self._engine, handle, timeout_s, self._own, local=self._link.local)

    def save_log(self, handle: str, path: str) -> None:
        """Write what the engine still has of the log; a container that is gone leaves an earlier saved log as it is."""
        try:
            write_log(path, self.logs(handle, follow=False, tail=None))
        except HostError as error:
            if error.id != "no-unit":
                raise

    def logs(
        self, handle: str, *, follow: bool, tail: int | None, timestamps: bool = False, since: float | None = None
    ) -> Iterator[bytes]:
        """Standard output and error in the order in which the engine got them."""
        from migctl.runtimes.container_logs import container_logs

        return container_logs(self._engine, handle, follow=follow, tail=tail, timestamps=timestamps, since=since)

    def remove(self, handle: str) -> None:
        """Remove the ended container with its anonymous volumes.

        Raises:
            Busy: it still runs.
            HostError: it is not migctl's.
        """
        if self._gone(handle):
            return
        deadline = time.monotonic() + KILL_DEADLINE_S
        while True:
            try:
                with engine_errors(self._engine.endpoint, handle[:12]):
                    self._engine.client.remove_container(handle, v=True)
            except MigctlError as error:
                if error.id == "no-unit":
                    break
                if error.id != "being-removed" or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
            else:
                break
        self._ours.discard(handle)

    def exec(self, handle: str, command: Sequence[str], *, tty: bool) -> int:
        """Run a command in the container, attached to this terminal; returns its exit code."""
        from migctl.runtimes.attach import exec_attached

        if self._gone(handle):
            raise HostError("no-unit", "the container is gone", where=handle[:12], hint="migctl status")
        return exec_attached(self._engine, handle, command, tty=tty)
