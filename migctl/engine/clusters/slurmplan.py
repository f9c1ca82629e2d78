"""A plan as one Slurm site takes it: profiles by name, each with the site's own type, and the node that shares are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from migctl.core.choices import Strategy
from migctl.core.cluster.clusterjobs import Node
from migctl.core.cluster.slurmsite import Site, gres_type, node_share, whole_type
from migctl.core.cluster.slurmsizes import offers, sized
from migctl.core.gpu.mig import Gpu
from migctl.core.plan import ByProfile, Job, Plan
from migctl.errors import DoesNotFit
from migctl.nvml.models import board_gpu, boards, resolve_board

_GRES_OPTIONS = ("--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task")


@dataclass(frozen=True, slots=True)
class Placed:
    """The plan for this site."""

    plan: Plan
    """With every profile by name and its type in `slurm.gres`."""
    node: Node


def placed(plan: Plan, site: Site) -> Placed:
    """What the plan means at this site.

    Raises:
        DoesNotFit: a type or a size that its jobs ask for is not there.
        PlanError: it cannot be known which type is meant.
    """
    # Numbers and UUIDs of GPUs are those of one machine, and the site chooses among its own.
    plan = replace(plan, gpus=(), jobs=tuple(replace(job, gpus=()) for job in plan.jobs))
    partition = plan.slurm.partition
    known = _boards()
    there = offers(site, partition, {name: min(sizes) for name, sizes in _memory(known).items()})
    plan = sized(plan, there)
    by_hand = any(option.startswith(_GRES_OPTIONS) for option in plan.slurm.options)
    whole = "" if by_hand else _whole(plan, site)
    types = {} if by_hand else _types(plan, site)
    plan = replace(plan, slurm=replace(plan.slurm, gres=tuple(types.items()) or plan.slurm.gres, whole=whole))
    wanted = [*types.values(), *([whole] if whole else [])]
    share = node_share(site, partition, wanted)
    if share is None:
        return Placed(plan, Node())
    node = Node(
        gpus=_gpu(types, [offer.profile for offer in there], known),
        cores=share.cores,
        threads_per_core=share.threads_per_core,
        slices=share.slices,
    )
    _check_cores(plan.jobs, site, partition)
    return Placed(plan, node)


def _types(plan: Plan, site: Site) -> dict[str, str]:
    """Profile → type, for all profiles that jobs ask for."""
    told = dict(plan.slurm.gres)
    found: dict[str, str] = {}
    for job in plan.jobs:
        if plan.strategy in (Strategy.SHARED, Strategy.SEQUENTIAL) or not isinstance(job.request, ByProfile):
            continue
        profile = job.request.name
        if profile not in found:
            where = job.place("profile", "memory", "slices")
            found[profile] = gres_type(profile, told, site, plan.slurm.partition, where)
    return found


def _whole(plan: Plan, site: Site) -> str:
    if plan.strategy not in (Strategy.SHARED, Strategy.SEQUENTIAL) or not plan.jobs:
        return ""
    return whole_type(site, plan.slurm.partition, plan.place("strategy") or plan.jobs[0].place("profile"))


def _check_cores(jobs: Sequence[Job], site: Site, partition: str | None) -> None:
    most = max((node.cores for node in site.within(partition)), default=0)
    over = next((job for job in jobs if job.cpus is not None and most and job.cpus > most), None)
    if over is None:
        return
    raise DoesNotFit(
        "slurm-never-fits",
        f"job {over.name} asks for {over.cpus} cores, and no node with GPUs that it could get has more than {most}",
        where=over.place("cpus"),
        hint="fewer cpus, or another partition: slurm: {partition: NAME}",
    )


def _boards() -> tuple[Gpu, ...]:
    """One GPU of each board that migctl has data of: a site tells its profiles, and never how much memory they have."""
    return tuple(board_gpu(resolve_board(name)) for name in boards())


def _memory(known: Sequence[Gpu]) -> Mapping[str, set[int]]:
    found: dict[str, set[int]] = {}
    for gpu in known:
        for profile in gpu.profiles:
            found.setdefault(profile.name, set()).add(profile.memory_mib)
    return found


def _gpu(types: Mapping[str, str], there: Sequence[str], known: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """A GPU of the kind that the site must have, where all that it could be agree about the profiles asked for; else nothing."""
    wanted = {*types, *there}
    able = [gpu for gpu in known if wanted and wanted <= {profile.name for profile in gpu.profiles}]
    memory = _memory(able)
    return (able[0],) if able and all(len(memory[profile]) == 1 for profile in types) and types else ()
