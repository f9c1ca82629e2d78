"""The one place that turns what a container engine answers into migctl's errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from migctl.errors import Busy, HostError, MigctlError, PlanError, Where
from migctl.runtimes.endpoint import Endpoint
from migctl.runtimes.engine_answers import Strange
from migctl.runtimes.socket_client import Refused
from migctl.runtimes.stuck import STUCK


@dataclass(frozen=True, slots=True)
class Rule:
    """An answer that is recognised by its text, and what it means here. Engine versions reword: keep the patterns short."""

    pattern: str
    kind: type[MigctlError]
    id: str
    message: str
    """`{0}` is the engine's own text, `{name}` a named group of the pattern."""
    hint: str | None = None


_RESTART_ENGINE = (
    "install nvidia-container-toolkit, run nvidia-ctk runtime configure --runtime=docker, and restart the engine"
)

RULES: tuple[Rule, ...] = (
    Rule(
        r"could not select device driver",
        HostError,
        "no-gpu-access",
        "the engine knows no way to give a container a GPU: {0}",
        _RESTART_ENGINE,
    ),
    Rule(
        r"unresolvable CDI devices|CDI device injection failed|failed to discover GPU vendor",
        HostError,
        "no-gpu-access",
        "the engine looked for the GPU instance in a CDI specification that does not have it: {0}",
        _RESTART_ENGINE,
    ),
    Rule(
        r"nvidia-container-cli|nvidia-container-runtime",
        HostError,
        "no-gpu-access",
        "NVIDIA's container toolkit failed: {0}",
        "migctl check",
    ),
    Rule(
        r"unknown or invalid runtime name:? (?P<name>\S+)|[Uu]nknown runtime specified (?P<other>\S+)",
        HostError,
        "unknown-runtime",
        "the engine has no such runtime: {0}",
        _RESTART_ENGINE,
    ),
    Rule(
        r"Requested (?P<what>CPUs|memory nodes) are not available",
        HostError,
        "cpuset-beyond-machine",
        "the engine's own cgroup does not have all of the job's {what}: {0}",
        "migctl check",
    ),
    Rule(
        r"container name .* is already in use",
        Busy,
        "name-taken",
        "a container of this name exists already: {0}",
        "docker ps -a",
    ),
    Rule(
        r"port is already allocated|address already in use|failed to bind (?:host )?port",
        Busy,
        "port-taken",
        "a host port of the job is in use: {0}",
        "ss -ltnp shows by whom",
    ),
    Rule(
        r"no space left on device|disk quota exceeded",
        Busy,
        "disk-full",
        "the engine has no room left: {0}",
        "docker system df",
    ),
    Rule(
        r"executable file not found|exec: .*no such file or directory",
        PlanError,
        "no-program",
        "the image has no such program: {0}",
    ),
    Rule(r"exec: .*permission denied", PlanError, "no-program", "the program in the image cannot be executed: {0}"),
    Rule(
        r"unable to find user|no matching entries in passwd|unable to find group",
        PlanError,
        "no-user",
        "the image does not know the job's user or group: {0}",
        "give user: and group_add: as numbers",
    ),
    Rule(r"bind source path does not exist", PlanError, "no-bind-source", "a volume's source does not exist: {0}"),
    Rule(
        r"[Nn]o such image|image not known|pull access denied|manifest unknown|repository .* not found",
        HostError,
        "image-missing",
        "the engine does not have the image: {0}",
        "docker pull it, or build it",
    ),
    Rule(
        r"exec format error|does not match the (?:specified|detected) platform",
        HostError,
        "wrong-architecture",
        "the image is for another architecture: {0}",
    ),
    Rule(
        r"unauthorized|authentication required|no basic auth credentials|denied:",
        HostError,
        "image-pull-failed",
        "the registry refused: {0}",
        "docker login",
    ),
    Rule(
        r"did not receive an exit event|failed to kill container|[Cc]annot kill container|tried to kill container",
        Busy,
        STUCK,
        "the engine could not kill the container's processes: {0}",
        "migctl down again",
    ),
    Rule(
        r"removal of container .* is already in progress",
        Busy,
        "being-removed",
        "the container is just being removed: {0}",
    ),
    Rule(
        r"cannot remove (?:a running|container).*running|You cannot remove a (?:running|paused)",
        Busy,
        "still-running",
        "the container still runs: {0}",
        "migctl stop",
    ),
    Rule(
        r"is not running|is paused|can only kill running containers",
        HostError,
        "not-running",
        "the job's container does not run: {0}",
    ),
    Rule(
        r"[Nn]o such container|no container with (?:name or )?ID",
        HostError,
        "no-unit",
        "the container is gone: {0}",
        "migctl status",
    ),
    Rule(
        r"ulimit|rlimit|RLIMIT",
        HostError,
        "ulimit-refused",
        "the engine may not raise a limit this far: {0}",
        "lower ulimits:",
    ),
    Rule(
        r"network .* not found", PlanError, "no-network", "the job's network does not exist: {0}", "docker network ls"
    ),
)


def translate(status: int | None, text: str, *, where: Where | str | None = None) -> MigctlError:
    """The error for an answer with this HTTP status and text."""
    text = " ".join(text.split()).removeprefix("Error response from daemon: ")
    for rule in RULES:
        match = re.search(rule.pattern, text)
        if match:
            groups = {key: value or "" for key, value in match.groupdict().items()}
            return rule.kind(
                rule.id, rule.message.format(text, **groups), where=where, hint=rule.hint, data={"engine": text}
            )
    if status == 400:
        return PlanError(
            "engine-refused", f"the engine refuses the job's settings: {text}", where=where, data={"engine": text}
        )
    return HostError(
        "engine-error",
        f"the container engine answered {status or 'nothing'}: {text}",
        where=where,
        hint="the engine's log has more: journalctl -u docker",
        data={"engine": text},
    )


def unreachable(error: BaseException, endpoint: Endpoint) -> HostError:
    """The engine could not be asked at all; the innermost cause tells why."""
    causes: list[object] = [error]
    seen: set[int] = set()
    refused = False
    while causes:
        cause = causes.pop()
        if not isinstance(cause, BaseException) or id(cause) in seen:
            continue
        seen.add(id(cause))
        refused = refused or isinstance(cause, PermissionError)
        causes += [cause.__cause__, cause.__context__, *cause.args, getattr(cause, "reason", None)]
    place = f"{endpoint.url} ({endpoint.source})"
    if refused:
        return HostError(
            "engine-not-permitted",
            f"the container engine's socket may not be used by this user: {place}",
            where=endpoint.url,
            hint="join the socket's group: sudo usermod -aG docker $USER, then log in again",
            data={"needs_root": True},
        )
    return HostError(
        "no-engine",
        f"no container engine answers at {place}",
        where=endpoint.url,
        hint="start it (sudo systemctl start docker), set DOCKER_HOST, or do without: --runtime process",
    )


@contextmanager
def engine_errors(endpoint: Endpoint, where: Where | str | None = None) -> Iterator[None]:
    """Everything that the engine or the SDK answers inside comes out as migctl's."""
    try:
        yield
    except MigctlError:
        raise
    except Refused as error:
        raise translate(error.status, error.explanation, where=where) from error
    except Strange as error:
        raise HostError(
            "engine-answer",
            f"what listens at {endpoint.url} ({endpoint.source}) does not answer as a container engine does: {error}",
            where=endpoint.url,
            hint="docker version; set DOCKER_HOST to another engine, or do without: --runtime process",
        ) from error
    except Exception as error:
        # The SDK's own classes are asked for only when something of it was raised: loading it takes a quarter of a second.
        import docker.errors
        import requests.exceptions

        if isinstance(error, docker.errors.APIError):
            status = getattr(error.response, "status_code", None)
            if error.response is not None:
                error.response.close()  # a streamed one holds its connection until the garbage collector comes
            raise translate(status, str(error.explanation or error), where=where) from error
        lost = (requests.exceptions.RequestException, docker.errors.DockerException, ConnectionError, TimeoutError)
        if isinstance(error, (*lost, FileNotFoundError, PermissionError)):
            raise unreachable(error, endpoint) from error
        raise
