"""What an export is written from: the plan's jobs with their shares, of this machine or of one that is thought of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from migctl.core.allocate import allocate
from migctl.core.choices import Strategy
from migctl.core.cluster.clusterjobs import Node, groups
from migctl.core.cluster.clusterturns import Turn, turns
from migctl.core.cpu.topology import Topology, flat
from migctl.core.machine import Machine
from migctl.core.plan import ByProfile, GpuSelector, Plan
from migctl.core.queueing.rounds import Rounds, rounds
from migctl.core.views.gres import GresDevice
from migctl.engine.planning import Elsewhere, machine_for
from migctl.engine.session import Session
from migctl.errors import MigctlError
from migctl.host.sysfs import read_topology
from migctl.runtimes.device_nodes import DeviceNodes, find_nodes
from migctl.runtimes.gpu_device import GpuDevice

_MOST_JOBS = 64
"""Of a plan that are laid out to see what a node holds: more than eight GPUs have room for."""


def local_rounds(session: Session, plan: Plan, elsewhere: Elsewhere) -> Rounds:
    """Who runs with whom on one machine, without anything that watches them.

    Raises:
        MigctlError: as `allocate`; a job that has no place even alone is among them.
    """
    machine, label = machine_for(session, plan, elsewhere)
    # A GPU's UUID holds for this machine only; the number of one that is thought of holds for any.
    named = {gpu.uuid: gpu.uuid if elsewhere.boards is None else str(gpu.index) for gpu in machine.gpus}
    return rounds(plan, machine, allocate(plan, machine), named=named, label=label)


def cluster_turns(session: Session, plan: Plan, elsewhere: Elsewhere) -> tuple[Node, tuple[Turn, ...]]:
    """The plan's jobs as a cluster takes them, and the node that their shares are of.

    Raises:
        MigctlError: as `groups`, and where nothing can be read of a machine that the plan needs.
    """
    node = _node(session, plan, elsewhere)
    return node, turns(plan, groups(plan, node))


def _node(session: Session, plan: Plan, elsewhere: Elsewhere) -> Node:
    """The node as told, else this machine; nothing where the plan itself says all that is needed."""
    by_name = all(isinstance(job.request, ByProfile) for job in plan.jobs)
    told = by_name and all(job.cpus is not None and job.batch_size_memory_mib is None for job in plan.jobs)
    if elsewhere.boards is not None:
        machine, _ = machine_for(session, plan, elsewhere)
        return Node(machine.gpus, len(machine.topology.cores), _threads(machine.topology))
    if told:
        return Node()
    topology = flat(elsewhere.cores) if elsewhere.cores is not None else read_topology(session.root)
    try:
        with session.driver() as driver:
            gpus = driver.gpus()
    except MigctlError:
        if not by_name:
            raise
        # A login node: its own cores say nothing of the nodes'.
        return Node(cores=elsewhere.cores or 0)
    return Node(gpus, len(topology.cores), _threads(topology))


def node_layout(plan: Plan, node: Node) -> tuple[str, ...]:
    """The profiles that an empty node holds at once for this plan, each as often as it does; nothing where that is not known."""
    topology = flat(max(node.cores, _MOST_JOBS))
    machine = Machine(gpus=node.gpus, topology=topology, affinity=topology.online)
    jobs = tuple(replace(job, gpus=()) for job in plan.jobs[:_MOST_JOBS])
    local = replace(plan, jobs=jobs, gpus=(GpuSelector(all=True),), max_parallel=None, strategy=Strategy.MIG)
    try:
        found = allocate(local, machine).assignments
    except MigctlError:
        return ()
    made = {(a.gpu_uuid, a.placement or a.job.name): a.profile.name for a in found if a.profile is not None}
    return tuple(made.values())


def _threads(topology: Topology) -> int:
    return max((len(core.cpus) for core in topology.cores), default=1)


def gres_devices(session: Session, elsewhere: Elsewhere) -> tuple[GresDevice, ...]:
    """The MIG devices that are on this machine now, with the device files that Slurm needs where slurmd has no NVML."""
    if elsewhere.boards is not None:
        return ()
    found: list[GresDevice] = []
    try:
        with session.driver() as driver:
            gpus = driver.gpus()
    except MigctlError:
        return ()
    for gpu in gpus:
        for instance in gpu.instances:
            for ci in instance.compute_instances:
                device = GpuDevice(uuid=ci.mig_uuid, minor=gpu.minor, gi_id=instance.gi_id, ci_id=ci.ci_id)
                found.append(GresDevice(instance.profile, gpu.name, _files(device, session.root)))
    return tuple(found)


def _files(device: GpuDevice, root: Path) -> tuple[str, ...]:
    try:
        nodes = find_nodes(device, root)
    except MigctlError:
        return ()
    if not isinstance(nodes, DeviceNodes):
        return ()
    return tuple(f"/{node.relative_to(root)}" for node in (nodes.gpu, *nodes.capabilities))


def product(node: Node) -> str:
    """Product name of the nodes' GPUs where all are the same."""
    names = {gpu.name for gpu in node.gpus}
    return names.pop() if len(names) == 1 else ""
