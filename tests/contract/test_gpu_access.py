"""Each way of giving a container its MIG device, on engines that really have it: a hook on their PATH, or a runtime nvidia."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.plan import Volume
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


# what nvidia-smi prints in the container, its exit code → what is said of the job's GPU
INSIDE = [
    ("Failed to initialize NVML: Unknown Error", 255, "Failed to initialize NVML: Unknown Error"),
    ("Failed to initialize NVML: Insufficient Permissions", 4, "Failed to initialize NVML: Insufficient Permissions"),
    ("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n  MIG 1g.5gb Device  0: (UUID: MIG-1)", 0, None),
    ("something else went wrong", 9, None),
]


def test_a_running_container_that_lost_its_gpu_is_told_by_what_nvml_says_inside(hooked: str, tmp_path: Path) -> None:
    program, says = tmp_path / "nvidia-smi", tmp_path / "says"
    program.write_text('#!/bin/sh\ncat /says/text\nexit "$(cat /says/code)"\n')
    program.chmod(0o755)
    says.mkdir()
    with reachable_engine(hooked) as client:
        containers = Containers({"DOCKER_HOST": hooked, "HOME": "/tmp"})
        volumes = (Volume("/bin/nvidia-smi", str(program)), Volume("/says", str(says)))
        specs = [job(image=BUSYBOX, volumes=volumes), job(name="bare", image=BUSYBOX), job(name="none", image=BUSYBOX)]
        image = containers.prepare(specs, simulated=True)["a"]
        handles = []
        for spec, device in zip(specs, (DEVICE, DEVICE, None), strict=True):
            wish = launch(
                spec, image_id=image, simulated=True, mig_uuid=device, run="lost", cpus=ONE, owner=os.getuid()
            )
            handles.append(containers.create(wish))
            containers.start(handles[-1])
        try:
            assert containers.lost_gpus(handles) == {}, "nothing is asked of what was not looked at"
            assert len(containers.units("lost")) == 3
            for text, code, expected in INSIDE:
                (says / "text").write_text(text)
                (says / "code").write_text(str(code))

                told = containers.lost_gpus(handles)

                assert told == ({handles[0]: expected} if expected else {}), "without the program nothing is known"
            client.pause(handles[0])
            (says / "text").write_text(INSIDE[0][0])
            assert containers.lost_gpus(handles) == {}
            client.unpause(handles[0])
        finally:
            for handle in handles:
                client.remove_container(handle, force=True)
            containers.close()


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
