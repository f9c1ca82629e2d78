"""The stand-in for Docker's engine is no kinder than Docker: it acts on a container's settings, or refuses them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_stub import IMAGE, StubEngine, serving
from tests.support.stub_process import SettingRefusedError

CPU = max(os.sched_getaffinity(0))


def body(host: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    own = {"CpusetCpus": str(CPU), "Init": True, "NetworkMode": "none", **(host or {})}
    return {"Image": IMAGE, "Env": [], "Labels": {}, "Cmd": ["sleep", "60"], **config, "HostConfig": own}


def run(engine: StubEngine, asked: dict[str, Any]) -> Path:
    """The process of a container that was made and started with this body, in /proc."""
    handle = engine.answer("POST", "/v1.44/containers/create", {"name": ["one"]}, asked)[1]["Id"]
    engine.answer("POST", f"/v1.44/containers/{handle}/start", {}, None)
    return Path("/proc", str(engine.containers[handle]["State"]["Pid"]))


def told(process: Path, name: str) -> str:
    lines = (process / "status").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith(f"{name}:"))


def test_a_container_has_its_own_environment_user_folder_limits_and_entrypoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TEST", "yes")
    engine = StubEngine(version="28.2.2")
    asked = body(
        {"Ulimits": [{"Name": "nofile", "Soft": 77, "Hard": 99}], "OomScoreAdj": 500},
        Env=["A=1", "B=x=y"],
        Entrypoint=["sleep"],
        Cmd=["50"],
        User="1234:99",
        WorkingDir="/inside/here",
    )
    with serving(engine):
        process = run(engine, asked)
        environment = (process / "environ").read_bytes().split(b"\0")
        assert sorted(filter(None, environment)) == [b"A=1", b"B=x=y", b"PATH=/bin"]
        assert (process / "cmdline").read_bytes() == b"sleep\x0050\x00"
        assert told(process, "Uid").split() == ["1234"] * 4
        assert (told(process, "Gid").split()[0], told(process, "Groups")) == ("99", "")
        assert told(process, "Cpus_allowed_list") == str(CPU)
        assert (process / "cwd").readlink() == (process / "root").readlink() / "inside/here"
        limits = [line.split() for line in (process / "limits").read_text().splitlines()]
        assert ["Max", "open", "files", "77", "99", "files"] in limits
        assert (process / "oom_score_adj").read_text() == "500\n"


HOSTS: list[tuple[dict[str, Any], dict[str, Any], int, str]] = [
    (
        {"Mounts": [{"Type": "bind", "Source": "/no/such", "Target": "/x"}]},
        {},
        400,
        "bind source path does not exist: /no",
    ),
    ({"Mounts": [{"Type": "bind", "Source": "/tmp", "Target": "/x"}]}, {}, 501, "mounts nothing"),
    ({"Binds": ["/no/such:/x"]}, {}, 400, "unknown fields"),
    ({"Init": False}, {}, 501, "Init"),
    ({"NetworkMode": "bridge"}, {}, 501, "NetworkMode"),
    ({"AutoRemove": True}, {}, 501, "AutoRemove"),
    ({"RestartPolicy": {"Name": "always"}}, {}, 501, "RestartPolicy"),
    ({"ShmSize": -1}, {}, 400, "SHM size"),
    ({"Ulimits": [{"Name": "nofile", "Soft": 9, "Hard": 8}]}, {}, 400, "soft limit"),
    ({"Ulimits": [{"Name": "nofile", "Soft": 9, "Hard": 1 << 30}]}, {}, 500, "error setting rlimits"),
    ({"CpusetCpus": "0-4095"}, {}, 400, "Requested CPUs are not available"),
    ({}, {"Tty": True}, 501, "Tty"),
    ({}, {"ExposedPorts": {"80/tcp": {}}}, 501, "ExposedPorts"),
    ({}, {"User": "alice"}, 400, "unable to find user alice"),
    ({}, {"Cmd": ["no-such"]}, 400, "executable file not found"),
]


@pytest.mark.parametrize(("host", "config", "status", "text"), HOSTS, ids=[row[3] for row in HOSTS])
def test_what_docker_refuses_and_what_is_not_acted_on_is_refused(
    host: dict[str, Any], config: dict[str, Any], status: int, text: str
) -> None:
    engine = StubEngine(version="28.2.2")
    with serving(engine):
        with pytest.raises(SettingRefusedError, match=text) as refused:
            run(engine, body(host, **config))
        assert refused.value.status == status
        assert engine.processes == {}
