"""migctl's CDI specification: what is in it, how it is written, what of the driver goes into it, and what is found of others'."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from migctl.core.views.findings import Level
from migctl.engine.checks.check_access import entry_finding
from migctl.errors import HostError
from migctl.runtimes.cdi_files import choose_folder, entries, remove_files, write_file
from migctl.runtimes.cdi_spec import DriverEdits, device_name, qualified_name, specification, toolkit_edits
from migctl.runtimes.device_nodes import DeviceNodes, find_nodes
from migctl.runtimes.driver_files import cached_libraries, driver_edits
from migctl.runtimes.engine_host import lacks_cpuset, podman_folders
from migctl.runtimes.facts import CdiEntry
from tests.support.fake_devices import FIRST, capability_tree

TOKEN = "0123456789abcdef"
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
"""Device names of the CDI specification, SPEC.md, "devices"."""


def nodes(root: Path) -> DeviceNodes:
    found = find_nodes(FIRST, capability_tree(root))
    assert isinstance(found, DeviceNodes)
    return found


def test_the_device_has_a_name_of_its_own_that_cdi_allows() -> None:
    name = device_name(FIRST.uuid, TOKEN)

    assert NAME.fullmatch(name)
    assert qualified_name(FIRST.uuid, TOKEN) == "migctl.io/gpu=MIG-11111111-2222-3333-4444-555555555555.01234567"
    assert name != device_name(FIRST.uuid, TOKEN[::-1])


def test_the_specification_is_complete_and_in_the_oldest_version_that_can_say_it(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    here = specification("d", nodes(tmp_path / "r"), DriverEdits(source="x"), tmp_path / "r")
    typed = DriverEdits(source="x", mounts=({"hostPath": "/a", "containerPath": "/a", "type": "bind"},))
    own = DeviceNodes(gpu=Path("/dev/nvidia0"), control=(Path("/dev/nvidiactl"),), capabilities=(Path("/dev/c"),))

    assert here["cdiVersion"] == "0.5.0"
    assert here["kind"] == "migctl.io/gpu"
    edits = here["devices"][0]["containerEdits"]  # type: ignore[index] # JSON
    assert [node["path"] for node in edits["deviceNodes"]] == [
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap12",
        "/dev/nvidia-caps/nvidia-cap13",
    ]
    assert edits["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert specification("d", own, DriverEdits(source="x"), Path("/"))["cdiVersion"] == "0.3.0"
    assert specification("d", own, typed, Path("/"))["cdiVersion"] == "0.4.0"


TOOLKIT: dict[str, Any] = {
    "cdiVersion": "0.7.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
    "containerEdits": {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [{"path": "/dev/nvidiactl"}],
        "additionalGids": [44],
        "mounts": [
            {
                "hostPath": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06",
                "containerPath": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06",
                "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
            }
        ],
        "hooks": [
            {
                "hookName": "createContainer",
                "path": "/usr/bin/nvidia-cdi-hook",
                "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib/x86_64-linux-gnu"],
                "env": ["NVIDIA_CTK_DEBUG=false"],
            }
        ],
    },
}


def test_of_the_toolkits_specification_the_drivers_files_and_hooks_are_taken_and_no_device() -> None:
    edits = toolkit_edits(TOOLKIT)

    assert edits.mounts == tuple(TOOLKIT["containerEdits"]["mounts"])
    assert edits.hooks == tuple(TOOLKIT["containerEdits"]["hooks"])
    assert toolkit_edits({"kind": "x"}) == DriverEdits(source="nvidia-ctk")


def program(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_the_toolkit_is_asked_where_it_is_and_the_linkers_cache_where_it_is_not_or_fails(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    (tmp_path / "spec.json").write_text(json.dumps(TOOLKIT))
    program(tmp_path, "ldconfig", "echo nothing")
    program(tmp_path, "nvidia-ctk", f'[ "$*" = "cdi generate --format=json" ] && cat {tmp_path}/spec.json')
    asked = driver_edits(environ)
    program(tmp_path, "nvidia-ctk", "echo no driver >&2; exit 1")
    failed = driver_edits(environ)
    program(tmp_path, "nvidia-ctk", "echo not JSON")

    assert (asked.source, len(asked.mounts), len(asked.hooks)) == ("nvidia-ctk", 1, 1)
    assert failed == DriverEdits(source="the linker's cache")
    assert driver_edits(environ) == failed


LDCONFIG = """4 libs found in cache `/etc/ld.so.cache'
\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1
\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.1
\tlibcudart.so.12 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.12
\tlibnvidia-opencl.so.1 (libc6,x86-64) => /opt/old/libnvidia-opencl.so.1
"""


def test_from_the_linkers_cache_come_the_64_bit_libraries_of_one_driver_under_both_names(tmp_path: Path) -> None:
    library = tmp_path / "usr/lib/x86_64-linux-gnu"
    old = tmp_path / "opt/old"
    for folder, name, version in (
        (library, "libnvidia-ml", "580.65.06"),
        (library, "libcuda", "580.65.06"),
        (old, "libnvidia-opencl", "470.1.2"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.so.{version}").write_text("")
        (folder / f"{name}.so.1").symlink_to(f"{name}.so.{version}")

    mounts = {m.container: m.host for m in cached_libraries(LDCONFIG, tmp_path)}

    place = "/usr/lib/x86_64-linux-gnu"
    assert mounts == {
        f"{place}/{name}.so.{end}": f"{library}/{name}.so.580.65.06"
        for name in ("libcuda", "libnvidia-ml")
        for end in ("1", "580.65.06")
    }
    assert cached_libraries("", tmp_path) == ()


def test_the_file_is_written_whole_and_readable_for_the_engine_and_taken_away_again(tmp_path: Path) -> None:
    folder = tmp_path / "run/cdi"
    spec = specification("d", nodes(tmp_path), DriverEdits(source="x"), tmp_path)
    path = write_file(str(folder), "migctl-r-j-01234567", spec)

    assert json.loads(path.read_text()) == spec
    assert path.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in folder.iterdir()] == ["migctl.io-gpu_migctl-r-j-01234567.json"]
    inode = path.stat().st_ino
    assert write_file(str(folder), "migctl-r-j-01234567", spec).stat().st_ino == inode
    remove_files([str(tmp_path / "not-there"), str(folder)], "migctl-r-j-01234567")
    remove_files([str(folder)], "migctl-r-j-01234567")
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(HostError) as error:
        write_file(str(tmp_path / "file"), "u", {})

    assert error.value.id == "cdi-folder-unwritable"
    assert str(tmp_path / "file") in error.value.message


def test_the_last_folder_that_can_be_written_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "file").write_text("")

    assert choose_folder([str(tmp_path / "etc"), str(tmp_path / "run/cdi")]) == str(tmp_path / "run/cdi")
    assert choose_folder([str(tmp_path / "etc"), str(tmp_path / "file")]) == str(tmp_path / "etc")
    assert choose_folder([]) is None


def test_entries_of_json_and_yaml_are_found_and_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "nvidia.yaml").write_text(
        "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n"
        "- name: MIG-9\n  containerEdits:\n    deviceNodes:\n"
        "    - path: /dev/null\n    - path: /dev/x\n      hostPath: /nowhere/x\n"
    )
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.yaml").write_text("- a\n")
    (tmp_path / "tabs.yaml").write_text("a:\n\t- b: [\n")
    (tmp_path / "notes.txt").write_text("ignored")
    write_file(str(tmp_path), "migctl-r-j-1", {"kind": "migctl.io/gpu", "devices": [{"name": "MIG-1.0"}]})

    found, wrong = entries([str(tmp_path / "not-there"), str(tmp_path)])

    assert [(e.qualified, e.nodes, e.unit) for e in found] == [
        ("migctl.io/gpu=MIG-1.0", (), "migctl-r-j-1"),
        ("nvidia.com/gpu=MIG-9", ("/dev/null", "/nowhere/x"), None),
    ]
    assert [Path(line.partition(": ")[0]).name for line in wrong] == ["broken.json", "list.yaml", "tabs.yaml"]


KNOWN = frozenset({"MIG-1"})
F = "/etc/cdi/nvidia.yaml"
ENTRIES: list[tuple[CdiEntry, frozenset[str] | None, str | None, str]] = [
    (CdiEntry(file=F, name="nvidia.com/gpu=MIG-1"), KNOWN, None, ""),
    (CdiEntry(file=F, name="nvidia.com/gpu=all"), KNOWN, None, ""),
    (CdiEntry(file=F, name="nvidia.com/gpu=MIG-2"), KNOWN, "cdi-stale", "that MIG device does not exist"),
    (CdiEntry(file=F, name="nvidia.com/gpu=MIG-2"), None, None, ""),
    (
        CdiEntry(file=F, name="nvidia.com/gpu=0:1", missing=("/dev/nvidia-caps/nvidia-cap9",)),
        KNOWN,
        "cdi-stale",
        "nvidia-cap9",
    ),
    (CdiEntry(file=F, name="migctl.io/gpu=MIG-2.1", ours=True), KNOWN, None, ""),
    (CdiEntry(file=F, name="migctl.io/gpu=MIG-1.1", ours=True, orphan=True), KNOWN, "cdi-left-over", "no container"),
    (CdiEntry(file=F, name="migctl.io/gpu=MIG-1.1", ours=True, missing=("/dev/n",)), KNOWN, "cdi-left-over", "/dev/n"),
    (CdiEntry(file=F, error="no CDI specification"), KNOWN, "cdi-unreadable", "no CDI specification"),
]


@pytest.mark.parametrize(("entry", "known", "finding", "text"), ENTRIES)
def test_check_names_stale_left_over_and_unreadable_entries_with_their_file_and_the_next_step(
    entry: CdiEntry, known: frozenset[str] | None, finding: str | None, text: str
) -> None:
    found = entry_finding(entry, known)

    assert (found.id if found else None) == finding
    if found is not None:
        assert found.level is Level.WARNING
        assert text in found.message
        assert F in found.message
        assert F in (found.hint or "")


def test_podmans_folders_are_those_of_its_configuration(tmp_path: Path) -> None:
    first, second, broken = tmp_path / "a.conf", tmp_path / "b.conf", tmp_path / "c.conf"
    first.write_text('[engine]\ncdi_spec_dirs = ["/etc/cdi"]\n')
    second.write_text('[engine]\ncdi_spec_dirs = ["/srv/cdi", "/run/user/7/cdi"]\n')
    broken.write_text("[engine\n")

    assert podman_folders({}, [tmp_path / "none.conf"]) == ("/etc/cdi", "/var/run/cdi")
    assert podman_folders({}, [first, second, broken]) == ("/srv/cdi", "/run/user/7/cdi")


def test_a_rootless_engine_without_the_cpuset_controller_is_known(tmp_path: Path) -> None:
    folder = tmp_path / "user.slice/user-7.slice/user@7.service"
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text("cpu memory pids\n")

    assert lacks_cpuset(7, tmp_path)
    (folder / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    assert not lacks_cpuset(7, tmp_path)
    assert not lacks_cpuset(8, tmp_path)
