"""Which node of a stand-in cluster takes a pod, and the scheduler's words where none does (pkg/scheduler, 1.36)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

Object = Mapping[str, Any]
_FACTORS = {
    **{sign + "i": Decimal(1024) ** power for power, sign in enumerate("KMGTPE", 1)},
    **{sign: Decimal(1000) ** power for power, sign in enumerate("kMGTPE", 1)},
    "m": Decimal("0.001"),
}


def quantity(text: str | int) -> Decimal:
    """An amount as the API writes it: `500m`, `2Gi`, `1e3`."""
    word = str(text)
    for suffix, factor in _FACTORS.items():
        if word.endswith(suffix):
            return Decimal(word.removesuffix(suffix)) * factor
    return Decimal(word)


def requests(pods: Iterable[Object]) -> Mapping[str, Decimal]:
    """What pods ask for, all containers together; a limit alone is a request as well."""
    asked: defaultdict[str, Decimal] = defaultdict(Decimal)
    for container in (one for pod in pods for one in pod["spec"]["containers"]):
        resources = container.get("resources", {})
        for name, amount in {**resources.get("limits", {}), **resources.get("requests", {})}.items():
            asked[name] += quantity(amount)
    return asked


def chosen(pod: Object, nodes: Sequence[Object], pods: Iterable[Object]) -> tuple[str, str]:
    """The name of the first node that takes the pod, or nothing and why none does."""
    there = [one for one in pods if one["status"]["phase"] in ("Pending", "Running")]
    if not nodes:
        return "", "no nodes available to schedule pods"
    reasons: Counter[str] = Counter()
    preemption: Counter[str] = Counter()
    for node in nodes:
        name = node["metadata"]["name"]
        found, hopeless = _against(pod, node, [one for one in there if one["spec"].get("nodeName") == name])
        if not found:
            return name, ""
        reasons.update(found)
        told = (
            "Preemption is not helpful for scheduling" if hopeless else "No preemption victims found for incoming pod"
        )
        preemption[told] += 1
    every = f"0/{len(nodes)} nodes are available"
    return "", f"{every}: {_histogram(reasons)}. preemption: {every}: {_histogram(preemption)}."


def _histogram(reasons: Counter[str]) -> str:
    """FitError.Error: sorted as text, by number first."""
    return ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items()))


def _against(pod: Object, node: Object, there: Iterable[Object]) -> tuple[list[str], bool]:
    """What speaks against the node, and whether no pod's end could change it; the first plugin that objects is heard."""
    tolerations = pod["spec"].get("tolerations", [])
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    spec = node.get("spec", {})
    if spec.get("unschedulable") and not _tolerated(cordon, tolerations):
        return ["node(s) were unschedulable"], True
    for taint in spec.get("taints", []):
        if taint["effect"] in ("NoSchedule", "NoExecute") and not _tolerated(taint, tolerations):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"], True
    labels = {"kubernetes.io/hostname": node["metadata"]["name"], **node["metadata"].get("labels", {})}
    if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return ["node(s) didn't match Pod's node affinity/selector"], True
    short = list(_short(requests([pod]), node["status"]["allocatable"], requests(there)))
    return [f"Insufficient {name}" for name, _ in short], any(hopeless for _, hopeless in short)


def _tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    return any(
        one.get("effect", taint["effect"]) == taint["effect"]
        and one.get("key", taint["key"]) == taint["key"]
        and (one.get("operator", "Equal") == "Exists" or one.get("value", "") == taint.get("value", ""))
        for one in tolerations
    )


def _short(
    wanted: Mapping[str, Decimal], allocatable: Object, used: Mapping[str, Decimal]
) -> Iterator[tuple[str, bool]]:
    for name, amount in wanted.items():
        whole = quantity(allocatable.get(name, 0))
        if whole - used.get(name, 0) < amount:
            yield name, amount > whole
