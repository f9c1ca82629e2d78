"""A name that is taken: our own dead container of the same attempt gives it up, anybody else's keeps it."""

from __future__ import annotations

from migctl.errors import Busy
from migctl.runtimes.container_late import is_of_this_attempt
from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.engine_client import Engine
from migctl.runtimes.launch import Launch


def clear_name(engine: Engine, launch: Launch, where: str) -> None:
    """Remove the dead container of this very attempt.

    Raises:
        Busy: somebody else's container, or a running one, has the name.
    """
    with engine_errors(engine.endpoint, where):
        data = engine.client.inspect_container(launch.name)
    ours = is_of_this_attempt(data, launch)
    if not ours or data["State"].get("Running"):
        whose = "this very attempt, and it runs" if ours else "not this attempt's"
        raise Busy(
            "name-taken",
            f"a container called {launch.name} exists and is {whose}",
            where=where,
            hint=f"docker inspect {launch.name}; migctl never removes what it did not make",
            data={"container": data["Id"]},
        )
    with engine_errors(engine.endpoint, where):
        engine.client.remove_container(data["Id"], v=True)
