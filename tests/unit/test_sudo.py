"""What root may do is said as a line that can be typed as it stands."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from migctl.host.rights import rights
from migctl.host.sudo import dropped, sudo_line

# environment, argv, other words, the line
LINES: list[tuple[dict[str, str], list[str], list[str] | None, str]] = [
    ({}, ["/opt/v/bin/migctl", "up", "a plan.yaml"], None, "sudo /opt/v/bin/migctl up 'a plan.yaml'"),
    (
        {"DOCKER_HOST": "unix:///x", "MIGCTL_STATE_DIR": "/s", "XDG_STATE_HOME": "/h", "HOME": "/home/anna", "LR": "1"},
        ["/opt/v/bin/migctl", "-f", "plan.yaml", "up", "--enable-mig"],
        None,
        "sudo --preserve-env=DOCKER_HOST,MIGCTL_STATE_DIR,XDG_STATE_HOME /opt/v/bin/migctl -f plan.yaml up --enable-mig",
    ),
    ({"MIGCTL_NVML": ""}, ["/opt/v/bin/migctl", "check"], ["up", "p.yaml"], "sudo /opt/v/bin/migctl up p.yaml"),
    (
        {"PATH": "/nowhere", "PYTHONPATH": "/src"},
        ["/src/migctl/__main__.py", "up"],
        None,
        "sudo --preserve-env=PYTHONPATH {python} -m migctl up",
    ),
]


@pytest.mark.parametrize(("environ", "argv", "words", "line"), LINES)
def test_the_whole_line_names_the_program_by_its_path_and_keeps_what_counts(
    environ: dict[str, str], argv: list[str], words: list[str] | None, line: str
) -> None:
    import sys

    assert sudo_line(environ, words, argv=argv) == line.replace("{python}", shlex.quote(sys.executable))


def test_a_program_found_by_its_name_is_named_by_its_path(tmp_path: Path) -> None:
    program = tmp_path / "migctl"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    assert sudo_line({"PATH": str(tmp_path)}, argv=["migctl", "up"]) == f"sudo {program} up"
    assert sudo_line({"PATH": "/nowhere"}, argv=["migctl", "up"]) == "sudo migctl up"


def test_what_sudo_dropped_is_what_counts_and_is_gone_or_another() -> None:
    before = {"DOCKER_HOST": "a", "MIGCTL_RUN_DIR": "/r", "XDG_RUNTIME_DIR": "/run/user/1", "LANG": "C", "PATH": "/x"}

    assert dropped({"DOCKER_HOST": "a", "MIGCTL_RUN_DIR": "/other"}, before) == ("MIGCTL_RUN_DIR", "XDG_RUNTIME_DIR")
    assert dropped(before, before) == ()


def machine(root: Path, capabilities: str, *, config_mode: int | None = None, minors: str = "") -> Path:
    """A /proc as the driver shows it (NVIDIA MIG User Guide, "Device Nodes and Capabilities")."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
    if config_mode is not None:
        config = root / "proc/driver/nvidia/capabilities/mig/config"
        config.parent.mkdir(parents=True)
        config.write_text("DeviceFileMinor: 1\n")
        config.chmod(config_mode)
    if minors:
        (root / "proc/driver/nvidia-caps").mkdir(parents=True)
        (root / "proc/driver/nvidia-caps/mig-minors").write_text(minors)
    return root


def test_the_kernel_says_who_is_an_administrator_not_the_uid(tmp_path: Path) -> None:
    assert rights(machine(tmp_path / "a", "000001ffffffffff")).administrator
    # root in a container without CAP_SYS_ADMIN
    assert not rights(machine(tmp_path / "b", "00000000a80425fb")).administrator


@pytest.mark.parametrize(("mode", "allowed"), [(0o444, True), (None, False)])
def test_who_may_read_the_capability_may_make_instances(tmp_path: Path, mode: int | None, allowed: bool) -> None:
    found = rights(machine(tmp_path, "0000000000000000", config_mode=mode))

    assert found.capability == tmp_path / "proc/driver/nvidia/capabilities/mig/config"
    assert (found.administrator, found.delegated, found.instances) == (False, allowed, allowed)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device node")
def test_where_there_are_device_nodes_their_permissions_count(tmp_path: Path) -> None:
    from tests.support.other_user import NOBODY, as_user, open_folder

    with open_folder() as root:
        machine(root, "0000000000000000", config_mode=0o444, minors="config 7\nmonitor 8\ngpu0/gi1/access 12\n")
        node = root / "dev/nvidia-caps/nvidia-cap7"
        node.parent.mkdir(parents=True)
        try:
            os.mknod(node, 0o020400, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("this container lets nobody make device nodes")
        node.chmod(0o400)

        assert rights(root).capability == node
        assert as_user(NOBODY, lambda: rights(root).delegated) is False
        node.chmod(0o440)
        os.chown(node, 0, NOBODY)
        assert as_user(NOBODY, lambda: rights(root).delegated) is True
