"""Whether running containers still reach the GPU that they were given: the engine is the last to know when they do not.

Where a hook gave the device, the engine's own list of allowed devices lacks it, and whatever makes the engine or systemd write that
list anew takes the GPU away: `systemctl daemon-reload`, `docker update` (NVIDIA/nvidia-container-toolkit#48). On cgroup v2 the list
is a program in the kernel, and nothing of it is seen from outside; so the container is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from migctl.runtimes.socket_client import Refused, SocketClient

QUESTION = ("nvidia-smi", "-L")
"""In every container to which the toolkit gives the driver's utilities, as it does unless an image forbids it."""
_DEADLINE_S = 5.0
"""A GPU that hangs keeps the answer back: then nothing is known."""
_AT_ONCE = 16
_SYMPTOM = re.compile(r"Failed to initialize NVML: [^\r\n]+")


def takes_its_gpu_from_a_hook(data: Mapping[str, Any]) -> bool:
    """Whether an inspected container got its device behind the engine's back; one by CDI has it in the engine's list."""
    host = data["HostConfig"]
    requests = host.get("DeviceRequests") or ()
    return host.get("Runtime") == "nvidia" or any(request.get("Driver") != "cdi" for request in requests)


def lost_gpus(client: SocketClient, handles: Sequence[str]) -> dict[str, str]:
    """Handle → what NVML says in the container, of those running ones that do not reach their GPU any more.

    A container that cannot answer (no such program, paused, just ended) is not in it: nothing is known of it.
    """
    if not handles:
        return {}
    with ThreadPoolExecutor(min(len(handles), _AT_ONCE)) as pool:
        answers = pool.map(lambda handle: _symptom(client, handle), handles)
        return {handle: answer for handle, answer in zip(handles, answers, strict=True) if answer}


def _symptom(client: SocketClient, handle: str) -> str:
    try:
        code, text = client.run_inside(handle, QUESTION, wait_s=_DEADLINE_S)
    except (Refused, OSError, ValueError, KeyError):
        return ""
    found = _SYMPTOM.search(text)
    return found[0].rstrip() if found and code else ""
