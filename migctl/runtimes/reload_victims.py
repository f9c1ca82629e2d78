"""Running containers that lose their GPU when systemd reads its units anew.

Where systemd manages the containers' cgroups it then writes their device rules as the engine knows them, and what a hook has added
behind the engine's back is gone (NVIDIA/nvidia-container-toolkit#48).
"""

from __future__ import annotations

from collections.abc import Mapping

from migctl.errors import HostError
from migctl.runtimes.container_gpu import takes_its_gpu_from_a_hook
from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.engine_link import EngineLink


def reload_victims(environ: Mapping[str, str], *, user: bool) -> tuple[str, ...]:
    """Their names, whoever started them.

    Args:
        environ: the caller's: which engine is asked.
        user: the user's own manager is meant, which only a rootless engine's containers are under.

    Raises:
        HostError: there is an engine, and it does not tell.
    """
    link = EngineLink(environ)
    try:
        if link.elsewhere:
            return ()
        info = link.info
        rootless = any("rootless" in str(option) for option in info.get("SecurityOptions") or ())
        if info.get("CgroupDriver") != "systemd" or rootless != user:
            return ()
        with engine_errors(link.engine.endpoint):
            client = link.engine.client
            found = [client.inspect_container(one["Id"]) for one in client.containers()]
    except HostError as error:
        if error.id == "no-engine":
            return ()
        raise
    finally:
        link.close()
    return tuple(sorted(str(data["Name"]).lstrip("/") for data in found if takes_its_gpu_from_a_hook(data)))
