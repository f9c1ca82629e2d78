"""The connection to a container engine: one client, its API version settled by the one call that also proves that it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from migctl.errors import HostError
from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.endpoint import Endpoint, Tls
from migctl.runtimes.engine_kind import USE_LOCAL_ENGINE, where_else
from migctl.runtimes.socket_client import SocketClient

if TYPE_CHECKING:
    from docker import APIClient
    from docker.tls import TLSConfig

POOL_SIZE = 32
"""Connections kept open: more than the threads that ever use them at once."""
_TIMEOUT_S = 60
_NUMBER = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")
NEWEST_API = (1, 45)
"""The newest API that this program was written for; docker 7.x of the SDK has the same default."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A reachable engine. Several threads use the client at once: between requests it keeps nothing but connections."""

    endpoint: Endpoint
    client: Any
    """A `SocketClient`, or a `docker.APIClient`, whose published types leave half of its methods untyped."""
    version: Mapping[str, Any]
    """Answer of `GET /version`."""


def connect(endpoint: Endpoint) -> Engine:
    """Ask the engine for its version, once, and pin the client to it.

    Raises:
        HostError: no engine there, not permitted, too old or new to talk to, or behind SSH, whose jobs could not get what is made
            here; so no SSH client is needed.
    """
    if endpoint.url.startswith("ssh://"):
        raise HostError(
            "no-gpu-access",
            f"the engine {where_else(endpoint.url, {})}, so its containers cannot get a GPU instance of this machine",
            where=f"{endpoint.url} ({endpoint.source})",
            hint=f"log in there and run migctl on that machine; or here: {USE_LOCAL_ENGINE}",
        )
    if endpoint.socket is not None:
        direct = SocketClient(endpoint.socket, lambda api: _client(endpoint, api))
        with engine_errors(endpoint):
            answer = direct.version()
        direct.api_version = _api_version(answer, endpoint)
        return Engine(endpoint, direct, answer)
    with engine_errors(endpoint):
        probe = _client(endpoint, None)
        try:
            version: Mapping[str, Any] = probe.version(api_version=False)
        finally:
            probe.close()
        return Engine(endpoint, _client(endpoint, _api_version(version, endpoint)), version)


def _client(endpoint: Endpoint, api: str | None) -> APIClient:
    try:
        from docker import APIClient
        from docker.constants import DEFAULT_DOCKER_API_VERSION
        from docker.errors import DockerException
    except ImportError as error:
        # Another module of this name comes first (a docker.py beside the program, docker/docker-py#2999), or the package is broken.
        raise HostError(
            "docker-library",
            f"Python's docker library cannot be used: {error}",
            hint="rename a docker.py that is in the way, or: pip install --force-reinstall 'docker>=7'",
        ) from error
    try:
        client = APIClient(
            base_url=endpoint.url,
            version=api or DEFAULT_DOCKER_API_VERSION,
            timeout=_TIMEOUT_S,
            tls=_tls(endpoint.tls) if endpoint.tls else False,
            max_pool_size=POOL_SIZE,
            credstore_env={"HOME": endpoint.home},
        )
        client.reload_config(endpoint.config)
    except (DockerException, ValueError, KeyError, TypeError, AttributeError) as error:
        # The SDK reads addresses and configuration files in its constructor, and fails in all these ways on bad ones.
        raise HostError(
            "docker-config",
            f"the container engine's address or the Docker configuration cannot be used: {error}",
            where=f"{endpoint.url} ({endpoint.source})",
            hint=f"correct DOCKER_HOST, or {endpoint.config}",
        ) from error
    return client


def _api_version(version: Mapping[str, Any], endpoint: Endpoint) -> str:
    """The newest that both speak."""
    theirs, ours = _number(version.get("ApiVersion")), NEWEST_API
    least = _number(version.get("MinAPIVersion"))
    if theirs < (1, 40):
        raise HostError(
            "engine-too-old",
            f"the engine {version.get('Version')} speaks API {version.get('ApiVersion')}; GPU requests need 1.40 (Docker 19.03)",
            where=endpoint.url,
            hint="update the engine",
        )
    chosen = max(min(theirs, ours), least)
    return f"{chosen[0]}.{chosen[1]}"


def _number(text: object) -> tuple[int, int]:
    found = _NUMBER.fullmatch(str(text or ""))
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)


def _tls(files: Tls) -> TLSConfig:
    from docker.tls import TLSConfig

    pair = (files.cert, files.key) if files.cert and files.key else None
    return TLSConfig(client_cert=pair, ca_cert=files.ca, verify=files.verify)
