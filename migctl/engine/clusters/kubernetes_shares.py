"""What a plan's jobs get of a Kubernetes cluster's nodes, and what the nodes tell that the plan leaves open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from migctl.core.cluster.clusterjobs import Node, groups
from migctl.core.cluster.clusterturns import Turn, turns
from migctl.core.cluster.kubernetes_groups import in_one
from migctl.core.cluster.kubernetes_nodes import KubernetesNode, chosen, product_of, strategy_of
from migctl.core.gpu.mig import Gpu
from migctl.core.plan import ByProfile, Plan
from migctl.errors import Notice
from migctl.kubectl.client import Kubectl
from migctl.nvml.models import board_gpu, boards, resolve_board
from migctl.render.kubernetes import check_images, check_strategy, resource_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The jobs, ready to be handed over."""

    plan: Plan
    """With what the nodes tell in place of what the plan leaves open."""
    turns: tuple[Turn, ...]
    product: str = ""
    notices: tuple[Notice, ...] = ()


def shares(plan: Plan, kubectl: Kubectl) -> Shares:
    """Every job with its part of a node.

    Raises:
        PlanError: the cluster can never run it, or what is asked of it depends on what nobody told.
        MigctlError: the cluster cannot be asked.
    """
    check_images(plan)
    found = kubectl.nodes()
    there = chosen(found, plan) if found is not None else ()
    settings = plan.kubernetes
    if settings.mig_strategy is None and not settings.dra:
        plan = replace(plan, kubernetes=replace(settings, mig_strategy=strategy_of(there)))
    made, product = _groups(plan, there)
    check_strategy(plan, [turn.group for turn in made])
    notices = (*_missing(plan, made, found, there), *_held(made))
    return Shares(plan=plan, turns=made, product=product, notices=notices)


def _groups(plan: Plan, there: Sequence[KubernetesNode]) -> tuple[tuple[Turn, ...], str]:
    named = all(isinstance(job.request, ByProfile) for job in plan.jobs)
    told = named and all(job.cpus is not None and job.batch_size_memory_mib is None for job in plan.jobs)
    if told and len({node.product for node in there if node.product}) > 1:
        return turns(plan, in_one(plan, groups(plan, Node()))), ""
    product = product_of(there, plan)
    smallest = min(there, key=lambda node: (node.cpus // node.threads_per_core, node.name), default=None)
    node = Node()
    if smallest is not None:
        cores = smallest.cpus // smallest.threads_per_core
        node = Node(_gpus(product, smallest.gpus or 1), cores, smallest.threads_per_core)
    return turns(plan, in_one(plan, groups(plan, node))), product


def _gpus(product: str, number: int) -> tuple[Gpu, ...]:
    """The GPUs of a node as the board's table has them; nothing where it has no such product."""
    for key in boards() if product else ():
        board = resolve_board(key)
        if re.sub(r"[^A-Za-z0-9-.]+", "-", board.name) == product:
            return tuple(board_gpu(board, index) for index in range(number))
    return ()


def _missing(
    plan: Plan, made: Sequence[Turn], found: Sequence[KubernetesNode] | None, there: Sequence[KubernetesNode]
) -> tuple[Notice, ...]:
    """Devices that no node offers: not an error, as a node can come; but nothing else would tell (the pod waits for ever)."""
    if found is None or plan.kubernetes.dra:
        return ()
    offered = frozenset(name for node in there for name in node.devices)
    wanted: dict[str, list[str]] = {}
    for turn in made:
        name = resource_name(turn.group.profile, plan.kubernetes.mig_strategy)
        if name not in offered:
            wanted.setdefault(name, []).append(turn.group.name)
    listed = f"they offer {', '.join(sorted(offered))}" if offered else "they offer no NVIDIA device at all"
    return tuple(
        Notice(
            "no-node-offers-it",
            f"no node has {name}, which {_some(names)} asks for; {listed}: the pods wait until one does",
            hint=_way_out(name),
        )
        for name, names in wanted.items()
    )


def _held(made: Sequence[Turn]) -> tuple[Notice, ...]:
    """Who begins later, and by whom: nobody but migctl knows the order."""
    held = [turn.group.name for turn in made if turn.after]
    if not held:
        return ()
    verb = "waits" if len(held) == 1 else "wait"
    return (
        Notice(
            "order-kept-by-migctl",
            f"{_some(held)} {verb} for other jobs, which Kubernetes has no words for: migctl starts them",
            hint="migctl up again when their turn has come (status says when), or migctl up --wait",
        ),
    )


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _way_out(name: str) -> str:
    if name.startswith("nvidia.com/mig-"):
        return "migctl export mig-parted writes the layout for the nodes' MIG manager, and the line that labels a node"
    return "kubectl get nodes -L nvidia.com/gpu.product; NVIDIA's device plugin makes the devices known"
