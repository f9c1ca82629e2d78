"""Plans and tables for each described machine, by the program itself: none fails, and what must hold of every assignment holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from migctl.cli.app import run
from migctl.core.cpu.cpuset import CpuSet
from migctl.host.sysfs import read_topology
from tests.support.machines import MACHINES, Machine, write

JOBS = "name: p\nruntime: process\n{}\njobs:\n  j: {{profile: 1g.5gb, replicas: {}, command: 'true'}}\n"


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("MIGCTL_NVML", "MIGCTL_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MIGCTL_ROOT", str(write(MACHINES[request.param], tmp_path / "root")))
    monkeypatch.setenv("MIGCTL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MIGCTL_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)
    return MACHINES[request.param]


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    code = run([*words, "--json"])
    out, err = capsys.readouterr()

    assert (code, err) == (0, ""), out
    return json.loads(out)


def for_jobs(machine: Machine) -> CpuSet:
    """What jobs may have of it."""
    left = machine.online - CpuSet.parse(machine.isolated)
    if machine.nohz_full != "(null)":
        left -= CpuSet.parse(machine.nohz_full)
    return left & CpuSet.parse(machine.usable) if machine.usable else left


def whole_cores(machine: Machine, root: Path) -> list[CpuSet]:
    return [core.cpus for core in read_topology(root).cores if core.cpus <= for_jobs(machine)]


def test_workers_counts_the_cores_that_are_there_for_jobs(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cores = len(whole_cores(machine, tmp_path / "root"))
    cores = cores if machine.most is None else machine.most

    answer = told(capsys, "workers")

    rows = answer.get("rows", [answer])
    assert {row["cores"] for row in rows} == {cores}
    assert all(1 <= row["num_workers"] <= cores for row in rows)
    assert all(row["jobs"] * row["cores_per_job"] <= cores for row in rows)


@pytest.mark.parametrize(("way", "count"), [("--on", 1), ("--on", 7), ("MIGCTL_NVML", 2)])
def test_every_plan_holds_what_must_hold_of_it(
    machine: Machine,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    way: str,
) -> None:
    (tmp_path / "plan.yaml").write_text(JOBS.format("oversubscribe: true", count))
    if way == "--on":
        answer = told(capsys, "plan", "--on", "a100-40gb")
    else:
        monkeypatch.setenv("MIGCTL_NVML", "sim:a100-40gb")
        answer = told(capsys, "plan")
    cpus = [CpuSet.parse(job["cpus"]) for job in answer["jobs"]]
    cores = whole_cores(machine, tmp_path / "root")
    threads = CpuSet(cpu for core in cores for cpu in core)
    paid = len(cores) if machine.most is None else machine.most

    assert answer["fits"] is True
    assert len(cpus) == count
    assert all(own and own <= threads for own in cpus)
    assert sum(job["cores"] for job in answer["jobs"]) <= max(paid, count)
    assert all(job["num_workers"] >= 1 for job in answer["jobs"])
    if count <= paid:
        assert sum(map(len, cpus)) == len(CpuSet(cpu for own in cpus for cpu in own)), "no CPU twice"
        for own in cpus:
            assert all(core <= own or not core & own for core in cores), "siblings stay together"


def test_the_first_gpu_thought_of_stands_where_the_machines_first_one_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(Machine(name="second", sockets=2, cores=8, gpus={"0000:9d:00.0": 1}), tmp_path / "root")
    (tmp_path / "plan.yaml").write_text("runtime: process\njobs: {a: {profile: 1g.5gb, cpus: 4, command: x}}\n")
    monkeypatch.chdir(tmp_path)

    answer = told(capsys, "plan", "--on", "a100-40gb", "--root", str(root))

    assert answer["jobs"][0]["cpus"] == "8-11"


def test_what_a_quota_does_not_pay_for_is_told_and_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(MACHINES["container-quota"], tmp_path / "root")
    monkeypatch.chdir(tmp_path)
    plan = "runtime: process\njobs: {{a: {{profile: 1g.5gb, {} command: x}}}}\n"
    (tmp_path / "plan.yaml").write_text(plan.format(""))
    answer = told(capsys, "plan", "--on", "a100-40gb", "--root", str(root))
    (tmp_path / "plan.yaml").write_text(plan.format("cpus: 7,"))
    code = run(["plan", "--on", "a100-40gb", "--root", str(root)])

    assert answer["jobs"][0]["cores"] == 5, "of six that are paid for one is the system's"
    assert "a CPU quota of 6.5 CPUs is set here: 6 cores of 16 are used" in json.dumps(answer["warnings"])
    assert code == 2
    assert "a CPU quota pays for no more" in " ".join(capsys.readouterr().err.split())
