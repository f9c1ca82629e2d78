"""A plan's jobs as a cluster takes them: those that ask for the same thing are one array, each with its share of a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from migctl.core.choices import Strategy
from migctl.core.cpu.topology import flat
from migctl.core.cpu.workers import batch_size, num_workers
from migctl.core.gpu.mig import Gpu, Profile
from migctl.core.gpu.selection import select_gpus
from migctl.core.gpu.sizes import auto_candidates, options
from migctl.core.handover import shm_size_bytes
from migctl.core.machine import Machine
from migctl.core.plan import Auto, ByInstance, ByProfile, GpuSelector, Job, Plan
from migctl.errors import PlanError

_GIB = 1 << 30
_RAM_A_PROCESS = 2 * _GIB
"""Beside /dev/shm: Python, PyTorch and a few batches, for the main process and each worker."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that jobs may land on; all are taken to be alike."""

    gpus: tuple[Gpu, ...] = ()
    """Empty: not known, so that only profiles given by name can be asked for."""
    cores: int = 0
    """Physical cores; 0 = not known."""
    threads_per_core: int = 1
    slices: int = 0
    """Compute slices of all its GPUs, where the GPUs themselves are not known; 0 = not known either."""

    @property
    def compute_slices(self) -> int:
        """Of all its GPUs; a GPU without MIG counts as one with seven."""
        return self.slices or sum(int(gpu.compute_slices) or 7 for gpu in self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs that ask for the same and differ only in command and environment: one array."""

    name: str
    members: tuple[Job, ...]
    profile: str | None
    """`None`: a whole GPU."""
    gpu_memory_mib: int | None
    cores: int
    """Physical cores of each."""
    cpus: int
    """Logical CPUs of each, as clusters count them."""
    num_workers: int
    """What the cores carry; at the start counted again from the CPUs that are there."""
    memory_bytes: int
    """RAM of each: the job's limit, else what its processes are expected to need, /dev/shm included."""
    memory_given: bool
    shm_bytes: int
    batch_size: int | None = None

    @property
    def first(self) -> Job:
        """One of them, for what they have in common."""
        return self.members[0]

    @property
    def array(self) -> bool:
        """Whether there are several."""
        return len(self.members) > 1


def groups(plan: Plan, node: Node) -> tuple[Group, ...]:
    """All jobs, in the plan's order.

    Raises:
        PlanError: a job's profile or share depends on a node of which nothing is known, or it names an instance.
        DoesNotFit: as `options`.
    """
    auto = _auto_profile(plan, node)
    alike: dict[tuple[str, Job], list[Job]] = {}
    for job in plan.jobs:
        alike.setdefault((job.origin, _asked(job)), []).append(job)
    count: dict[str, int] = {}
    made: list[Group] = []
    for (origin, _), members in alike.items():
        count[origin] = count.get(origin, 0) + 1
        name = origin if count[origin] == 1 else f"{origin}-{count[origin]}"
        made.append(_group(name, members, plan, node, auto))
    return tuple(made)


def _asked(job: Job) -> Job:
    """The job without what may differ inside an array."""
    return replace(job, name="", command=None, entrypoint=() if job.entrypoint is not None else None, environment=())


def _group(name: str, members: Sequence[Job], plan: Plan, node: Node, auto: Profile | None) -> Group:
    job = members[0]
    profile, wanted = _profile(job, plan, node, auto)
    memory_mib = profile.memory_mib if profile is not None else _whole_memory(plan, job, node, wanted)
    cores = job.cpus or _cores(job, plan, node, profile, wanted)
    threads = plan.threads_per_core or node.threads_per_core
    cpus = len(job.cpuset) if job.cpuset is not None else cores * threads
    if job.cpuset is not None:
        cores = max(1, cpus // threads)
    workers = job.num_workers
    if workers is None:
        workers = num_workers(cores, cpus, job.storage, smt=threads > 1)
    shm = job.shm_size_bytes or shm_size_bytes(workers, None)
    return Group(
        name=name,
        members=tuple(members),
        profile=wanted,
        gpu_memory_mib=memory_mib,
        cores=cores,
        cpus=cpus,
        num_workers=workers,
        memory_bytes=job.mem_limit_bytes or shm + (workers + 1) * _RAM_A_PROCESS,
        memory_given=job.mem_limit_bytes is not None,
        shm_bytes=shm,
        batch_size=_batch(job, memory_mib),
    )


def _profile(job: Job, plan: Plan, node: Node, auto: Profile | None) -> tuple[Profile | None, str | None]:
    """The profile as the node's GPU has it, where that is known, and its name; no name = a whole GPU."""
    request = job.request
    if isinstance(request, ByInstance):
        raise PlanError(
            "instance-on-a-cluster",
            f"job {job.name} names the MIG device {request.mig_uuid} of one machine; a cluster chooses the device itself",
            where=job.place("instance"),
            hint="write the device's profile instead: `nvidia-smi -L` prints it",
        )
    if plan.strategy in (Strategy.SHARED, Strategy.SEQUENTIAL):
        return None, None
    if isinstance(request, ByProfile) and not node.gpus:
        return None, request.name
    if not node.gpus:
        raise PlanError(
            "node-unknown",
            f"which profile job {job.name} gets depends on the nodes' GPUs, and there is none here",
            where=job.place("memory", "slices"),
            hint="say which board the nodes have: --on a100-40gb (and --cores N); or write profile",
        )
    able = [gpu for gpu in _gpus(job, plan, node) if gpu.profiles]
    if not able:
        return None, None
    found = auto if isinstance(request, Auto) else options(request, able[0])
    return found, None if found is None else found.name


def _gpus(job: Job, plan: Plan, node: Node) -> tuple[Gpu, ...]:
    """A kind of GPU means the same on every machine; numbers and UUIDs are those of one."""
    kinds = [selector for selector in job.gpus or plan.gpus if selector.model is not None]
    return select_gpus(kinds, node.gpus, plan.strategy) if kinds else node.gpus


def _auto_profile(plan: Plan, node: Node) -> Profile | None:
    """The one profile of all auto jobs: the largest with which all run at once on a node, else the smallest."""
    asking = [job for job in plan.jobs if isinstance(job.request, Auto)]
    able = [gpu for gpu in node.gpus if gpu.profiles]
    if not asking or not able or plan.strategy in (Strategy.SHARED, Strategy.SEQUENTIAL):
        return None
    if len(plan.jobs) > sum(max(profile.max_instances for profile in gpu.profiles) for gpu in able):
        return auto_candidates(able[0])[-1]
    from migctl.core.allocate import allocate  # only this needs all that lays out a machine

    topology = flat(max(node.cores, len(plan.jobs)))
    machine = Machine(gpus=node.gpus, topology=topology, affinity=topology.online)
    jobs = tuple(replace(job, gpus=()) for job in plan.jobs)
    anywhere = replace(plan, jobs=jobs, gpus=(GpuSelector(all=True),), max_parallel=None)
    found = {a.job.name: a.profile for a in allocate(anywhere, machine).assignments}
    return next((found[job.name] for job in asking if found.get(job.name)), auto_candidates(able[0])[-1])


def _cores(job: Job, plan: Plan, node: Node, profile: Profile | None, wanted: str | None) -> int:
    """The part of a node's cores that goes with the job's part of its GPUs: the neighbours on the node need theirs."""
    if node.cores == 0:
        raise PlanError(
            "cores-unknown",
            f"how many cores job {job.name} gets depends on the nodes, and nothing is known of them",
            where=job.place("cpus"),
            hint="--cores N says how many physical cores a node has; or write cpus",
        )
    if profile is not None:
        slices = int(profile.compute_slices)
    elif wanted is not None:
        slices = int(wanted.partition("g")[0])
    else:
        slices = 7
    total = node.compute_slices or 7
    return max(1, int((node.cores - (plan.reserve_cores or 0)) * Fraction(slices, max(total, slices))))


def _whole_memory(plan: Plan, job: Job, node: Node, wanted: str | None) -> int | None:
    if wanted is not None or not node.gpus:
        return None
    return _gpus(job, plan, node)[0].memory_mib


def _batch(job: Job, memory_mib: int | None) -> int | None:
    if job.batch_size is None or job.batch_size_memory_mib is None:
        return job.batch_size
    if memory_mib is None:
        raise PlanError(
            "node-unknown",
            f"the batch size of job {job.name} depends on the memory of the nodes' instances",
            where=job.place("batch_size"),
            hint="say which board the nodes have: --on a100-40gb",
        )
    where = job.place("batch_size")
    return batch_size(job.batch_size, job.batch_size_memory_mib, memory_mib, job.batch_fixed_memory_mib, where=where)


def profiles(found: Iterable[Group]) -> tuple[str, ...]:
    """The profiles that the jobs ask for, each once, in order."""
    return tuple(dict.fromkeys(group.profile for group in found if group.profile is not None))
