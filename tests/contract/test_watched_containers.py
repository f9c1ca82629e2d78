"""What is measured of real containers, and how one that the kernel killed for memory is told: a real engine, real cgroups."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.ending.causes import Cause
from migctl.core.ending.endings import Facts, ending
from migctl.core.ending.exit_codes import OOM_FLAG
from migctl.core.ending.kernel_events import kernel_events
from migctl.core.runs.record import JobState
from migctl.core.seeing.rates import About, QueueRates, job_reading
from migctl.core.seeing.samples import Progress
from migctl.host.jobmeter import JobMeter
from migctl.host.kernellog import kernel_records
from migctl.runtimes.containers import Containers
from migctl.watch.progress import EngineLog
from tests.support.engines import BUSYBOX, reachable_engine
from tests.support.launches import job, launch

pytestmark = pytest.mark.docker
ONE = CpuSet({max(os.sched_getaffinity(0))})
RUN = f"w{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with reachable_engine() as found:
        yield found


@pytest.fixture
def containers(client: Any) -> Iterator[Containers]:
    runtime = Containers(dict(os.environ))
    yield runtime
    for left in client.containers(all=True, filters={"label": f"io.migctl.run={RUN}"}):
        client.remove_container(left["Id"], force=True, v=True)
    runtime.close()


def started(containers: Containers, script: str, shm_bytes: int = 64 << 20, **keys: Any) -> str:
    spec = replace(job(command=("sh", "-c", script), image=BUSYBOX), **keys)
    image = containers.prepare([spec], simulated=True)[spec.name]
    handle = containers.create(
        launch(spec, run=RUN, image_id=image, cpus=ONE, owner=os.getuid(), shm_size_bytes=shm_bytes)
    )
    containers.start(handle)
    return handle


def test_a_container_is_measured_by_its_cgroup(containers: Containers, client: Any) -> None:
    handle = started(containers, "while :; do :; done", mem_limit_bytes=64 << 20)
    pid = client.inspect_container(handle)["State"]["Pid"]
    meter = JobMeter(pid, container=True)
    before = meter.read()
    time.sleep(1)
    after = meter.read()

    assert before is not None
    assert after is not None
    assert after.group is not None, "its cgroup was found"
    about = About(run="r", job="a", cpus=ONE, cores=1)
    found = job_reading(before, after, about, QueueRates(), {})
    assert found.own_cpus is not None
    assert 0.02 < found.own_cpus <= 1.2
    assert found.memory_limit_mib == 64
    assert 0 < (found.memory_mib or 0) < 64
    assert found.oom_kills == 0
    assert (found.processes or 0) >= 1
    assert found.read_mib_s is not None or "read_mib_s" in found.unknown
    assert found.pressure_cpu_share is not None or "psi=1" in found.unknown["pressure_cpu_share"]
    assert {one.threads[0].cpus for one in meter.placed()} == {ONE}
    meter.close()


def test_progress_is_asked_of_the_engine_now_and_then(containers: Containers) -> None:
    handle = started(containers, "echo 'migctl: samples=7 wait=0.5'; sleep 60")
    times = [0.0]
    output = EngineLog(containers, handle, clock=lambda: times[0])
    deadline = time.monotonic() + 10
    while (found := output.report()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
        times[0] += 20

    assert found == Progress(7, 0.5)
    assert output.report() is None
    times[0] += 20
    assert output.report() is None, "it is no new report"


def test_a_container_over_its_limit_is_told_from_one_that_was_killed(containers: Containers, client: Any) -> None:
    hungry = started(containers, "head -c 200m /dev/zero | tail >/dev/null; exit $?", mem_limit_bytes=16 << 20)
    killed = started(containers, "sleep 60")
    client.kill(killed)
    ends = {handle: containers.wait(handle, 30) for handle in (hungry, killed)}
    pid = client.inspect_container(killed)["State"]["Pid"]

    reasons = {}
    for handle, unit in ends.items():
        assert unit is not None
        assert unit.state is JobState.FAILED
        records = kernel_records()
        facts = Facts(
            exit_code=unit.exit_code,
            oom_flag=unit.reason == OOM_FLAG,
            kernel=None if records is None else list(kernel_events(records)),
            pids=frozenset({pid}),
            container_id=handle,
            memory_limit_mib=16,
        )
        found = ending(facts)
        assert found is not None
        reasons[handle] = found

    assert reasons[hungry].cause is Cause.CGROUP_MEMORY
    assert "over its mem_limit of 16 MiB" in reasons[hungry].reason
    assert reasons[killed].cause is Cause.KILLED_FROM_OUTSIDE


def test_a_full_shm_is_told_by_what_the_program_said(containers: Containers) -> None:
    handle = started(containers, "dd if=/dev/zero of=/dev/shm/torch_1 bs=1M count=200", shm_bytes=1 << 20)
    unit = containers.wait(handle, 30)
    log = b"".join(containers.logs(handle, follow=False, tail=50)).decode()

    assert unit is not None
    found = ending(Facts(exit_code=unit.exit_code, tail=log, shm_mib=1))
    assert found is not None, log
    assert found.cause is Cause.SHM
