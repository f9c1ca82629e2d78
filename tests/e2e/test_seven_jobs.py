"""Seven jobs on a simulated A100 and a real Docker engine, looked at from outside: the engine, the kernel, the simulator's file."""

from __future__ import annotations

import os
import random
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from migctl.nvml.simstate import SimState
from tests.support.engines import BUSYBOX, reachable_engine
from tests.support.program import ROOT, Program

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SEVEN = (ROOT / "compose/plans/seven.yaml").read_text("utf-8")
NAMES = [f"train-{n}" for n in range(1, 8)]


@pytest.fixture
def engine() -> Iterator[Any]:
    with reachable_engine() as client:
        yield client


class Night:
    """One run with a name that no other test on this engine has."""

    def __init__(self, program: Program, engine: Any) -> None:
        self.program, self.engine = program, engine
        self.name = f"e2e-{uuid.uuid4().hex[:8]}"
        self.plan = program.plan(SEVEN.replace("name: seven", f"name: {self.name}"))

    def change(self, old: str, new: str) -> None:
        text = self.plan.read_text("utf-8")
        assert old in text
        self.plan.write_text(text.replace(old, new), "utf-8")

    def containers(self) -> Mapping[str, Any]:
        """Job → what `docker inspect` says."""
        listed = self.engine.containers(all=True, filters={"label": f"io.migctl.run={self.name}"})
        return {c["Labels"]["io.migctl.job"]: self.engine.inspect_container(c["Id"]) for c in listed}

    def ids(self) -> Mapping[str, str]:
        return {job: data["Id"] for job, data in self.containers().items()}


@pytest.fixture
def night(tmp_path: Path, engine: Any) -> Iterator[Night]:
    here = Night(Program(tmp_path, DOCKER_HOST=engine_url()), engine)
    yield here
    here.program.clean()
    for data in here.containers().values():
        engine.remove_container(data["Id"], force=True)


def engine_url() -> str:
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def kernel_cpus(pid: int) -> str:
    """The CPUs on which the kernel lets a process run."""
    found = re.search(r"^Cpus_allowed_list:\t(.+)$", Path(f"/proc/{pid}/status").read_text("utf-8"), re.MULTILINE)
    assert found
    return found[1]


def environment(pid: int) -> Mapping[str, str]:
    """What a process really got, from the kernel."""
    items = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(item.split("=", 1) for item in items if "=" in item)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]


def test_each_of_seven_jobs_has_its_own_container_instance_and_cores(night: Night) -> None:
    night.program.up()

    told = night.program.jobs()
    containers = night.containers()
    instances = {(i["start"], i["size"]): i for i in night.program.instances()}
    assert sorted(told) == sorted(containers) == NAMES
    assert sorted(instances) == [(start, 1) for start in range(7)]
    assert all(len(instance["compute"]) == 1 for instance in instances.values())
    assert len({job["mig_uuid"] for job in told.values()}) == 7
    for name, data in containers.items():
        job, labels, host = told[name], data["Config"]["Labels"], data["HostConfig"]
        place = job["placement"]
        made = instances[place["start"], place["size"]]
        assert (job["state"], job["container_id"], job["pid"]) == ("running", data["Id"], data["State"]["Pid"])
        assert (job["gi_id"], job["ci_id"]) == (made["gi_id"], made["compute"][0]["ci_id"])
        assert job["started_at"] is not None
        assert job["finished_at"] is None
        assert {key.removeprefix("io.migctl."): labels[key] for key in labels if key in LABELS} == {
            "run": night.name,
            "job": name,
            "attempt": "1",
            "owner": str(os.geteuid()),
            "profile": "1g.5gb",
            "placement": f"{place['start']}:{place['size']}",
            "gi": str(job["gi_id"]),
            "ci": str(job["ci_id"]),
            "gpu": job["gpu_uuid"],
            "mig-uuid": job["mig_uuid"],
            "cpus": job["cpus"],
        }
        assert host["CpusetCpus"] == job["cpus"]
        assert host["RestartPolicy"]["Name"] == "no"
        assert (host["AutoRemove"], host["Init"], host["OomScoreAdj"]) == (False, True, 500)
        assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "50m", "max-file": "4"}}
        assert host["ShmSize"] >= 64 << 20
        assert not host.get("Privileged")
        assert data["Config"]["User"] == ""
        assert (data["Config"]["StopTimeout"], data["Config"]["StopSignal"]) == (10, "SIGTERM")
        (main,) = children(data["State"]["Pid"])
        assert kernel_cpus(data["State"]["Pid"]) == kernel_cpus(main) == job["cpus"]
        got = environment(main)
        assert (got["MIGCTL_RUN"], got["MIGCTL_JOB"], got["MIGCTL_ATTEMPT"]) == (night.name, name, "1")
        assert (got["MIGCTL_CPUSET"], got["MIGCTL_PROFILE"]) == (job["cpus"], "1g.5gb")
        assert got["MIGCTL_MIG_UUID"] == job["mig_uuid"]
        assert got["MIGCTL_NUM_WORKERS"] == str(job["num_workers"])
        assert int(got["MIGCTL_GPU_MEMORY_MIB"]) > 4000
        assert got["OMP_NUM_THREADS"] == "1"
        assert "CUDA_VISIBLE_DEVICES" not in got


LABELS = {
    f"io.migctl.{key}"
    for key in ("run", "job", "attempt", "owner", "profile", "placement", "gi", "ci", "gpu", "mig-uuid", "cpus")
}


def test_up_changes_only_what_it_is_told_to_and_down_leaves_strangers_alone(night: Night) -> None:
    state = SimState.create(night.program.simulator, "a100-40gb")
    state.add_foreign_instance(0, "1g.5gb", 6)
    state.save(night.program.simulator)
    foreign = night.program.instances()
    stranger = night.engine.create_container(BUSYBOX, ["sleep", "600"], name=f"{night.name}-stranger")["Id"]
    night.engine.start(stranger)
    night.change("replicas: 7", "matrix: {seed: [1, 2, 3]}")
    night.change("1d &", "1d & echo ${matrix.seed};")
    try:
        night.program.up()
        first = night.ids()
        assert len(first) == 3

        again = night.program.up()
        assert night.ids() == first
        assert "nothing to do" in again.out, again

        night.change("echo ${matrix.seed}", "echo ${matrix.seed}${matrix.seed}")
        night.change("[1, 2, 3]", "[1, 2]")
        kept = night.program.up()
        assert night.ids() == first
        assert "train-seed1, train-seed2" in " ".join(kept.out.split()), kept
        assert "train-seed3" in kept.out, kept
        assert "migctl up --replace" in kept.out, kept

        night.program.up("--replace")
        second = night.ids()
        assert sorted(second) == ["train-seed1", "train-seed2"]
        assert not set(second.values()) & set(first.values())

        night.change("jobs:", "jobs:\n  other: {profile: 1g.5gb, image: busybox, command: [sleep, 1d]}")
        night.program.up("--replace")
        assert {job: night.ids()[job] for job in second} == second

        night.program.run("down", "--timeout", "0").ended(0)
        assert night.ids() == {}
        assert night.program.instances() == foreign
        assert night.engine.inspect_container(stranger)["State"]["Running"]
    finally:
        night.engine.remove_container(stranger, force=True)


def test_logs_stop_wait_exec_and_down_of_containers(night: Night) -> None:
    night.change("replicas: 7", "matrix: {n: [1, 2]}")
    night.change("sleep 1d & wait", "echo from ${matrix.n}; sleep 1d & wait")
    night.program.up()
    instances = night.program.instances()

    logs = night.program.run("logs").ended(0)
    beside = night.program.run("exec", "train-n1", "--", "busybox", "cat", "/proc/self/status").ended(0)
    night.program.run("stop", "train-n1").ended(0)
    stopped = night.program.jobs()
    waited = night.program.run("wait", "train-n1").ended(8)
    night.program.run("stop", "train-n2").ended(0)
    both = night.program.jobs()

    assert sorted(logs.out.splitlines()) == ["train-n1 | from 1", "train-n2 | from 2"]
    assert f"Cpus_allowed_list:\t{stopped['train-n1']['cpus']}\n" in beside.out
    assert {name: job["state"] for name, job in stopped.items()} == {"train-n1": "stopped", "train-n2": "running"}
    assert "train-n1: stopped" in waited.out
    assert both["train-n2"]["state"] == "stopped"
    assert night.program.instances() == instances
    assert len(night.ids()) == 2
    night.program.run("down").ended(0)
    assert (night.ids(), night.program.instances()) == ({}, [])
    saved = sorted(path.read_text("utf-8") for path in night.program.state.glob("runs/**/log"))
    assert saved == ["from 1\n", "from 2\n"]


def test_an_image_that_is_missing_stops_everything_before_the_gpu_is_touched(night: Night) -> None:
    done = night.program.run("up", SEVEN_IMAGE="migctl-e2e/no-such-image:1", SEVEN_PULL="never").ended(4)

    assert "migctl-e2e/no-such-image:1" in done.told, done
    assert night.program.instances() == []
    assert night.ids() == {}


def test_a_program_that_the_image_lacks_fails_the_job_and_its_log_says_so(night: Night) -> None:
    """The engine's init starts it, so the engine itself has nothing to refuse."""
    night.change("replicas: 7", "replicas: 1")
    night.change("[sh, -c,", "[/no/such/program,")

    night.program.up()

    assert "train: failed (exit code 127)" in night.program.run("wait").ended(8).out
    assert "/no/such/program" in night.program.run("logs").ended(0).out
    night.program.run("down").ended(0)
    assert (night.ids(), night.program.instances()) == ({}, [])


def test_up_killed_at_any_moment_is_completed_by_the_next_up(night: Night) -> None:
    state = SimState.create(night.program.simulator, "a100-40gb")
    state.delays_s = {"create": 0.02}
    state.release_lag_s = 0.05
    state.save(night.program.simulator)
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    for _ in range(3):
        process = night.program.start("up")
        begun = time.monotonic()
        while not night.program.instances() and process.poll() is None and time.monotonic() - begun < 30:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 2.5))
        process.kill()
        process.communicate()

    night.program.up()

    jobs = night.program.jobs()
    assert {name: job["state"] for name, job in jobs.items()} == dict.fromkeys(NAMES, "running"), f"seed {seed}"
    assert night.ids() == {name: job["container_id"] for name, job in jobs.items()}, f"seed {seed}"
    assert len(night.program.instances()) == 7
    night.program.run("down", "--timeout", "0").ended(0)
    assert (night.ids(), night.program.instances()) == ({}, []), f"seed {seed}"


def test_a_strangers_container_with_the_name_is_neither_used_nor_removed(night: Night) -> None:
    """A name has the attempt's random token in it, so a stranger has it only on purpose, once ours is gone."""
    night.change("replicas: 7", "replicas: 1")
    night.program.up()
    (data,) = night.containers().values()
    name = data["Name"].lstrip("/")
    night.engine.remove_container(data["Id"], force=True)
    stranger = night.engine.create_container(BUSYBOX, ["sleep", "600"], name=name)["Id"]
    try:
        night.program.run("down", "--timeout", "0").ended(0)

        assert night.engine.inspect_container(stranger)["Id"] == stranger
        assert night.program.instances() == []
    finally:
        night.engine.remove_container(stranger, force=True)
