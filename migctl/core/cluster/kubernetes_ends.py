"""Why a pod has failed, from the kubelet's word and the container's exit code, with what to do about it."""

from __future__ import annotations

from migctl.core.cluster.kubernetes_objects import Pod
from migctl.core.cluster.kubernetes_waits import quoted
from migctl.core.ending.exit_codes import exit_words

_NOT_BEGUN = frozenset({"ContainerCannotRun", "StartError", "CreateContainerError"})
"""The container's program never ran (OCI runtimes through the kubelet; their exit codes are 127 and 128)."""
_SIGTERM, _SIGKILL = 143, 137


def failure(pod: Pod) -> str:
    """Why a pod that has failed did so."""
    container = pod.container
    if container.reason == "OOMKilled":
        limit = f" of {pod.memory_limit}" if pod.memory_limit else ""
        return f"out of memory: over its limit{limit} (OOMKilled); a larger mem_limit, or fewer workers"
    if container.reason in _NOT_BEGUN:
        return f"its program could not be started: {quoted(container.message)}; see command, entrypoint and image"
    if pod.reason == "DeadlineExceeded":
        return "it ran longer than its timeout"
    if pod.reason == "Evicted":
        return f"evicted from its node: {quoted(pod.message)}; a mem_limit that it keeps to protects it"
    if pod.reason.startswith("OutOf") or pod.reason in ("UnexpectedAdmissionError", "NodeAffinity", "NodePorts"):
        return f"its node refused it ({pod.reason}): {quoted(pod.message)}; migctl up --retry"
    disrupted = pod.condition("DisruptionTarget")
    if disrupted is not None and disrupted.holds:
        return f"taken off its node ({disrupted.reason}): {quoted(disrupted.message)}; retries makes it go on elsewhere"
    if pod.reason and container.exit_code is None:
        return f"{pod.reason}: {quoted(pod.message)}" if pod.message else pod.reason
    code = container.exit_code
    match code:
        case None:
            return "its pod failed before its container ran; kubectl describe pod " + pod.name
        case 126:
            return "its program cannot be executed (exit code 126); chmod +x, or name its interpreter"
        case 127:
            return "its program was not found (exit code 127); see command, and what the image has on its PATH"
        case _ if code == _SIGKILL:
            return f"{exit_words(code)}, by the node or from outside; whether for memory the node's kernel log tells"
        case _ if code == _SIGTERM:
            return f"{exit_words(code)}: somebody deleted its pod, or its node was shut down"
        case _:
            return exit_words(code)
