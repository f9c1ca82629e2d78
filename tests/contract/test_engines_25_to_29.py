"""How containers of Docker 25 to 29 get their GPU, and what becomes of those that did not, with a stand-in deciding as they do."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.observed import Unit
from migctl.core.runs.record import JobState
from migctl.errors import HostError
from migctl.runtimes.containers import Containers
from migctl.runtimes.gpu_device import GpuDevice
from tests.support.engine_stub import StubEngine, serving
from tests.support.fake_devices import FIRST, SECOND, device_tree
from tests.support.launches import job, launch

ONE = CpuSet({max(os.sched_getaffinity(0))})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return device_tree(tmp_path / "driver")


def nodes(root: Path, *caps: int) -> list[Path]:
    names = ["nvidia0", "nvidiactl", *(f"nvidia-caps/nvidia-cap{cap}" for cap in caps)]
    return [root / "dev" / name for name in names]


def start(
    engine: StubEngine,
    tmp_path: Path,
    root: Path,
    device: GpuDevice = FIRST,
    *,
    command: tuple[str, ...] = ("/bin/sleep", "60"),
    owner: int | None = None,
) -> tuple[Unit, Containers, str]:
    url = f"unix://{engine.home}/docker.sock"
    containers = Containers({"DOCKER_HOST": url, "HOME": str(tmp_path), "PATH": os.environ["PATH"]}, root)
    spec = job(image="busybox:latest", command=command)
    image = containers.prepare([spec], simulated=False)["a"]
    wish = launch(
        spec,
        image_id=image,
        simulated=False,
        device=device,
        mig_uuid=device.uuid,
        cpus=ONE,
        owner=os.getuid() if owner is None else owner,
    )
    labels = {**device.labels(), "gi": str(device.gi_id), "ci": str(device.ci_id)}
    wish = replace(wish, labels=(*wish.labels, *((f"io.migctl.{key}", value) for key, value in labels.items())))
    handle = containers.create(wish)
    return containers.start(handle), containers, wish.name


CDI_ENGINES = [
    ("25.0.3", False),
    ("28.2.2", False),
    ("28.2.2", True),
    ("29.0.1", True),
    ("29.2.0", True),
    ("29.7.2", False),
]


@pytest.mark.parametrize(("version", "cdi_hook"), CDI_ENGINES)
def test_an_engine_with_cdi_and_without_the_hook_gets_migctls_own_specification(
    tmp_path: Path, root: Path, version: str, cdi_hook: bool
) -> None:
    engine = StubEngine(version=version, cdi_hook=cdi_hook, folders=[tmp_path / "etc", tmp_path / "run/cdi"])
    with serving(engine):
        unit, containers, name = start(engine, tmp_path, root)
        files = [path.name for path in (tmp_path / "run/cdi").iterdir()]
        containers.leave(name)

    assert (unit.state, unit.reason) == (JobState.RUNNING, None)
    assert engine.used == ["cdi"]
    assert files == [f"migctl.io-gpu_{name}.json"]
    assert list((tmp_path / "run/cdi").iterdir()) == []
    assert "NVIDIA_VISIBLE_DEVICES=void" in next(iter(engine.containers.values()))["Config"]["Env"]


@pytest.mark.parametrize("version", ["25.0.3", "28.2.2", "29.2.0"])
def test_the_runtime_is_used_where_it_is_registered_even_beside_a_stale_specification(
    tmp_path: Path, root: Path, version: str
) -> None:
    engine = StubEngine(
        version=version,
        runtimes=("runc", "nvidia"),
        hook=True,
        cdi_hook=True,
        folders=[tmp_path / "cdi"],
        hook_brings={FIRST.uuid: nodes(root, 12, 13)},
    )
    with serving(engine):
        unit, _, _ = start(engine, tmp_path, root)

    assert (unit.state, unit.reason) == (JobState.RUNNING, None)
    assert engine.used == ["runtime", "hook"]
    assert not (tmp_path / "cdi").exists()


INSIDE: list[tuple[str, tuple[int, ...], str]] = [
    ("F1c, F4: only the GPU, without capabilities", (), "no GPU: the container lacks nvidia-cap12, nvidia-cap13"),
    (
        "another instance's capabilities",
        (21, 22),
        "no GPU: the container lacks nvidia-cap12, nvidia-cap13 and also holds nvidia-cap21, nvidia-cap22",
    ),
    ("every instance's", (12, 13, 21, 22), "no GPU: the container also holds nvidia-cap21, nvidia-cap22"),
]


@pytest.mark.parametrize(("case", "caps", "reason"), INSIDE, ids=[row[0] for row in INSIDE])
def test_a_job_whose_container_got_other_nodes_failed_and_does_not_run(
    tmp_path: Path, root: Path, case: str, caps: tuple[int, ...], reason: str
) -> None:
    engine = StubEngine(version="29.2.0", runtimes=("runc", "nvidia"), hook_brings={FIRST.uuid: nodes(root, *caps)})
    with serving(engine):
        unit, _, _ = start(engine, tmp_path, root)
        alive = [process for process in engine.processes.values() if process.poll() is None]

    assert (unit.state, unit.reason) == (JobState.FAILED, reason)
    assert alive == []


def test_two_jobs_side_by_side_hold_each_its_own(tmp_path: Path, root: Path) -> None:
    engine = StubEngine(version="29.2.0", cdi_hook=True, folders=[tmp_path / "cdi"])
    with serving(engine):
        units = [start(engine, tmp_path, root, device)[0] for device in (FIRST, SECOND)]
        held = [sorted(p.name for p in Path(f"/proc/{u.pid}/root/dev/nvidia-caps").iterdir()) for u in units]

    assert [unit.reason for unit in units] == [None, None]
    assert held == [["nvidia-cap12", "nvidia-cap13"], ["nvidia-cap21", "nvidia-cap22"]]


def test_an_engine_that_has_not_noticed_the_new_file_yet_is_asked_again(tmp_path: Path, root: Path) -> None:
    engine = StubEngine(version="29.2.0", folders=[tmp_path / "cdi"], late_reads=2)
    with serving(engine):
        unit, _, _ = start(engine, tmp_path, root)

    assert unit.state is JobState.RUNNING


def test_a_kernel_without_capabilities_is_told_and_no_failure_but_cdi_is_not_possible(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    runtime = StubEngine(version="28.2.2", runtimes=("runc", "nvidia"), hook_brings={FIRST.uuid: []})
    with serving(runtime):
        unit, _, _ = start(runtime, tmp_path, bare)
    cdi = StubEngine(version="28.2.2", folders=[tmp_path / "cdi"])
    with serving(cdi), pytest.raises(HostError) as error:
        start(cdi, tmp_path, bare)

    assert unit.state is JobState.RUNNING
    assert unit.reason == "its GPU could not be verified: this kernel has no /proc/driver/nvidia-caps"
    assert error.value.id == "no-device-node"
    assert "no /proc/driver/nvidia-caps" in error.value.message


@pytest.mark.parametrize("version", ["25.0.3", "28.2.2", "29.0.1", "29.2.0"])
def test_a_hook_that_may_be_there_is_asked_by_the_name_that_this_engine_knows(
    tmp_path: Path, root: Path, version: str
) -> None:
    """F1a, F1d: with CDI turned off in the engine; both helpers there, and no luck involved."""
    engine = StubEngine(version=version, hook=True, cdi_hook=True, hook_brings={FIRST.uuid: nodes(root, 12, 13)})
    with serving(engine):
        unit, _, _ = start(engine, tmp_path, root)

    assert (unit.state, unit.reason) == (JobState.RUNNING, None)
    assert engine.used == ["hook"]


@pytest.mark.parametrize("version", ["25.0.3", "29.2.0"])
def test_a_hook_that_was_not_there_after_all_is_the_engines_refusal_in_our_words(
    tmp_path: Path, root: Path, version: str
) -> None:
    engine = StubEngine(version=version)
    with serving(engine), pytest.raises(HostError) as error:
        start(engine, tmp_path, root)

    assert error.value.id == "no-gpu-access"
    assert "could not select device driver" in error.value.message


ELSEWHERE: list[tuple[str, dict[str, Any], str]] = [
    ("a forwarded socket", {"kernel": "5.4.0-0-elsewhere"}, "runs on another kernel (5.4.0-0-elsewhere)"),
    ("Docker Desktop", {"platform": "Docker Desktop 4.30.0 (149282)"}, "is Docker Desktop's"),
]


@pytest.mark.parametrize(("case", "changes", "text"), ELSEWHERE, ids=[row[0] for row in ELSEWHERE])
def test_an_engine_elsewhere_is_recognised_told_and_refused(
    tmp_path: Path, root: Path, case: str, changes: dict[str, Any], text: str
) -> None:
    engine = StubEngine(version="28.2.2", runtimes=("runc", "nvidia"), **changes)
    with serving(engine) as url:
        facts = Containers({"DOCKER_HOST": url, "HOME": str(tmp_path)}).facts()
        with pytest.raises(HostError) as error:
            start(engine, tmp_path, root)

    assert not facts.local
    assert text in facts.gpu_access
    assert facts.gpu_hint
    assert text in error.value.message
    assert "docker context use default" in (error.value.hint or "")


def test_a_rootless_engine_says_so_and_is_asked_for_no_higher_limits(tmp_path: Path, root: Path) -> None:
    engine = StubEngine(
        version="29.3.0",
        folders=[tmp_path / "config/cdi", tmp_path / "run/cdi"],
        info={"SecurityOptions": ["name=seccomp", "name=rootless"]},
    )
    with serving(engine) as url:
        facts = Containers({"DOCKER_HOST": url, "HOME": str(tmp_path)}).facts()
        unit, _, name = start(engine, tmp_path, root)

    assert facts.rootless
    assert facts.gpu_access == f"CDI, with migctl's own specification in {tmp_path}/run/cdi"
    assert (tmp_path / f"run/cdi/migctl.io-gpu_{name}.json").exists()
    assert unit.state is JobState.RUNNING
    assert next(iter(engine.containers.values()))["HostConfig"]["Ulimits"] == []


def test_a_job_that_ignores_sigterm_has_its_grace_and_is_killed_then(tmp_path: Path, root: Path) -> None:
    engine = StubEngine(version="28.2.2", folders=[tmp_path / "cdi"])
    deaf = ("/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    with serving(engine):
        unit, containers, _ = start(engine, tmp_path, root, command=deaf)
        began = time.monotonic()
        containers.stop(unit.handle, 1)
        took_s = time.monotonic() - began
        ended = containers.wait(unit.handle, 5)
        containers.stop(unit.handle, 1)  # ended already is fine

    assert 1 <= took_s < 5
    assert ended is not None
    assert (ended.state, ended.exit_code) == (JobState.FAILED, 137)


def test_the_engine_is_asked_only_for_ones_own_and_strangers_are_listed_while_they_run(
    tmp_path: Path, root: Path
) -> None:
    engine = StubEngine(version="28.2.2", folders=[tmp_path / "cdi"])
    with serving(engine):
        mine, containers, _ = start(engine, tmp_path, root)
        theirs, _, _ = start(engine, tmp_path, root, SECOND, owner=4711)
        units = [unit.handle for unit in containers.units(None)]
        everybody = {one.unit.handle for one in containers.leftovers()}
        for one in engine.containers.values():
            one["Config"]["Labels"] = {}
        strangers = len(containers.foreign())
        engine.processes[theirs.handle].kill()
        engine.processes[theirs.handle].wait()
        running = len(containers.foreign())

    assert units == [mine.handle]
    assert everybody == {mine.handle, theirs.handle}
    assert (strangers, running) == (2, 1)


@pytest.mark.parametrize("slow_s", [0.0, 0.5])
def test_a_container_whose_creation_was_not_answered_is_found_by_its_name_and_is_ours(
    tmp_path: Path, root: Path, slow_s: float
) -> None:
    engine = StubEngine(version="28.2.2", folders=[tmp_path / "run/cdi"], unanswered=1, slow_s=slow_s)
    with serving(engine):
        unit, _, name = start(engine, tmp_path, root)

    assert unit.state is JobState.RUNNING
    assert [made["Name"] for made in engine.containers.values()] == [f"/{name}"]


def test_where_no_answer_and_no_container_comes_the_engine_is_blamed(tmp_path: Path, root: Path) -> None:
    engine = StubEngine(version="28.2.2", folders=[tmp_path / "run/cdi"], unanswered=1, slow_s=None)
    with serving(engine), pytest.raises(HostError) as told:
        start(engine, tmp_path, root)

    assert told.value.id == "no-engine"
