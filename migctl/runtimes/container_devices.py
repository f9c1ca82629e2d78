"""The GPU side of a container's life: nodes and specification before it starts, a look inside afterwards, nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from migctl.core.runs.labels import LABEL
from migctl.core.runs.observed import Unit
from migctl.errors import HostError
from migctl.runtimes import cdi_files
from migctl.runtimes.access import Way
from migctl.runtimes.cdi_spec import DriverEdits, device_name, specification
from migctl.runtimes.container_readback import gpu_inside
from migctl.runtimes.device_nodes import Unknown, is_node, make_nodes
from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.driver_files import driver_edits
from migctl.runtimes.engine_abilities import EngineAbilities
from migctl.runtimes.engine_link import EngineLink
from migctl.runtimes.facts import CdiEntry
from migctl.runtimes.gpu_device import GpuDevice
from migctl.runtimes.launch import Launch
from migctl.runtimes.readback import Found


class ContainerDevices:
    """Devices of the containers of one engine; safe to use from several threads.

    Args:
        link: the engine.
        abilities: its way to a GPU.
        environ: the caller's environment; its PATH finds NVIDIA's programs.
        root: below which /dev and /proc of the GPU's driver lie.
    """

    def __init__(
        self,
        link: EngineLink,
        abilities: EngineAbilities,
        environ: Mapping[str, str],
        root: Path,
    ) -> None:
        self._link = link
        self._abilities = abilities
        self._environ = environ
        self._root = root
        self._lock = threading.Lock()
        self._driver: DriverEdits | None = None

    def make_ready(self, launch: Launch) -> None:
        """Have the device's nodes made, and where CDI is the way, write the attempt's specification.

        The job's record with its open intent is on the disk by then, and `leave` takes the file away whenever that record goes.

        Raises:
            HostError: no-device-node, no-capability, cdi-folder-unwritable.
        """
        device = launch.device
        access = self._abilities.access(simulated=launch.simulated)
        if device is None or launch.simulated or not access.usable:
            return
        nodes = make_nodes(device, self._root, self._environ)
        if access.way is not Way.CDI:
            return
        if isinstance(nodes, Unknown):
            raise HostError(
                "no-device-node",
                f"no CDI specification can be written for {device.uuid}: {nodes.reason}",
                where=f"job {launch.job}",
                hint="migctl check; --runtime process needs none",
            )
        spec = specification(device_name(device.uuid, launch.token), nodes, self._edits(), self._root)
        cdi_files.write_file(access.folder, launch.name, spec)

    def verify(self, unit: Unit, data: Mapping[str, Any]) -> Found:
        """Whether a running container holds exactly its own device; ok for one that was given none."""
        device = GpuDevice.of_labels(data["Config"]["Labels"], LABEL)
        if device is None or not self._link.local or not self._abilities.access(simulated=False).usable:
            return Found(True)
        return gpu_inside(self._link.engine, unit, device, self._root)

    def leave(self, unit: str) -> None:
        """Take away the specification of a unit (by its name) that is gone or goes."""
        cdi_files.remove_files(self._abilities.cdi_folders, unit)

    def entries(self) -> tuple[CdiEntry, ...]:
        """What the engine's CDI folders hold: migctl's, and other people's."""
        found, wrong = cdi_files.entries(self._abilities.cdi_folders)
        names = self._names() if any(entry.unit is not None for entry in found) else set()
        return (
            *(
                CdiEntry(
                    file=entry.file,
                    name=entry.qualified,
                    missing=tuple(node for node in entry.nodes if not is_node(Path(node))),
                    ours=entry.unit is not None,
                    orphan=entry.unit is not None and entry.unit not in names,
                )
                for entry in found
            ),
            *(CdiEntry(file=line.partition(": ")[0], error=line.partition(": ")[2]) for line in wrong),
        )

    def _names(self) -> set[str]:
        engine = self._link.engine
        with engine_errors(engine.endpoint):
            listed = engine.client.containers(all=True, filters={"label": [LABEL + "token"]})
        return {str(name).lstrip("/") for one in listed for name in one.get("Names") or ()}

    def _edits(self) -> DriverEdits:
        """Asked once: the toolkit takes half a second."""
        with self._lock:
            if self._driver is None:
                self._driver = driver_edits(self._environ)
            return self._driver
