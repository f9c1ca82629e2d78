"""Docker's request for a container in podman's words: everything that is asked for arrives, and nothing is left out in silence."""

from __future__ import annotations

from typing import Any

import pytest

from migctl.core.plan import Port, Ulimit, Volume
from migctl.errors import PlanError
from migctl.runtimes.access import GpuAccess, Way
from migctl.runtimes.container_config import container_config
from migctl.runtimes.podman_create import podman_spec
from tests.support.launches import job, launch

TOKEN = "0123456789abcdef"


def spec(**changes: Any) -> dict[str, Any]:
    config = container_config(
        launch(job(**changes), token=TOKEN, image_id="sha256:1", mig_uuid="MIG-1", run="r", user="7:8"),
        GpuAccess(Way.CDI, folder="/var/run/cdi"),
        image_sets_cuda=True,
        open_files=4096,
    )
    return podman_spec(config, "n")


def test_a_plain_job() -> None:
    assert spec() == {
        "name": "n",
        "image": "sha256:1",
        "env": {"PATH": "/usr/bin:/bin", "MIGCTL_JOB": "a", "NVIDIA_VISIBLE_DEVICES": "void"},
        "unsetenv": ["CUDA_VISIBLE_DEVICES"],
        "labels": {
            "io.migctl.run": "r",
            "io.migctl.job": "a",
            "io.migctl.token": TOKEN,
            "io.migctl.owner": "0",
            "io.migctl.cpus": "0",
        },
        "terminal": False,
        "stdin": False,
        "stop_signal": 15,
        "stop_timeout": 60,
        "command": ["sleep", "60"],
        "create_working_dir": True,
        "user": "7:8",
        "init": True,
        "remove": False,
        "restart_policy": "no",
        "log_configuration": {"driver": "k8s-file", "size": 200 << 20},
        "oom_score_adj": 500,
        "shm_size": 1 << 28,
        "r_limits": [{"type": "NOFILE", "soft": 4096, "hard": 4096}],
        "resource_limits": {"cpu": {"cpus": "0"}},
        "devices": [{"path": "migctl.io/gpu=MIG-1.01234567"}],
        "netns": {"nsmode": "none"},
    }


WISHES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("an entrypoint", {"entrypoint": ("/run",)}, {"entrypoint": ["/run"]}),
    ("a working folder", {"working_dir": "/w"}, {"work_dir": "/w"}),
    ("groups", {"group_add": ("44", "video")}, {"groups": ["44", "video"]}),
    ("hosts", {"extra_hosts": ("db:10.0.0.7",)}, {"hostadd": ["db:10.0.0.7"]}),
    ("capabilities", {"cap_add": ("SYS_NICE",)}, {"cap_add": ["SYS_NICE"]}),
    ("memory", {"mem_limit_bytes": 9}, {"resource_limits": {"cpu": {"cpus": "0"}, "memory": {"limit": 9}}}),
    ("ipc", {"ipc": "host"}, {"ipcns": {"nsmode": "host"}}),
    ("another's ipc", {"ipc": "container:x"}, {"ipcns": {"nsmode": "container", "value": "x"}}),
    ("a network", {"network_mode": "lab"}, {"netns": {"nsmode": "bridge"}, "Networks": {"lab": {}}}),
    ("the host's network", {"network_mode": "host"}, {"netns": {"nsmode": "host"}}),
    (
        "limits",
        {"ulimits": (Ulimit(name="memlock", soft=-1, hard=-1), Ulimit(name="nofile", soft=5, hard=6))},
        {"r_limits": [{"type": "MEMLOCK", "soft": -1, "hard": -1}, {"type": "NOFILE", "soft": 5, "hard": 6}]},
    ),
    (
        "a bind",
        {"volumes": (Volume(kind="bind", source="/d", target="/x", read_only=True),)},
        {"mounts": [{"destination": "/x", "type": "bind", "source": "/d", "options": ["rbind", "rprivate", "ro"]}]},
    ),
    (
        "a named volume",
        {"volumes": (Volume(kind="volume", source="v", target="/x", read_only=False),)},
        {"volumes": [{"Name": "v", "Dest": "/x", "Options": ["rw"]}]},
    ),
    (
        "a tmpfs",
        {"tmpfs": ("/s:size=1m,mode=1777",)},
        {"mounts": [{"destination": "/s", "type": "tmpfs", "source": "tmpfs", "options": ["size=1m", "mode=1777"]}]},
    ),
    (
        "ports",
        {"network_mode": None, "ports": (Port(container=6006, host=7007, host_ip="127.0.0.1", protocol="tcp"),)},
        {"portmappings": [{"container_port": 6006, "protocol": "tcp", "host_ip": "127.0.0.1", "host_port": 7007}]},
    ),
    (
        "a port of podman's choice",
        {"network_mode": None, "ports": (Port(container=53, host=0, host_ip="", protocol="udp"),)},
        {"portmappings": [{"container_port": 53, "protocol": "udp", "host_ip": ""}]},
    ),
    (
        "security",
        {
            "security_opt": (
                "no-new-privileges:true",
                "label=disable",
                "seccomp=unconfined",
                "apparmor=p",
                "systempaths=unconfined",
            )
        },
        {
            "no_new_privileges": True,
            "selinux_opts": ["disable"],
            "seccomp_profile_path": "unconfined",
            "apparmor_profile": "p",
            "unmask": ["ALL"],
        },
    ),
]


@pytest.mark.parametrize(("case", "wish", "said"), WISHES, ids=[row[0] for row in WISHES])
def test_each_wish_has_its_words(case: str, wish: dict[str, Any], said: dict[str, Any]) -> None:
    found = spec(**wish)

    assert {key: found.get(key) for key in said} == said


def test_a_security_option_that_podman_lacks_is_the_plans_mistake() -> None:
    with pytest.raises(PlanError) as error:
        spec(security_opt=("credentialspec=x",))

    assert "credentialspec=x" in error.value.message


@pytest.mark.parametrize("where", ["top", "host"])
def test_what_is_not_translated_is_never_left_out(where: str) -> None:
    config = container_config(launch(job(), image_id="i"), GpuAccess(Way.NONE), image_sets_cuda=False, open_files=None)
    (config if where == "top" else config["HostConfig"])["Novel"] = 1

    with pytest.raises(ValueError, match="Novel"):
        podman_spec(config, "n")
