"""What `kubectl get -o json` prints, as the values that are asked for; a field that is missing is what the API takes for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from migctl.core.cluster.kubernetes_nodes import KubernetesNode
from migctl.core.cluster.kubernetes_objects import Condition, Container, KubernetesJob, Pod, Trouble
from migctl.core.cpu.cpuset import CpuSet

Document = Mapping[str, Any]

_CONTAINER = "job"
_INDEX = "batch.kubernetes.io/job-completion-index"
_INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"


def items(document: Document) -> tuple[Document, ...]:
    """The objects of a list."""
    return tuple(document.get("items") or ())


def jobs(documents: Iterable[Document]) -> tuple[KubernetesJob, ...]:
    """The Jobs among them."""
    return tuple(_job(one) for one in documents if one.get("kind") == "Job")


def pods(documents: Iterable[Document]) -> tuple[Pod, ...]:
    """The pods among them."""
    return tuple(_pod(one) for one in documents if one.get("kind") == "Pod")


def troubles(documents: Iterable[Document]) -> tuple[Trouble, ...]:
    """The warnings among them."""
    return tuple(
        Trouble(
            (one.get("involvedObject") or {}).get("uid", ""),
            one.get("reason") or "",
            one.get("message") or "",
            seconds(one.get("lastTimestamp") or one.get("eventTime") or one["metadata"].get("creationTimestamp")),
        )
        for one in documents
        if one.get("kind") == "Event" and one.get("type") == "Warning"
    )


def nodes(documents: Iterable[Document]) -> tuple[KubernetesNode, ...]:
    """The nodes among them."""
    return tuple(
        KubernetesNode(
            name=one["metadata"]["name"],
            labels=one["metadata"].get("labels") or {},
            allocatable={
                name: str(amount) for name, amount in ((one.get("status") or {}).get("allocatable") or {}).items()
            },
        )
        for one in documents
        if one.get("kind") == "Node"
    )


def seconds(text: str | None) -> float | None:
    """Unix seconds of a time as the API writes it; what is none is unknown."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _job(one: Document) -> KubernetesJob:
    metadata, spec, status = one["metadata"], one.get("spec") or {}, one.get("status") or {}
    indexed = spec.get("completionMode") == "Indexed"
    per_index = spec.get("backoffLimitPerIndex")
    return KubernetesJob(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        indexed=indexed,
        retries=per_index if per_index is not None else spec.get("backoffLimit", 6),
        suspended=bool(spec.get("suspend")),
        active=status.get("active") or 0,
        failures=status.get("failed") or 0,
        completed=_indexes(status.get("completedIndexes")),
        failed=_indexes(status.get("failedIndexes")),
        conditions=_conditions(status),
        finished_at=seconds(status.get("completionTime")) or _failed_at(status),
        leaving=bool(metadata.get("deletionTimestamp")),
    )


def _failed_at(status: Document) -> float | None:
    """A Job that failed has no completionTime; its condition tells when."""
    for one in status.get("conditions") or ():
        if one.get("type") == "Failed" and one.get("status") == "True":
            return seconds(one.get("lastTransitionTime"))
    return None


def _indexes(text: str | None) -> frozenset[int]:
    """`1,3-5`."""
    try:
        return CpuSet.parse(text or "")
    except ValueError:
        return frozenset()


def _conditions(status: Document) -> tuple[Condition, ...]:
    return tuple(
        Condition(one["type"], one.get("status") == "True", one.get("reason") or "", one.get("message") or "")
        for one in status.get("conditions") or ()
    )


def _pod(one: Document) -> Pod:
    metadata, spec, status = one["metadata"], one.get("spec") or {}, one.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    owners = [owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("kind") == "Job"]
    index = annotations.get(_INDEX) or labels.get(_INDEX)
    container: Document = next((c for c in spec.get("containers") or () if c.get("name") == _CONTAINER), {})
    limits = (container.get("resources") or {}).get("limits") or {}
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        owner_uid=owners[0] if owners else "",
        labels=labels,
        index=int(index) if index is not None and index.isdigit() else None,
        failures=int(text) if (text := annotations.get(_INDEX_FAILURES, "")).isdigit() else 0,
        phase=status.get("phase") or "Pending",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        node=spec.get("nodeName") or "",
        memory_limit=str(limits.get("memory", "")),
        conditions=_conditions(status),
        container=_container(status),
        created_at=seconds(metadata.get("creationTimestamp")),
        leaving=bool(metadata.get("deletionTimestamp")),
    )


def _container(status: Document) -> Container:
    told: Document = next((c for c in status.get("containerStatuses") or () if c.get("name") == _CONTAINER), {})
    state = told.get("state") or {}
    kind = next((name for name in ("terminated", "running", "waiting") if state.get(name)), "")
    found = state.get(kind) or {}
    return Container(
        state=kind,
        reason=found.get("reason") or "",
        message=found.get("message") or "",
        exit_code=found.get("exitCode"),
        started_at=seconds(found.get("startedAt")),
        finished_at=seconds(found.get("finishedAt")),
    )
