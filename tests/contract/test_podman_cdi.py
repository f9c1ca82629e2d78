"""The CDI path for real: podman's service, migctl's specification, and character devices that stand for a MIG device's nodes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.plan import Ulimit, Volume
from migctl.core.runs.record import JobState
from migctl.errors import HostError
from migctl.runtimes.container_readback import gpu_inside
from migctl.runtimes.containers import Containers
from migctl.runtimes.endpoint import find_endpoint
from migctl.runtimes.engine_client import connect
from migctl.runtimes.gpu_device import GpuDevice
from migctl.runtimes.launch import Launch
from migctl.runtimes.readback import Found
from tests.support.engines import BUSYBOX, reachable_engine
from tests.support.fake_devices import FIRST, SECOND, device_tree
from tests.support.launches import job, launch
from tests.support.podman import private_podman

pytestmark = pytest.mark.docker
ONE = CpuSet({max(os.sched_getaffinity(0))})
FOLDER = Path("/var/run/cdi")
PROCESSES = Ulimit(name="nproc", soft=1024, hard=1024)
"""Podman raises this limit by default, which root without CAP_SYS_RESOURCE (as in many CI machines) may not."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with private_podman() as url, reachable_engine(url):
        yield url


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return device_tree(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def containers(url: str, root: Path, tmp_path: Path) -> Iterator[Containers]:
    containers = Containers({"DOCKER_HOST": url, "HOME": str(tmp_path), "PATH": os.environ["PATH"]}, root)
    yield containers
    for unit in containers.units(None):
        containers.stop(unit.handle, 0)
        containers.remove(unit.handle)
    for file in FOLDER.glob("migctl.io-gpu_migctl-run*.json"):
        file.unlink()
    containers.close()


def made(containers: Containers, device: GpuDevice, **changes: Any) -> tuple[str, Launch]:
    """A created container with this device."""
    spec = job(**{"image": BUSYBOX, "command": ("sleep", "60"), "ulimits": (PROCESSES,)} | changes)
    image = containers.prepare([spec], simulated=False)["a"]
    wish = launch(
        spec, image_id=image, simulated=False, device=device, mig_uuid=device.uuid, cpus=ONE, owner=os.getuid()
    )
    labels = {**device.labels(), "gi": str(device.gi_id), "ci": str(device.ci_id)}
    wish = replace(wish, labels=(*wish.labels, *((f"io.migctl.{key}", value) for key, value in labels.items())))
    return containers.create(wish), wish


def _plain(wish: Launch) -> tuple[tuple[str, str], ...]:
    return tuple(label for label in wish.labels if label[0] != "io.migctl.device")


def file_of(wish: Launch) -> Path:
    return FOLDER / f"migctl.io-gpu_{wish.name}.json"


def output(containers: Containers, handle: str) -> list[str]:
    return b"".join(containers.logs(handle, follow=False, tail=None)).decode().splitlines()


def test_podman_is_recognised_and_gets_its_devices_by_cdi(containers: Containers) -> None:
    facts = containers.facts()

    assert facts.name.startswith("podman 4.")
    assert facts.gpu_access == "CDI, with migctl's own specification in /var/run/cdi"
    assert facts.source == "DOCKER_HOST"


def test_a_container_holds_exactly_its_own_nodes_and_is_verified(containers: Containers) -> None:
    handle, wish = made(containers, FIRST)
    unit = containers.start(handle)
    dev = Path(f"/proc/{unit.pid}/root/dev")

    assert (unit.state, unit.reason) == (JobState.RUNNING, None)
    assert sorted(path.name for path in dev.glob("nvidia*")) == [
        "nvidia-caps",
        "nvidia-uvm",
        "nvidia-uvm-tools",
        "nvidia0",
        "nvidiactl",
    ]
    assert sorted(path.name for path in (dev / "nvidia-caps").iterdir()) == ["nvidia-cap12", "nvidia-cap13"]
    assert file_of(wish).exists()


def test_where_proc_cannot_be_read_the_engine_is_asked_to_look_inside(
    containers: Containers, root: Path, url: str, tmp_path: Path
) -> None:
    unit = replace(containers.start(made(containers, FIRST)[0]), pid=None)
    engine = connect(find_endpoint({"DOCKER_HOST": url, "HOME": str(tmp_path)}))
    try:
        assert gpu_inside(engine, unit, FIRST, root) == Found(True)
        assert gpu_inside(engine, unit, SECOND, root) == Found(
            False,
            "the container lacks nvidia-cap21, nvidia-cap22 and also holds nvidia-cap12, nvidia-cap13",
        )
    finally:
        engine.client.close()


def test_two_jobs_on_two_instances_hold_each_its_own(containers: Containers) -> None:
    pids = [containers.start(made(containers, device)[0]).pid for device in (FIRST, SECOND)]
    held = [sorted(p.name for p in Path(f"/proc/{pid}/root/dev/nvidia-caps").iterdir()) for pid in pids]

    assert held == [["nvidia-cap12", "nvidia-cap13"], ["nvidia-cap21", "nvidia-cap22"]]


def test_a_container_with_an_earlier_instances_nodes_is_failed_and_not_running(
    containers: Containers, root: Path
) -> None:
    handle, wish = made(containers, FIRST)
    stale = file_of(wish).read_text()
    for mine, others in (("cap12", "cap21"), ("cap13", "cap22")):
        stale = stale.replace(mine, others)
    file_of(wish).write_text(stale)

    unit = containers.start(handle)

    assert unit.state is JobState.FAILED
    assert unit.reason == (
        "no GPU: the container lacks nvidia-cap12, nvidia-cap13 and also holds nvidia-cap21, nvidia-cap22"
    )
    assert containers.units(None)[0].state.ended


def test_a_specification_that_is_gone_is_the_engines_refusal_in_our_words(containers: Containers) -> None:
    handle, wish = made(containers, FIRST)
    file_of(wish).unlink()

    with pytest.raises(HostError) as error:
        containers.start(handle)

    assert error.value.id == "no-gpu-access"
    assert "unresolvable CDI devices" in error.value.message


def test_what_was_written_for_a_unit_is_found_and_taken_away(containers: Containers) -> None:
    handle, wish = made(containers, FIRST)

    def ours() -> list[tuple[bool, tuple[str, ...]]]:
        return [(e.orphan, e.missing) for e in containers.cdi_entries() if e.file == str(file_of(wish))]

    assert ours() == [(False, ())]
    containers.remove(handle)
    assert ours() == [(True, ())]
    containers.leave(wish.name)
    assert ours() == []
    containers.leave(wish.name)


def test_all_that_a_job_asks_for_reaches_podman_by_its_own_api_as_by_dockers(
    containers: Containers, url: str, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    script = "id -u; id -G; pwd; echo $LR; ulimit -Sn; cat /proc/self/oom_score_adj; ls /data /scratch && df -k /dev/shm | tail -1"
    wishes = {
        "entrypoint": ("/bin/sh", "-c"),
        "command": (script,),
        "user": "1234:1234",
        "working_dir": "/tmp",
        "environment": (("LR", "1e-4"),),
        "group_add": ("77",),
        "tmpfs": ("/scratch:size=1m",),
        "cap_add": ("SYS_NICE",),
        "security_opt": ("no-new-privileges",),
        "extra_hosts": ("db:10.0.0.7",),
        "mem_limit_bytes": 64 << 20,
        "volumes": (Volume(kind="bind", source=str(tmp_path / "data"), target="/data", read_only=True),),
    }
    handle, wish = made(containers, FIRST, **{k: v for k, v in wishes.items() if k != "user"})
    plain = replace(
        wish,
        name=f"{wish.name}-plain",
        token="f" * 16,
        simulated=True,
        device=None,
        user="1234:1234",
        labels=_plain(wish),
    )
    special = replace(wish, name=f"{wish.name}-special", token="e" * 16, user="1234:1234")
    containers.remove(handle)
    seen: list[dict[str, Any]] = []
    lines: list[list[str]] = []
    with reachable_engine(url) as client:
        for one in (plain, special):
            handle = containers.create(replace(one, environment=(*one.environment, ("LR", "1e-4"))))
            assert containers.start(handle).reason is None
            containers.wait(handle, 20)
            time.sleep(0.2)
            lines.append(output(containers, handle))
            data = client.inspect_container(handle)
            host = {k: v for k, v in data["HostConfig"].items() if k not in ("Devices", "LogConfig", "ContainerIDFile")}
            host["Binds"] = [sorted(re.split("[:,]", bind)) for bind in host["Binds"]]
            config = {k: data["Config"][k] for k in ("User", "WorkingDir", "Cmd", "Entrypoint", "StopSignal")}
            seen.append(host | config)
            containers.leave(one.name)
            client.remove_container(handle, force=True)

    assert lines[0][:4] == ["1234", "1234 77", "/tmp", "1e-4"]
    assert lines[1] == lines[0]
    differ = {key: (seen[0][key], seen[1].get(key)) for key in seen[0] if seen[0][key] != seen[1].get(key)}
    assert differ == {}
