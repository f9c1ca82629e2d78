"""Where the engine is looked for, and what of this machine tells about it."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.errors import HostError
from migctl.runtimes.containers import Containers
from migctl.runtimes.endpoint import find_endpoint
from migctl.runtimes.engine_host import engine_cpus, finds_hook, toolkit_accepts_variable
from migctl.runtimes.engine_kind import where_else


def context(home: Path, name: str, host: str) -> None:
    folder = home / ".docker/contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))


def configure(home: Path, **content: str) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker/config.json").write_text(json.dumps(content))


def test_docker_host_comes_before_any_context(tmp_path: Path) -> None:
    context(tmp_path, "lab", "unix:///lab.sock")
    configure(tmp_path, currentContext="lab")
    found = find_endpoint({"HOME": str(tmp_path), "DOCKER_HOST": "unix:///host.sock", "DOCKER_CONTEXT": "lab"})

    assert (found.url, found.source) == ("unix:///host.sock", "DOCKER_HOST")
    assert found.socket == "/host.sock"
    assert found.config == str(tmp_path / ".docker/config.json")


def test_docker_context_comes_before_the_current_one(tmp_path: Path) -> None:
    context(tmp_path, "lab", "unix:///lab.sock")
    context(tmp_path, "far", "tcp://far:2376")
    configure(tmp_path, currentContext="lab")

    assert find_endpoint({"HOME": str(tmp_path)}).url == "unix:///lab.sock"
    far = find_endpoint({"HOME": str(tmp_path), "DOCKER_CONTEXT": "far"})
    assert (far.url, far.source, far.socket) == ("tcp://far:2376", "docker context far", None)


def test_the_certificates_of_a_context_are_used(tmp_path: Path) -> None:
    context(tmp_path, "far", "tcp://far:2376")
    folder = tmp_path / ".docker/contexts/tls" / hashlib.sha256(b"far").hexdigest() / "docker"
    folder.mkdir(parents=True)
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (folder / name).write_text("")
    tls = find_endpoint({"HOME": str(tmp_path), "DOCKER_CONTEXT": "far"}).tls

    assert tls is not None
    assert (tls.ca, tls.key) == (str(folder / "ca.pem"), str(folder / "key.pem"))


def test_a_context_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="'gone'") as error:
        find_endpoint({"HOME": str(tmp_path), "DOCKER_CONTEXT": "gone"})

    assert error.value.id == "no-context"


def test_a_broken_configuration_is_named(tmp_path: Path) -> None:
    configure(tmp_path)
    (tmp_path / ".docker/config.json").write_text("{")

    with pytest.raises(HostError) as error:
        find_endpoint({"HOME": str(tmp_path)})

    assert error.value.id == "docker-config"


def test_the_rootless_socket_is_used_where_the_default_one_is_not(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    nowhere = find_endpoint(environ, default_socket=str(tmp_path / "none.sock"))
    (tmp_path / "docker.sock").touch()
    rootless = find_endpoint(environ, default_socket=str(tmp_path / "none.sock"))
    (tmp_path / "default.sock").touch()
    default = find_endpoint(environ, default_socket=str(tmp_path / "default.sock"))

    assert nowhere.source == "default socket"
    assert (rootless.url, rootless.source) == (f"unix://{tmp_path}/docker.sock", "rootless socket")
    assert (default.url, default.source) == (f"unix://{tmp_path}/default.sock", "default socket")


@pytest.mark.skipif(os.geteuid() != 0, reason="SUDO_UID counts for root only")
def test_under_sudo_the_callers_configuration_counts() -> None:
    found = find_endpoint({"HOME": "/root", "SUDO_UID": "65534", "DOCKER_HOST": "unix:///x"})

    assert found.owner == 65534
    assert found.config == "/nonexistent/.docker/config.json"


def test_no_engine_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(HostError) as error:
        Containers({"HOME": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}).units(None)

    assert error.value.id == "no-engine"
    assert error.value.exit_code == 4


CGROUPS: list[tuple[str, Mapping[str, object], dict[str, str], str | None]] = [
    ("v1, below docker", {"CgroupVersion": "1"}, {"cpuset/docker/cpuset.effective_cpus": "2-5\n"}, "2-5"),
    ("v1, never a container", {"CgroupVersion": "1"}, {"cpuset/cpuset.effective_cpus": "0-7\n"}, "0-7"),
    (
        "v2, systemd",
        {"CgroupVersion": "2", "CgroupDriver": "systemd"},
        {"system.slice/cpuset.cpus.effective": "1-3\n", "cpuset.cpus.effective": "0-7\n"},
        "1-3",
    ),
    (
        "v2, rootless",
        {"CgroupVersion": "2", "CgroupDriver": "systemd", "SecurityOptions": ["name=rootless"]},
        {"user.slice/cpuset.cpus.effective": "4\n", "system.slice/cpuset.cpus.effective": "1-3\n"},
        "4",
    ),
    ("v2, cpuset not delegated", {"CgroupVersion": "2"}, {"cpuset.cpus.effective": "0-7\n"}, "0-7"),
    ("nothing readable", {"CgroupVersion": "2"}, {}, None),
]


@pytest.mark.parametrize(("case", "info", "files", "cpus"), CGROUPS, ids=[row[0] for row in CGROUPS])
def test_the_engines_cpus_are_those_of_the_cgroup_above_its_containers(
    tmp_path: Path, case: str, info: Mapping[str, object], files: dict[str, str], cpus: str | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)

    assert engine_cpus(info, tmp_path) == (None if cpus is None else CpuSet.parse(cpus))


def test_an_engine_with_another_kernel_is_not_on_this_machine() -> None:
    here = {"KernelVersion": os.uname().release}
    assert where_else("unix:///x.sock", here) == ""
    assert where_else("unix:///x.sock", {}) == ""
    assert "another kernel (5.15.49-linuxkit)" in where_else("unix:///x.sock", {"KernelVersion": "5.15.49-linuxkit"})
    assert "over the network (tcp://gpu1:2376)" in where_else("tcp://gpu1:2376", here)
    assert "over the network (ssh://gpu1)" in where_else("ssh://gpu1", here)
    assert "Docker Desktop" in where_else(
        "unix:///x.sock", here | {"Platform": {"Name": "Docker Desktop 4.30.0 (149282)"}}
    )


def test_an_engine_behind_ssh_is_refused_without_any_ssh_library(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"over the network \(ssh://gpu1\).*cannot get a GPU instance") as raised:
        Containers({"HOME": str(tmp_path), "DOCKER_HOST": "ssh://gpu1"}).facts()

    assert raised.value.id == "no-gpu-access"
    assert "log in there" in str(raised.value.hint)


def test_a_toolkit_that_refuses_the_variable_is_recognised(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    assert toolkit_accepts_variable(config)
    config.write_text("accept-nvidia-visible-devices-envvar-when-unprivileged = false\n")
    assert not toolkit_accepts_variable(config)


def test_the_hook_of_a_listener_that_is_no_engine_is_looked_for_on_the_usual_path(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        answer = finds_hook(path)

    usual = [Path(folder, "nvidia-container-runtime-hook") for folder in ("/usr/bin", "/usr/local/bin", "/usr/sbin")]
    assert answer is (True if any(place.exists() for place in usual) else None)
