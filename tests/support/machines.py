"""Machines as short descriptions, written as /sys and /proc trees like those that Linux shows for them.

The shapes come from public descriptions: vendors' data sheets, kernel documentation, and lscpu listings in bug reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from migctl.core.cpu.cpuset import CpuSet

NVIDIA = "0x10de"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """`sockets` × `cores` (per socket) × `threads`, divided into L3 domains and NUMA nodes."""

    name: str
    sockets: int = 1
    cores: int
    threads: int = 1
    adjacent: bool = False
    """Siblings are numbered N, N+1 instead of N, N+C."""
    l3_per_socket: int = 1
    """0 = the kernel shows no L3."""
    nodes_per_socket: int = 1
    """0 = no NUMA information at all."""
    offline: str = ""
    isolated: str = ""
    nohz_full: str = "(null)"
    gpus: Mapping[str, int] = field(default_factory=dict)
    """PCI address → numa_node as the file says, -1 included."""
    shown: bool = True
    """Whether cpuN/topology exists."""
    hypervisor: bool = False
    atom: str = ""
    """Intel's E-cores (one thread each), numbered behind the others."""
    extra_nodes: Mapping[int, int] = field(default_factory=dict)
    """Nodes without CPUs → memory in MiB."""
    no_memory: frozenset[int] = frozenset()
    """Nodes with CPUs and without memory."""
    distances: tuple[tuple[int, ...], ...] = ()
    core_cpus_list: bool = False
    """Only the newer file name exists."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Further files, by their path: what is special about whoever runs there."""
    usable: str = ""
    """CPUs that are left to whoever runs there; empty = all that are online and not isolated."""
    most: int | None = None
    """As many cores as a quota pays for."""

    def cpu(self, socket: int, core: int, thread: int) -> int:
        index = socket * self.cores + core
        if self.adjacent:
            return index * self.threads + thread
        return index + thread * self.sockets * self.cores

    @property
    def present(self) -> CpuSet:
        return CpuSet(range(self.sockets * self.cores * self.threads)) | CpuSet.parse(self.atom)

    @property
    def online(self) -> CpuSet:
        return self.present - CpuSet.parse(self.offline)


def write(machine: Machine, root: Path) -> Path:
    """Write the tree of a machine below `root`, and return `root`."""
    cpu_folder = root / "sys/devices/system/cpu"
    node_folder = root / "sys/devices/system/node"
    online = machine.online
    atoms = CpuSet.parse(machine.atom)
    nodes: dict[int, set[int]] = {}
    texts: dict[Path, str] = {
        cpu_folder / "present": str(machine.present),
        cpu_folder / "possible": f"0-{max(machine.present) + 64}",
        cpu_folder / "online": str(online),
        cpu_folder / "offline": machine.offline,
        cpu_folder / "isolated": machine.isolated,
        cpu_folder / "nohz_full": f" {machine.nohz_full}",
        root / "proc/sys/kernel/random/boot_id": "0c5a7a0e-7d4d-4f0e-9f1c-0f2f6c1f9a11",
        root / "proc/meminfo": "MemTotal:       527953576 kB\nMemFree:        1 kB",
        root / "proc/cpuinfo": f"processor\t: 0\nflags\t\t: fpu ht {'hypervisor ' if machine.hypervisor else ''}avx2",
    }

    def describe(cpu: int, siblings: CpuSet, members: CpuSet, socket: int, core: int, shared: CpuSet) -> None:
        folder = cpu_folder / f"cpu{cpu}"
        texts[folder / "uevent"] = ""
        if cpu not in online or not machine.shown:
            return
        name = "core_cpus_list" if machine.core_cpus_list else "thread_siblings_list"
        texts[folder / "topology" / name] = str(siblings & online)
        texts[folder / "topology/core_siblings_list"] = str(members & online)
        texts[folder / "topology/physical_package_id"] = str(socket)
        texts[folder / "topology/core_id"] = str(core)  # repeats on every socket, as it does in reality
        if machine.l3_per_socket:
            texts[folder / "cache/index3/shared_cpu_list"] = str(shared & online)

    for socket in range(machine.sockets):
        span = range(machine.cores)
        members = CpuSet(machine.cpu(socket, c, t) for c in span for t in range(machine.threads)) | atoms
        for core in span:
            siblings = CpuSet(machine.cpu(socket, core, t) for t in range(machine.threads))
            width = machine.cores // (machine.l3_per_socket or 1)
            start = core // width * width
            shared = CpuSet(
                machine.cpu(socket, c, t) for c in range(start, start + width) for t in range(machine.threads)
            )
            if machine.nodes_per_socket:
                within = core * machine.nodes_per_socket // machine.cores
                nodes.setdefault(socket * machine.nodes_per_socket + within, set()).update(siblings)
            for cpu in siblings:
                describe(cpu, siblings, members, socket, core, shared | atoms)
    for cpu in atoms:
        describe(cpu, CpuSet({cpu}), machine.present, 0, cpu, machine.present)
        nodes.setdefault(0, set()).add(cpu)
    if atoms:
        texts[root / "sys/devices/cpu_core/cpus"] = str(machine.present - atoms)
        texts[root / "sys/devices/cpu_atom/cpus"] = machine.atom

    memory = dict.fromkeys(nodes, 128 * 1024) | dict.fromkeys(machine.no_memory, 0) | dict(machine.extra_nodes)
    for position, node in enumerate(sorted(memory)):
        folder = node_folder / f"node{node}"
        texts[folder / "cpulist"] = str(CpuSet(nodes.get(node, ())) & online)
        texts[folder / "meminfo"] = f"Node {node} MemTotal:       {memory[node] * 1024} kB\nNode {node} MemFree: 0 kB"
        row = machine.distances[position] if machine.distances else [10 if n == node else 21 for n in sorted(memory)]
        texts[folder / "distance"] = " ".join(map(str, row))
    for address, node in {"0000:00:1f.0": 0, **machine.gpus}.items():
        folder = root / "sys/bus/pci/devices" / address
        texts[folder / "vendor"] = "0x8086" if address == "0000:00:1f.0" else NVIDIA
        texts[folder / "numa_node"] = str(node)

    texts |= {root / name: text for name, text in machine.files.items()}
    for folder in {path.parent for path in texts}:
        folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(f"{text}\n")
    return root


NPS4 = tuple(
    tuple(10 if a == b else 12 if a // 4 == b // 4 else 32 for b in range(8)) for a in range(8)
)  # what EPYC firmware reports for four nodes a socket

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1_MOUNTS = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset"
)

MACHINES: dict[str, Machine] = {
    machine.name: machine
    for machine in (
        Machine(name="desktop-smt-off", cores=8, gpus={"0000:01:00.0": -1}),
        Machine(name="workstation-far-siblings", cores=8, threads=2, gpus={"0000:65:00.0": 0}),
        Machine(name="workstation-near-siblings", cores=8, threads=2, adjacent=True, gpus={"0000:65:00.0": 0}),
        # Two Xeon Platinum 8480C as in DGX H100 (56 cores each); GPU on the second socket.
        Machine(name="two-xeons", sockets=2, cores=56, threads=2, gpus={"0000:1b:00.0": 0, "0000:9d:00.0": 1}),
        # EPYC 7742: 64 cores, an L3 for each four cores.
        Machine(name="epyc-many-l3", cores=64, threads=2, l3_per_socket=16, gpus={"0000:41:00.0": 0}),
        # Two of them with four NUMA nodes a socket, as in DGX A100; the GPUs hang on nodes 1, 3, 5, 7.
        Machine(
            name="epyc-nps4",
            sockets=2,
            cores=64,
            threads=2,
            l3_per_socket=16,
            nodes_per_socket=4,
            gpus={"0000:07:00.0": 3, "0000:47:00.0": 1, "0000:87:00.0": 7, "0000:b7:00.0": 5},
            distances=NPS4,
        ),
        # scylladb/seastar#3279: online 0,2,…,14,16-31.
        Machine(name="offline-siblings", cores=16, threads=2, adjacent=True, offline="1,3,5,7,9,11,13,15"),
        Machine(name="offline-far-siblings", cores=8, threads=2, offline="12-13"),
        Machine(name="smt-switched-off", cores=8, threads=2, offline="8-15"),
        Machine(name="isolated", cores=8, threads=2, isolated="6-7,14-15", nohz_full="5-7,13-15"),
        # Core i9-13900: eight P-cores with two threads, sixteen E-cores.
        Machine(name="hybrid", cores=8, threads=2, adjacent=True, atom="16-31", gpus={"0000:01:00.0": -1}),
        Machine(name="vm-bare", cores=12, shown=False, l3_per_socket=0, nodes_per_socket=0, hypervisor=True),
        Machine(name="vm-flat", cores=12, l3_per_socket=0, hypervisor=True, gpus={"0000:00:04.0": -1}),
        Machine(name="vm-with-topology", cores=6, threads=2, adjacent=True, hypervisor=True),
        Machine(name="vm-smt-off", cores=6, hypervisor=True),
        # Grace Hopper: one socket with 72 cores; the GPU's memory is a node without CPUs, and so is the GPU's own node.
        Machine(
            name="grace-hopper",
            cores=72,
            extra_nodes={1: 96 * 1024, 2: 0},
            gpus={"0009:01:00.0": 0},
            core_cpus_list=True,
        ),
        Machine(name="node-without-memory", sockets=2, cores=8, no_memory=frozenset({1}), gpus={"0000:81:00.0": 1}),
        Machine(name="one-cpu", cores=1, hypervisor=True),
        # docker run --cpus 6.5 on cgroup v2, in a cgroup namespace of its own; the host has 16 cores.
        Machine(
            name="container-quota",
            cores=16,
            threads=2,
            files={
                "proc/self/cgroup": "0::/",
                "proc/self/mountinfo": V2_MOUNT,
                "sys/fs/cgroup/cpu.max": "650000 100000",
                "sys/fs/cgroup/cpuset.cpus.effective": "0-31",
            },
            most=6,
        ),
        # A pod of two CPUs on cgroup v1: its container's own group has no quota, the pod's has.
        Machine(
            name="pod-quota-above",
            cores=16,
            threads=2,
            gpus={"0000:65:00.0": 0},
            files={
                "proc/self/cgroup": "5:cpuset:/kubepods/pod1/c1\n4:cpu,cpuacct:/kubepods/pod1/c1\n0::/",
                "proc/self/mountinfo": V1_MOUNTS,
                "sys/fs/cgroup/cpu,cpuacct/kubepods/pod1/c1/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu,cpuacct/kubepods/pod1/c1/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu,cpuacct/kubepods/pod1/cpu.cfs_quota_us": "200000",
                "sys/fs/cgroup/cpu,cpuacct/kubepods/pod1/cpu.cfs_period_us": "100000",
            },
            most=2,
        ),
        # A Slurm job with eight of 32 cores (task/cgroup, ConstrainCores), on the socket of its GPU.
        Machine(
            name="slurm-job",
            sockets=2,
            cores=16,
            threads=2,
            gpus={"0000:17:00.0": 0, "0000:b3:00.0": 1},
            files={
                "proc/self/cgroup": "5:cpuset:/slurm/uid_1000/job_7/step_0\n0::/",
                "proc/self/mountinfo": V1_MOUNTS,
                "sys/fs/cgroup/cpuset/slurm/uid_1000/job_7/cpuset.cpus": "16-23,48-55",
            },
            usable="16-23,48-55",
        ),
        # taskset in a virtual machine whose topology is hidden: only the affinity tells.
        Machine(
            name="vm-taskset",
            cores=8,
            shown=False,
            l3_per_socket=0,
            nodes_per_socket=0,
            hypervisor=True,
            files={"proc/self/status": "Name:\tbash\nCpus_allowed:\t0f\nCpus_allowed_list:\t0-3"},
            usable="0-3",
        ),
    )
}
