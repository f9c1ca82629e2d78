"""The machine's CPUs, caches, NUMA nodes and the places of its GPUs, as the kernel describes them in /sys."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.topology import Core, Topology
from migctl.errors import HostError

NVIDIA = "0x10de"
"""PCI vendor id."""
FAST = 1024
"""Capacity of the fastest kind of core, by Linux' convention (cpu_capacity)."""
SLOW = 512
"""Stands for Intel's E-cores where the kernel tells the kind and not the capacity."""


def read_topology(root: Path = Path("/"), *, pci_ids: Iterable[str] = ()) -> Topology:
    """Read /sys below `root`.

    Source of the formats: Documentation/ABI/stable/sysfs-devices-system-cpu, …-node and testing/sysfs-bus-pci.

    Args:
        root: `/`, or a folder that holds another machine's sys and proc.
        pci_ids: devices (`0000:3b:00.0`) whose NUMA node is wanted beside NVIDIA's.

    Raises:
        HostError: there is no CPU description below `root`, or it cannot be understood.
    """
    cpu_folder = f"{root}/sys/devices/system/cpu"
    try:
        return _Reader(str(root), cpu_folder).topology(pci_ids)
    except ValueError as error:
        raise HostError(
            "bad-topology",
            f"{cpu_folder} cannot be understood: {error}",
            where=cpu_folder,
            hint="MIGCTL_ROOT names the root of the machine's /sys and /proc",
        ) from error


@dataclass(frozen=True, slots=True)
class _Reader:
    root: str
    cpu: str

    def topology(self, pci_ids: Iterable[str]) -> Topology:
        online, present = self._online_present()
        siblings = self._siblings(online)
        sockets = self._sockets(online)
        caches = self._caches(online)
        capacities = self._capacities(online)
        nodes, with_memory, distances = self._nodes(online)
        offline = present - online
        partners = _offline_partners(siblings, offline)
        first_of_socket: dict[int, int] = {}
        for cpu in online:
            first_of_socket.setdefault(sockets.get(cpu, 0), cpu)
        cores = []
        for cpus in dict.fromkeys(siblings.get(cpu, CpuSet({cpu})) for cpu in online):
            first = min(cpus)
            away = partners.get(first, CpuSet())
            socket = sockets.get(first, 0)
            cores.append(
                Core(
                    id=min(cpus | away),
                    cpus=cpus,
                    offline=away,
                    socket=socket,
                    node=nodes.get(first),
                    l3=caches.get(first, first_of_socket[socket]),
                    capacity=capacities.get(first, FAST),
                )
            )
        return Topology(
            cores=tuple(sorted(cores, key=lambda core: core.id)),
            isolated=(self._list("isolated") | self._list("nohz_full")) & present,
            nodes_with_memory=with_memory,
            node_distances=distances,
            pci_nodes=self._pci_nodes(pci_ids),
            hidden=self._hidden(cores, online, siblings, caches),
            offline=offline,
        )

    def _online_present(self) -> tuple[CpuSet, CpuSet]:
        try:
            names = _entries(self.cpu)
        except OSError as error:
            raise HostError(
                "no-topology",
                f"the CPUs of this machine are not known: {self.cpu}: {error.strerror}",
                where=self.cpu,
                hint="MIGCTL_ROOT names the root of the machine's /sys and /proc (default /)",
            ) from error
        there = CpuSet(int(name[3:]) for name in names if name.startswith("cpu") and name[3:].isdecimal())
        present = self._list("present") or there
        online = self._list("online") or present
        if not online:
            raise HostError(
                "no-topology",
                f"the CPUs of this machine are not known: {self.cpu} names none",
                where=self.cpu,
                hint="MIGCTL_ROOT names the root of the machine's /sys and /proc (default /)",
            )
        return online, present | online

    def _siblings(self, online: CpuSet) -> dict[int, CpuSet]:
        """The online hardware threads of each CPU's core, where the kernel tells."""
        found: dict[int, CpuSet] = {}
        for cpu in online:
            if cpu in found:
                continue
            folder = f"{self.cpu}/cpu{cpu}/topology"
            # Before Linux 5.7 only the first name exists; both mean the same.
            text = _read(f"{folder}/thread_siblings_list") or _read(f"{folder}/core_cpus_list")
            if text:
                cpus = (CpuSet.parse(text) & online) | {cpu}
                found.update(dict.fromkeys(cpus, cpus))
        return found

    def _sockets(self, online: CpuSet) -> dict[int, int]:
        found: dict[int, int] = {}
        for cpu in online:
            if cpu in found:
                continue
            folder = f"{self.cpu}/cpu{cpu}/topology"
            text = _read(f"{folder}/physical_package_id")
            if text:
                # -1 on ARM machines whose firmware names no package.
                socket = max(0, int(text))
                members = CpuSet.parse(_read(f"{folder}/core_siblings_list") or "") & online
                found.update(dict.fromkeys(members | {cpu}, socket))
        return found

    def _caches(self, online: CpuSet) -> dict[int, int]:
        """The L3 domain of each CPU, named by its lowest one."""
        found: dict[int, int] = {}
        for cpu in online:
            if cpu in found:
                continue
            text = _read(f"{self.cpu}/cpu{cpu}/cache/index3/shared_cpu_list")
            if text:
                members = (CpuSet.parse(text) & online) | {cpu}
                found.update(dict.fromkeys(members, min(members)))
            elif not found:
                return {}
        return found

    def _capacities(self, online: CpuSet) -> dict[int, int]:
        slow = CpuSet.parse(_read(f"{self.root}/sys/devices/cpu_atom/cpus") or "")
        if slow:
            return dict.fromkeys(slow, SLOW)
        if _read(f"{self.cpu}/cpu{min(online)}/cpu_capacity") is None:
            return {}
        found = {cpu: int(_read(f"{self.cpu}/cpu{cpu}/cpu_capacity") or FAST) for cpu in online}
        # Cores of one kind can differ by a few percent of turbo (favoured cores); only distinct kinds matter.
        fastest = max(found.values())
        return {cpu: FAST if 5 * capacity > 4 * fastest else capacity for cpu, capacity in found.items()}

    def _nodes(self, online: CpuSet) -> tuple[dict[int, int], frozenset[int], dict[int, dict[int, int]]]:
        """NUMA node of each CPU, nodes that have memory, and their distances."""
        folder = f"{self.root}/sys/devices/system/node"
        try:
            names = _entries(folder)
        except OSError:
            return {}, frozenset(), {}
        ids = sorted(int(name[4:]) for name in names if name.startswith("node") and name[4:].isdecimal())
        of_cpu: dict[int, int] = {}
        with_memory: set[int] = set()
        distances: dict[int, dict[int, int]] = {}
        listed = _read(f"{folder}/has_memory")
        for node in ids:
            members = CpuSet.parse(_read(f"{folder}/node{node}/cpulist") or "")
            of_cpu.update(dict.fromkeys(members & online, node))
            if listed is None and _has_memory(_read(f"{folder}/node{node}/meminfo") or ""):
                with_memory.add(node)
            row = [int(word) for word in (_read(f"{folder}/node{node}/distance") or "").split()]
            if len(row) == len(ids):
                distances[node] = dict(zip(ids, row, strict=True))
        return of_cpu, frozenset(with_memory if listed is None else CpuSet.parse(listed)), distances

    def _pci_nodes(self, wanted: Iterable[str]) -> dict[str, int]:
        folder = f"{self.root}/sys/bus/pci/devices"
        asked = frozenset(wanted)
        try:
            names = _entries(folder)
        except OSError:
            return {}
        found: dict[str, int] = {}
        for name in names:
            if name not in asked and _read(f"{folder}/{name}/vendor") != NVIDIA:
                continue
            text = _read(f"{folder}/{name}/numa_node")
            # -1: the firmware does not say where the device hangs.
            if text and int(text) >= 0:
                found[name.lower()] = int(text)
        return found

    def _hidden(self, cores: list[Core], online: CpuSet, siblings: dict[int, CpuSet], caches: dict[int, int]) -> bool:
        """Whether vCPUs may be hardware threads without the kernel being told.

        So it is where there is no topology at all, and in a virtual machine that shows neither a second thread nor a cache
        that several CPUs share. A virtual machine with a believable shared cache is believed.
        """
        if len(online) == 1 or any(len(core.cpus) + len(core.offline) > 1 for core in cores):
            return False
        if not siblings:
            return True
        shared_cache = len(set(caches.values())) < len(online) if caches else False
        return not shared_cache and self._virtual()

    def _virtual(self) -> bool:
        # Only the first processor's flags are read: the whole file takes milliseconds on large machines.
        flags = _read(f"{self.root}/proc/cpuinfo", 8192) or ""
        if any("hypervisor" in line.split() for line in flags.splitlines() if line.startswith("flags")):
            return True
        return _read(f"{self.root}/sys/hypervisor/type") is not None

    def _list(self, name: str) -> CpuSet:
        text = _read(f"{self.cpu}/{name}") or ""
        # nohz_full reads "(null)" on kernels that could and do not.
        return CpuSet() if "null" in text else CpuSet.parse(text)


def _offline_partners(siblings: dict[int, CpuSet], offline: CpuSet) -> dict[int, CpuSet]:
    """Lowest online CPU of a core → its offline siblings, deduced from how this machine numbers.

    The kernel takes an offline CPU out of its siblings' list, so nothing states the relation.
    """
    if not offline:
        return {}
    complete = {cpus for cpus in siblings.values() if len(cpus) > 1}
    alone = {cpu for cpu, cpus in siblings.items() if len(cpus) == 1}
    # Distances between neighbouring siblings on complete cores: 1, or the number of cores of the machine (or of a socket).
    steps = {b - a for cpus in complete for a, b in zip(tuple(cpus), tuple(cpus)[1:], strict=False)}
    if not steps:
        count = len(siblings) + len(offline)
        neighbours = all(cpu % 2 == 0 and cpu + 1 in offline for cpu in alone)
        half = all(cpu < count // 2 and cpu + count // 2 in offline for cpu in alone)
        steps = {1} if neighbours else {count // 2} if half else set()
    found: dict[int, CpuSet] = {}
    for step in sorted(steps):
        for cpu in sorted(alone - found.keys()):
            below, above = cpu - step, cpu + step
            # With step 1 the lower sibling is the even one: CPU 2's partner is 3, never 1.
            if below in offline and (step > 1 or cpu % 2 == 1):
                found[cpu] = CpuSet({below})
            elif above in offline and (step > 1 or cpu % 2 == 0):
                found[cpu] = CpuSet({above})
    return found


def _has_memory(meminfo: str) -> bool:
    for line in meminfo.splitlines():
        words = line.split()
        if len(words) >= 4 and words[2] == "MemTotal:":
            return int(words[3]) > 0
    return False


def _entries(folder: str) -> list[str]:
    return sorted(entry.name for entry in Path(folder).iterdir())


def _read(path: str, limit: int = 65536) -> str | None:
    """The stripped text of a small file, `None` if it cannot be read; far cheaper than `open` for a thousand of them."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, limit).decode("ascii", "replace").strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)
