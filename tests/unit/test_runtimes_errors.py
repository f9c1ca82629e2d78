"""What engines answer, in their own words, and what migctl makes of it."""

from __future__ import annotations

import pytest

from migctl.errors import Busy, HostError, MigctlError, PlanError
from migctl.runtimes.docker_errors import translate, unreachable
from migctl.runtimes.endpoint import Endpoint

# Texts of Docker 20.10 to 29 and podman 4, most of them from public issue reports.
ANSWERS: list[tuple[int | None, str, type[MigctlError], str]] = [
    (500, 'could not select device driver "" with capabilities: [[gpu]]', HostError, "no-gpu-access"),
    (500, "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=MIG-x", HostError, "no-gpu-access"),
    (500, "failed to discover GPU vendor from CDI: no known GPU vendor found", HostError, "no-gpu-access"),
    (500, "nvidia-container-cli: device error: MIG-x: unknown device: unknown", HostError, "no-gpu-access"),
    (400, "unknown or invalid runtime name: nvidia", HostError, "unknown-runtime"),
    (400, "Unknown runtime specified nvidia", HostError, "unknown-runtime"),
    (400, "Requested CPUs are not available - requested 0,999, available: 0-1", HostError, "cpuset-beyond-machine"),
    (400, "Requested memory nodes are not available - requested 7, available: 0", HostError, "cpuset-beyond-machine"),
    (409, 'Conflict. The container name "/x" is already in use by container "0123"', Busy, "name-taken"),
    (500, "Bind for 0.0.0.0:8888 failed: port is already allocated", Busy, "port-taken"),
    (500, "listen tcp4 0.0.0.0:80: bind: address already in use", Busy, "port-taken"),
    (500, "write /var/lib/docker/tmp: no space left on device", Busy, "disk-full"),
    (400, 'unable to start container process: exec: "x": executable file not found in $PATH', PlanError, "no-program"),
    (400, "unable to find user nobody-here: no matching entries in passwd file", PlanError, "no-user"),
    (400, "invalid mount config for type bind: bind source path does not exist: /x", PlanError, "no-bind-source"),
    (404, "No such image: sha256:00", HostError, "image-missing"),
    (
        404,
        "pull access denied for x, repository does not exist or may require 'docker login'",
        HostError,
        "image-missing",
    ),
    (500, "Get https://r/v2/: unauthorized: authentication required", HostError, "image-pull-failed"),
    (500, "exec /bin/sh: exec format error", HostError, "wrong-architecture"),
    (500, "container 01: tried to kill container, but did not receive an exit event", Busy, "process-stuck"),
    (409, "removal of container 01 is already in progress", Busy, "being-removed"),
    (409, "You cannot remove a running container 01. Stop the container before removal", Busy, "still-running"),
    (409, "cannot remove container 01: container is running: stop the container", Busy, "still-running"),
    (409, "Container 01 is not running", HostError, "not-running"),
    (404, "No such container: 01", HostError, "no-unit"),
    (500, "error setting rlimit type 7: operation not permitted", HostError, "ulimit-refused"),
    (404, "network lab not found", PlanError, "no-network"),
    (400, "invalid something", PlanError, "engine-refused"),
    (500, "a new kind of trouble", HostError, "engine-error"),
]


@pytest.mark.parametrize(("status", "text", "kind", "name"), ANSWERS, ids=[text[:40] for _, text, _, _ in ANSWERS])
def test_an_answer_becomes_one_of_our_errors(status: int | None, text: str, kind: type[MigctlError], name: str) -> None:
    error = translate(status, text, where="job a")

    assert type(error) is kind
    assert error.id == name
    assert error.where == "job a"
    assert text.split()[-1] in error.message
    assert error.data["engine"]


ENDPOINT = Endpoint(url="unix:///run/x.sock", source="DOCKER_HOST", config="/c", owner=0, home="/")


def test_a_dead_engine_offers_the_process_runtime() -> None:
    error = unreachable(ConnectionRefusedError(111, "refused"), ENDPOINT)

    assert error.id == "no-engine"
    assert "DOCKER_HOST" in error.message
    assert "--runtime process" in str(error.hint)


def test_a_forbidden_socket_is_told_apart_however_deep_it_is_wrapped() -> None:
    wrapped = RuntimeError("Error while fetching server API version", ConnectionError(PermissionError(13, "denied")))

    assert unreachable(wrapped, ENDPOINT).id == "engine-not-permitted"
