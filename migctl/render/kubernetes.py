"""Jobs as Kubernetes manifests: a Job for each group of equal jobs, Indexed where there are several."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from migctl.core.choices import RuntimeName
from migctl.core.cluster.clusterjobs import Group
from migctl.core.cluster.clusters import KubernetesSettings, MigStrategy
from migctl.core.cluster.clusterturns import Link, Turn
from migctl.core.cluster.kubernetes_objects import QUEUE
from migctl.core.plan import Plan
from migctl.core.yaml_text import Noted, Value, document
from migctl.errors import PlanError
from migctl.render.exported import Exporter
from migctl.render.kubernetes_marks import Marks
from migctl.render.kubernetes_pod import pod_spec
from migctl.render.kubernetes_values import annotations_of, dns_name, label_value
from migctl.render.withheld import Withheld

_NOTHING_WITHHELD = Withheld()
LONGEST_NAME = 52
"""Of a Job: its pods' host names add `-` and an index, and are at most 63 characters long."""
PART_OF = "app.kubernetes.io/part-of"
MANAGED_BY = "app.kubernetes.io/managed-by"


def manifests(
    plan: Plan,
    turns: Sequence[Turn],
    exporter: Exporter,
    *,
    product: str = "",
    marks: Marks | None = None,
    hidden: Withheld = _NOTHING_WITHHELD,
) -> tuple[Value, ...]:
    """Every object, in the order in which they are applied.

    Args:
        plan: the jobs' plan, with its settings for Kubernetes.
        turns: the groups and what each waits for.
        exporter: whose pods run as him where a job names no user.
        product: product name of the nodes' GPUs, for `single`, where it is known.
        marks: for what migctl itself applies; `None`: for an export.
        hidden: values that come from a Secret.

    Raises:
        PlanError: it cannot be said, or the device plugin's strategy has to be told.
    """
    check_images(plan)
    check_strategy(plan, [turn.group for turn in turns])
    names = marks.names if marks is not None else job_names(plan, [turn.group for turn in turns])
    asked = dict.fromkeys(turn.group.profile for turn in turns)
    claims = {profile: _claim(profile, plan, marks) for profile in asked}
    made: list[Value] = list(claims.values()) if plan.kubernetes.dra else []
    for turn in turns:
        waits = tuple(_wait(link, names) for link in turn.after) if marks is None else ()
        made.append(Noted(_job(plan, turn, names[turn.group.name], exporter, product, marks, hidden), above=waits))
    return tuple(made)


def _wait(link: Link, names: Mapping[str, str]) -> str:
    job = f"job/{names[link.group]}"
    if not link.success:
        return f"Apply it when {job} has ended: kubectl get {job}"
    return f"Apply it when {job} has succeeded: kubectl wait --timeout=-1s --for=condition=complete {job}"


def manifest_text(objects: Iterable[Value], above: Sequence[str]) -> str:
    """All objects as one file for `kubectl apply -f`."""
    texts = [document(one) for one in objects]
    heading = "".join(f"# {line}".rstrip() + "\n" for line in above)
    return heading + "---\n".join(texts)


def check_images(plan: Plan) -> None:
    """Whether every job has an image.

    Raises:
        PlanError: with the names of those that have none.
    """
    bare = [job for job in plan.jobs if job.image is None]
    if not bare:
        return
    names = list(dict.fromkeys(job.origin for job in bare))
    whose = f"job {names[0]} has" if len(names) == 1 else f"jobs {', '.join(names)} have"
    raise PlanError(
        "image-missing",
        f"{whose} no image, and Kubernetes runs nothing but containers",
        where=bare[0].where,
        hint="add image" + (", and delete runtime: process" if plan.runtime is RuntimeName.PROCESS else ""),
    )


def check_strategy(plan: Plan, groups: Sequence[Group]) -> None:
    """Whether the device can be named.

    Raises:
        PlanError: one profile can be named in two ways, or several in one way only.
    """
    profiles = dict.fromkeys(group.profile for group in groups if group.profile is not None)
    strategy = plan.kubernetes.mig_strategy
    if plan.kubernetes.dra or not profiles:
        return
    if strategy is MigStrategy.SINGLE and len(profiles) > 1:
        raise PlanError(
            "several-profiles",
            f"with mig_strategy: single all MIG devices of a node have one profile; the plan has {', '.join(profiles)}",
            where=plan.place("kubernetes"),
            hint="mig_strategy: mixed (the nodes' device plugin must have it too), or one profile for all jobs",
        )
    if strategy is None and len(profiles) == 1:
        profile = next(iter(profiles))
        raise PlanError(
            "mig-strategy-unknown",
            f"{profile} is {resource_name(profile, MigStrategy.MIXED)} on nodes whose device plugin is `mixed`, and "
            f"{resource_name(profile, MigStrategy.SINGLE)} where it is `single`",
            where=plan.place("kubernetes"),
            hint="--mig-strategy mixed or single; kubectl get nodes -L nvidia.com/mig.strategy tells",
        )


def resource_name(profile: str | None, strategy: MigStrategy | None) -> str:
    """The extended resource; a plus sign is not allowed in its name, and the device plugin writes a dot."""
    if profile is None or strategy is MigStrategy.SINGLE:
        return "nvidia.com/gpu"
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def job_names(plan: Plan, groups: Sequence[Group], taken: Collection[str] = ()) -> dict[str, str]:
    """Group → the name of its Job: a DNS label of its own in the namespace.

    Args:
        taken: names that Jobs of earlier attempts have.
    """
    found: dict[str, str] = {}
    for group in groups:
        exact = f"{plan.name}-{group.name}"
        plain = re.sub(r"[^a-z0-9-]+", "-", exact.lower()).strip("-") or "job"
        if len(plain) > LONGEST_NAME or plain in found.values():
            digest = hashlib.blake2b(exact.encode(), digest_size=3).hexdigest()
            plain = f"{plain[: LONGEST_NAME - 7].rstrip('-')}-{digest}"
        attempt = 1
        first = plain
        while plain in taken or plain in found.values():
            attempt += 1
            plain = f"{first[: LONGEST_NAME - len(f'-again{attempt}')].rstrip('-')}-again{attempt}"
        found[group.name] = plain
    return found


def _job(
    plan: Plan, turn: Turn, name: str, exporter: Exporter, product: str, marks: Marks | None, hidden: Withheld
) -> Value:
    group, job, settings = turn.group, turn.group.first, plan.kubernetes
    held = marks is not None and group.name in marks.held
    labels: dict[str, Value] = {
        "app.kubernetes.io/name": label_value(group.name),
        PART_OF: label_value(plan.name),
        MANAGED_BY: "migctl",
        **(marks.labels if marks is not None else {}),
    }
    metadata: dict[str, Value] = {"name": name}
    if settings.namespace:
        metadata["namespace"] = settings.namespace
    metadata["labels"] = {**labels, **({QUEUE: settings.queue} if settings.queue and not held else {})}
    if marks is not None:
        metadata["annotations"] = dict(marks.annotations[group.name])
    spec: dict[str, Value] = {}
    if held:
        spec["suspend"] = True
    elif settings.queue:
        spec["suspend"] = Noted(True, beside="Kueue starts it when its queue has room")
    if group.array:
        several = len(group.members)
        spec |= {
            "completionMode": "Indexed",
            "completions": several,
            "parallelism": turn.at_once or several,
            "backoffLimitPerIndex": job.retries,
            "maxFailedIndexes": several,
        }
    else:
        spec["backoffLimit"] = job.retries
    template: dict[str, Value] = {"labels": dict(labels)}
    if told := annotations_of(job.labels):
        template["annotations"] = told
    pod = pod_spec(plan, group, exporter, _devices(group, plan), _selector(group, settings, product), hidden)
    spec["template"] = {"metadata": template, "spec": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _devices(group: Group, plan: Plan) -> dict[str, Value]:
    """The container's extended resources, or the pod's claim."""
    if plan.kubernetes.dra:
        return {"claim": _claim_name(plan, group.profile)}
    return {resource_name(group.profile, plan.kubernetes.mig_strategy): 1}


def _selector(group: Group, settings: KubernetesSettings, product: str) -> dict[str, str]:
    selector = dict(settings.node_selector)
    if product and group.profile is not None and settings.mig_strategy is MigStrategy.SINGLE and not settings.dra:
        label = f"{re.sub(r'[^A-Za-z0-9-.]+', '-', product)}-MIG-{group.profile.replace('+', '.')}"
        selector.setdefault("nvidia.com/gpu.product", label)
    return selector


def _claim_name(plan: Plan, profile: str | None) -> str:
    """Of the run's own: whoever removes a run takes it away, too."""
    device = f"mig-{re.sub(r'[^a-z0-9.-]', '.', profile)}" if profile is not None else "whole-gpu"
    return f"{dns_name(plan.name)}-{device}"


def _claim(profile: str | None, plan: Plan, marks: Marks | None) -> Value:
    """A device for each pod, from NVIDIA's DRA driver."""
    request: dict[str, Value] = {"deviceClassName": "mig.nvidia.com" if profile is not None else "gpu.nvidia.com"}
    if profile is not None:
        expression = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
        request["selectors"] = [{"cel": {"expression": expression}}]
    metadata: dict[str, Value] = {"name": _claim_name(plan, profile)}
    if plan.kubernetes.namespace:
        metadata["namespace"] = plan.kubernetes.namespace
    own = marks.labels if marks is not None else {}
    metadata["labels"] = {PART_OF: label_value(plan.name), MANAGED_BY: "migctl", **own}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}},
    }
