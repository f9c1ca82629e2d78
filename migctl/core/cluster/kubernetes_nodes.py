"""What a cluster's nodes tell of themselves: their GPUs, their CPUs, and how their device plugin names MIG devices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from migctl.core.cluster.clusters import MigStrategy
from migctl.core.plan import Plan
from migctl.errors import PlanError

# Labels of GPU feature discovery (github.com/NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery) and of node feature discovery.
_PRODUCT = "nvidia.com/gpu.product"
_COUNT = "nvidia.com/gpu.count"
_STRATEGY = "nvidia.com/mig.strategy"
_THREADS = "feature.node.kubernetes.io/cpu-hardware_multithreading"
_ADDED = re.compile(r"-(?:MIG-.*|SHARED|MPS)$")
"""What GPU feature discovery writes behind a product's name where its devices are parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesNode:
    """A node."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)

    @property
    def product(self) -> str:
        """Product name of its GPUs with dashes for blanks; nothing where no GPU feature discovery runs."""
        return _ADDED.sub("", self.labels.get(_PRODUCT, ""))

    @property
    def gpus(self) -> int:
        """How many it has, as far as it tells."""
        told = self.labels.get(_COUNT, "")
        return int(told) if told.isdigit() else 0

    @property
    def cpus(self) -> int:
        """Whole logical CPUs for pods."""
        text = self.allocatable.get("cpu", "0")
        number, milli = text.removesuffix("m"), text.endswith("m")
        return (int(number) // 1000 if milli else int(number)) if number.isdigit() else 0

    @property
    def threads_per_core(self) -> int:
        """Where nobody tells, each CPU counts as a core: the share in CPUs is the same."""
        return 2 if self.labels.get(_THREADS) == "true" else 1

    @property
    def devices(self) -> frozenset[str]:
        """NVIDIA's resources that it has to give."""
        return frozenset(
            name for name, amount in self.allocatable.items() if name.startswith("nvidia.com/") and amount != "0"
        )


def chosen(nodes: Sequence[KubernetesNode], plan: Plan) -> tuple[KubernetesNode, ...]:
    """The nodes with GPUs that the plan's node selector leaves."""
    wanted = plan.kubernetes.node_selector
    able = [node for node in nodes if all(node.labels.get(key) == value for key, value in wanted)]
    return tuple(node for node in able if node.product or node.devices)


def product_of(nodes: Sequence[KubernetesNode], plan: Plan) -> str:
    """The one product of all these nodes; nothing where none tells.

    Raises:
        PlanError: there are several, and what a job gets depends on which.
    """
    found = sorted({node.product for node in nodes if node.product})
    if len(found) > 1:
        raise PlanError(
            "several-products",
            f"what the jobs get depends on the nodes' GPUs, and there are several kinds: {', '.join(found)}",
            where=plan.place("kubernetes"),
            hint=f"kubernetes: {{node_selector: {{{_PRODUCT}: NAME}}}} chooses one; or write profile and cpus for each job",
        )
    return found[0] if found else ""


def strategy_of(nodes: Sequence[KubernetesNode]) -> MigStrategy | None:
    """How all these nodes name MIG devices; `None` where they do not tell, or not the same."""
    told = {node.labels.get(_STRATEGY, "") for node in nodes if node.labels.get(_STRATEGY, "none") != "none"}
    if told in ({MigStrategy.MIXED.value}, {MigStrategy.SINGLE.value}):
        return MigStrategy(told.pop())
    return None
