"""Each way of giving a container its MIG device, on engines that really have it: a hook on their PATH, or a runtime nvidia."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from migctl.core.cpuset import CpuSet
from migctl.errors import HostError
from migctl.runtimes.containers import Containers
from tests.support.engines import BUSYBOX, private_engine, reachable_engine
from tests.support.launches import job, launch

pytestmark = pytest.mark.docker
DEVICE = "MIG-11111111-2222-3333-4444-555555555555"
ONE = CpuSet({max(os.sched_getaffinity(0))})


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An engine that finds NVIDIA's hook (a script that does nothing) on its PATH when it starts."""
    folder = tmp_path_factory.mktemp("hook")
    hook = folder / "nvidia-container-runtime-hook"
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)
    with private_engine(environ={"PATH": f"{folder}:{os.environ['PATH']}"}) as url:
        yield url


@pytest.fixture(scope="module")
def registered() -> Iterator[str]:
    """An engine with a runtime of the name nvidia."""
    runc = next(p for p in ("/usr/sbin/runc", "/usr/bin/runc", "/sbin/runc") if Path(p).exists())
    with private_engine("--add-runtime", f"nvidia={runc}") as url:
        yield url


def run(url: str, *, simulated: bool) -> tuple[dict[str, Any], list[str], str]:
    """A container that prints its environment: how it was created, what it saw, and how the way is described."""
    with reachable_engine(url) as client:
        containers = Containers({"DOCKER_HOST": url, "HOME": "/tmp"})
        spec = job(image=BUSYBOX, command=("env",))
        image = containers.prepare([spec], simulated=simulated)["a"]
        handle = containers.create(
            launch(spec, image_id=image, simulated=simulated, mig_uuid=DEVICE, cpus=ONE, owner=os.getuid())
        )
        try:
            containers.start(handle)
            containers.wait(handle, 20)
            output = b"".join(containers.logs(handle, follow=False, tail=None)).decode().splitlines()
            return client.inspect_container(handle), output, containers.facts().gpu_access
        finally:
            client.remove_container(handle, force=True)
            containers.close()


@pytest.mark.parametrize("simulated", [False, True])
def test_an_engine_with_the_hook_gets_a_device_request(hooked: str, simulated: bool) -> None:
    data, environment, words = run(hooked, simulated=simulated)

    assert data["HostConfig"]["DeviceRequests"] == [
        {"Driver": "", "Count": 0, "DeviceIDs": [DEVICE], "Capabilities": [["gpu"]], "Options": {}}
    ]
    assert data["HostConfig"]["Runtime"] == "runc"
    assert [line for line in environment if line.startswith("NVIDIA_VISIBLE")] == [f"NVIDIA_VISIBLE_DEVICES={DEVICE}"]
    assert not [line for line in environment if line.startswith("CUDA_VISIBLE_DEVICES")]
    assert words == "device request (--gpus)"


@pytest.mark.parametrize("simulated", [False, True])
def test_an_engine_with_the_runtime_gets_the_variable(registered: str, simulated: bool) -> None:
    data, environment, words = run(registered, simulated=simulated)

    assert data["HostConfig"]["Runtime"] == "nvidia"
    assert not data["HostConfig"]["DeviceRequests"]
    assert f"NVIDIA_VISIBLE_DEVICES={DEVICE}" in environment
    assert words == "runtime nvidia with NVIDIA_VISIBLE_DEVICES"


def test_a_device_request_that_the_engine_cannot_serve_is_said_so() -> None:
    with private_engine() as url:
        with reachable_engine(url) as client:
            spec = {
                "Image": BUSYBOX,
                "Cmd": ["true"],
                "HostConfig": {"DeviceRequests": [{"DeviceIDs": [DEVICE], "Capabilities": [["gpu"]]}]},
            }
            labels = {f"io.migctl.{key}": "x" for key in ("run", "job", "token")}
            handle = client.create_container_from_config(spec | {"Labels": labels}, None)["Id"]
        containers = Containers({"DOCKER_HOST": url, "HOME": "/tmp"})
        with pytest.raises(HostError) as error:
            containers.start(handle)
        containers.close()

    assert error.value.id == "no-gpu-access"
    assert "could not select device driver" in error.value.message
