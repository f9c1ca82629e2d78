"""Why a job does not run yet, in its cluster's own words with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from migctl.core.cluster.kubernetes_objects import QUEUE, KubernetesJob, Pod, Trouble

_MOST = 300
"""Characters of a cluster's message that are quoted."""
_PREEMPTION = re.compile(r"\.?\s*preemption: .*", re.DOTALL)
_SHORT = re.compile(r"Insufficient (nvidia\.com/\S+?)[.,]?(?:\s|$)")
_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "ImageInspectError",
    }
)
"""Reasons of a container that waits for its image (kubelet, pkg/kubelet/images/types.go)."""
_CONFIGURATION = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError"}
)
"""Reasons of a container that cannot be made (pkg/kubelet/kuberuntime)."""
NODES_OFFER = "kubectl describe nodes | grep nvidia.com"
"""Shows which devices the nodes offer."""

# The scheduler's clauses (pkg/scheduler/framework/plugins), and what helps.
_ADVICE: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"Insufficient cpu"), "fewer cpus, or wait for a node with more free ones"),
    (re.compile(r"Insufficient memory"), "a smaller mem_limit or shm_size, or wait for a node with more free memory"),
    (re.compile(r"untolerated taint"), "the nodes' administrator can lift the taint; pods of migctl tolerate nvidia.com/gpu"),
    (
        re.compile(r"didn't match Pod's node affinity|node selector"),
        "see node_selector, and with mig_strategy: single the product label: kubectl get nodes -L nvidia.com/gpu.product",
    ),
    (re.compile(r"persistentvolumeclaim \"[^\"]*\" not found"), "make the PersistentVolumeClaim of that name"),
    (re.compile(r"unbound immediate PersistentVolumeClaims|volume node affinity"), "kubectl describe pvc tells why"),
    (
        re.compile(r"cannot allocate all claims|resourceclaim", re.IGNORECASE),
        "no device of a DRA driver is free or matches: kubectl get resourceslices, kubectl get deviceclasses",
    ),
)  # fmt: skip


def quoted(text: str) -> str:
    """A message of the cluster on one line, cut where it goes on and on."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST else line[: _MOST - 1] + "…"


def unschedulable(message: str) -> str:
    """Why no node takes a pod, and what helps; the scheduler's hope for preemption is left out."""
    told = quoted(_PREEMPTION.sub("", message)).rstrip(".")
    lacking = _SHORT.search(message + " ")
    if lacking is not None:
        return (
            f"no node has {lacking[1]} free ({told}); it waits for one, for ever where no node offers it: {NODES_OFFER}"
        )
    advice = next((hint for pattern, hint in _ADVICE if pattern.search(message)), "")
    return f"no node takes it ({told})" + (f"; {advice}" if advice else "")


def pending(pod: Pod, troubles: Sequence[Trouble] = ()) -> str | None:
    """Why a pod does not run yet; `None`: it is on its way, or the cluster has not told."""
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and not scheduled.holds:
        if scheduled.reason == "SchedulingGated":
            return "its scheduling is gated; whoever set the gate lifts it: kubectl describe pod " + pod.name
        return unschedulable(scheduled.message)
    waiting = pod.container
    if waiting.state == "waiting" and waiting.reason in _IMAGE:
        return f"{waiting.reason}: {quoted(waiting.message)}; {_image_advice(waiting.reason, waiting.message)}"
    if waiting.state == "waiting" and waiting.reason in _CONFIGURATION:
        return f"{waiting.reason}: {quoted(waiting.message)}; kubectl describe pod {pod.name}"
    last = _last(troubles, pod.uid)
    if last is not None:
        return f"{last.reason}: {quoted(last.message)}"
    return None


def _image_advice(reason: str, message: str) -> str:
    if reason == "ErrImageNeverPull":
        return "pull_policy: missing lets the node pull it"
    if reason == "InvalidImageName":
        return "see image"
    if re.search(r"unauthorized|authentication required|403|denied|no basic auth", message, re.IGNORECASE):
        return "the name may be wrong, or the registry wants a password: kubernetes: {image_pull_secrets: [NAME]}"
    if re.search(r"toomanyrequests|rate limit", message, re.IGNORECASE):
        return "the registry limits anonymous pulls: kubernetes: {image_pull_secrets: [NAME]}, or wait"
    return "see image; the node tries again by itself"


def unborn(job: KubernetesJob, troubles: Sequence[Trouble] = ()) -> str | None:
    """Why a Job has no pod for one of its jobs."""
    last = _last(troubles, job.uid)
    if last is not None and not job.suspended:
        return _refused_pod(last.message)
    if job.suspended and QUEUE in job.labels:
        return f"Kueue has not let it in: see kubectl get workloads, kubectl describe localqueue {job.labels[QUEUE]}"
    if job.suspended:
        return f"its Job is suspended; kubectl describe job {job.name}"
    return "waits for its turn among the jobs of its Job" if job.active else None


def _refused_pod(message: str) -> str:
    """What the Job controller was told when it wanted to make a pod (events with the reason FailedCreate)."""
    told = quoted(re.sub(r"^Error creating: ", "", message))
    quota = re.search(r"exceeded quota: ([^\s,]+)", message)
    if quota is not None:
        return (
            f"the namespace's quota {quota[1]} is used up ({told}); it starts when others of the namespace have ended"
        )
    if "violates PodSecurity" in message:
        return (
            f"the namespace's pod security refuses its pod ({told}); no host path, network_mode: host, or user 0 there"
        )
    if re.search(r"no PriorityClass with name", message):
        return f"the cluster refuses its pod ({told}); kubectl get priorityclasses lists them"
    return f"the cluster refuses its pod: {told}"


def _last(troubles: Sequence[Trouble], uid: str) -> Trouble | None:
    own = [trouble for trouble in troubles if trouble.owner_uid == uid]
    return max(own, key=lambda trouble: trouble.at or 0.0, default=None)
