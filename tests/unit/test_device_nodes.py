"""The nodes of a MIG device: which they are by the kernel's word, how missing ones are made, what the look inside says of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from migctl.errors import HostError
from migctl.runtimes import device_nodes
from migctl.runtimes.container_readback import compare, held_by, names_listed
from migctl.runtimes.device_nodes import DeviceNodes, Unknown, find_nodes, make_nodes
from migctl.runtimes.engine_host import unlinked_nodes
from migctl.runtimes.gpu_device import GpuDevice
from tests.support.fake_devices import FIRST, NUMBERS, SECOND, capability_tree, device_tree

WHOLE = GpuDevice(uuid="GPU-1", minor=1)


def names(nodes: DeviceNodes | Unknown) -> list[str]:
    assert isinstance(nodes, DeviceNodes)
    return [path.name for path in nodes.all]


def test_a_mig_device_has_the_gpus_node_the_common_ones_and_its_two_capabilities(tmp_path: Path) -> None:
    capability_tree(tmp_path)

    assert names(find_nodes(FIRST, tmp_path)) == ["nvidiactl", "nvidia-uvm", "nvidia0", "nvidia-cap12", "nvidia-cap13"]
    assert names(find_nodes(SECOND, tmp_path))[-2:] == ["nvidia-cap21", "nvidia-cap22"]
    assert names(find_nodes(WHOLE, tmp_path)) == ["nvidiactl", "nvidia-uvm", "nvidia1"]


def test_where_capability_files_are_hidden_the_drivers_list_tells_the_minors(tmp_path: Path) -> None:
    capability_tree(tmp_path)
    for file in sorted((tmp_path / device_nodes.CAPABILITIES).rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()

    assert names(find_nodes(FIRST, tmp_path))[-2:] == ["nvidia-cap12", "nvidia-cap13"]


def test_the_drivers_list_has_instances_that_do_not_exist_so_a_missing_capability_file_counts(tmp_path: Path) -> None:
    capability_tree(tmp_path)
    (tmp_path / device_nodes.CAPABILITIES / "gpu0/mig/gi1/ci0/access").unlink()

    with pytest.raises(HostError) as error:
        find_nodes(FIRST, tmp_path)

    assert error.value.id == "no-capability"


def test_a_kernel_without_capabilities_and_a_gpu_without_a_minor_are_unknown_with_their_reason(tmp_path: Path) -> None:
    nameless = GpuDevice(uuid="MIG-1", minor=None, gi_id=1, ci_id=0)

    assert find_nodes(FIRST, tmp_path) == Unknown("this kernel has no /proc/driver/nvidia-caps")
    assert find_nodes(nameless, tmp_path) == Unknown("the driver does not tell the GPU's minor number")


class Programs:
    """NVIDIA's programs as real ones on a PATH: each writes down its command line, and makes the nodes that it stands for.

    Args:
        makes: the beginning of a command line (paths below the machine's root) → the nodes made.
    """

    def __init__(self, root: Path, makes: dict[str, Sequence[str]]) -> None:
        folder = root / "programs"
        folder.mkdir()
        self._log = folder / "log"
        self.environ = {"PATH": f"{folder}:{os.environ['PATH']}"}
        cases = []
        for start, nodes in makes.items():
            numbers = ((node, *NUMBERS[node]) for node in nodes)
            made = "; ".join(f"mknod -m 666 {root}/dev/{node} c {major} {minor}" for node, major, minor in numbers)
            program, words = start.split(" ", 1) if " " in start else (start, "")
            cases.append(f'"{program} {words.replace("/proc/", f"{root}/proc/")}"*) {made} ;;')
        for name in ("nvidia-modprobe", "nvidia-smi"):
            script = f'line="{name} $*"; echo "$line" >> {self._log}\ncase "$line" in {" ".join(cases)} esac\n'
            (folder / name).write_text(f"#!/bin/sh\n{script}")
            (folder / name).chmod(0o755)
        self._root = root

    @property
    def ran(self) -> list[str]:
        """The command lines, without the machine's root."""
        text = self._log.read_text() if self._log.exists() else ""
        return text.replace(str(self._root), "").splitlines()


CAPABILITY = "/proc/driver/nvidia/capabilities/gpu0/mig/gi1"


def without(root: Path, *nodes: str) -> Path:
    device_tree(root)
    for node in nodes:
        (root / "dev" / node).unlink()
    return root


def test_nothing_is_run_where_all_nodes_are_there(tmp_path: Path) -> None:
    programs = Programs(device_tree(tmp_path), {})

    assert names(make_nodes(FIRST, tmp_path, programs.environ))[-1] == "nvidia-cap13"
    assert programs.ran == []


def test_each_missing_capability_is_asked_of_nvidia_modprobe_by_its_own_file(tmp_path: Path) -> None:
    root = without(tmp_path, "nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13")
    programs = Programs(
        root,
        {
            f"nvidia-modprobe -f {CAPABILITY}/access": ["nvidia-caps/nvidia-cap12"],
            f"nvidia-modprobe -f {CAPABILITY}/ci0/access": ["nvidia-caps/nvidia-cap13"],
        },
    )
    make_nodes(FIRST, root, programs.environ)

    assert programs.ran == [f"nvidia-modprobe -f {CAPABILITY}/access", f"nvidia-modprobe -f {CAPABILITY}/ci0/access"]


def test_where_nvidia_modprobe_did_not_help_one_call_of_nvidia_smi_is_tried(tmp_path: Path) -> None:
    root = without(tmp_path, "nvidia-caps/nvidia-cap13", "nvidia-uvm")
    programs = Programs(root, {"nvidia-modprobe -u": ["nvidia-uvm"], "nvidia-smi": ["nvidia-caps/nvidia-cap13"]})
    make_nodes(FIRST, root, programs.environ)

    assert programs.ran == [f"nvidia-modprobe -f {CAPABILITY}/ci0/access", "nvidia-modprobe -u -c 0", "nvidia-smi -L"]


def test_a_node_that_nobody_makes_stops_the_job_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_nodes, "MAKE_DEADLINE_S", 0.1)
    root = without(tmp_path, "nvidia-caps/nvidia-cap13")

    with pytest.raises(HostError) as error:
        make_nodes(FIRST, root, Programs(root, {}).environ)

    assert error.value.id == "no-device-node"
    assert "nvidia-cap13" in error.value.message


def test_a_plain_file_in_a_nodes_place_is_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_nodes, "MAKE_DEADLINE_S", 0.1)
    root = without(tmp_path, "nvidia0")
    (root / "dev/nvidia0").write_text("")

    with pytest.raises(HostError):
        make_nodes(FIRST, root, Programs(root, {}).environ)


def test_nodes_without_a_link_in_dev_char_are_named(tmp_path: Path) -> None:
    """F8: after a systemctl daemon-reload runc finds their numbers only there."""
    dev = device_tree(tmp_path) / "dev"
    assert str(dev / "nvidia-caps/nvidia-cap12") in unlinked_nodes(dev)
    (dev / "char").mkdir()
    for node in [*dev.glob("nvidia[0-9]"), dev / "nvidiactl", *dev.glob("nvidia-caps/*")]:
        number = node.stat().st_rdev
        (dev / f"char/{os.major(number)}:{os.minor(number)}").symlink_to(node)

    assert unlinked_nodes(dev) == ()
    assert unlinked_nodes(tmp_path / "nothing") == ()


OWN = ["nvidia0", "nvidia-cap12", "nvidia-cap13"]
HELD: list[tuple[list[str], str | None]] = [
    (OWN, None),
    (OWN[:2], "the container lacks nvidia-cap13"),
    (["nvidia0"], "the container lacks nvidia-cap12, nvidia-cap13"),
    ([], "the container lacks nvidia-cap12, nvidia-cap13, nvidia0"),
    ([*OWN, "nvidia-cap21"], "the container also holds nvidia-cap21"),
    ([*OWN, "nvidia1"], "the container also holds nvidia1"),
    (["nvidia0", "nvidia-cap12", "nvidia-cap22"], "the container lacks nvidia-cap13 and also holds nvidia-cap22"),
]


@pytest.mark.parametrize(("held", "wrong"), HELD)
def test_exactly_its_own_nodes_are_right_and_everything_else_is_told(
    tmp_path: Path, held: list[str], wrong: str | None
) -> None:
    nodes = find_nodes(FIRST, capability_tree(tmp_path))

    assert isinstance(nodes, DeviceNodes)
    assert compare(nodes, dict.fromkeys(held)) == wrong


def test_a_node_of_the_right_name_and_another_number_is_of_something_else(tmp_path: Path) -> None:
    nodes = find_nodes(FIRST, device_tree(tmp_path))
    numbers = {Path(name).name: os.makedev(*number) for name, number in NUMBERS.items()}
    held = {name: numbers[name] for name in OWN}

    assert isinstance(nodes, DeviceNodes)
    assert compare(nodes, held) is None
    assert compare(nodes, held | {"nvidia-cap13": numbers["nvidia-cap22"]}) == (
        "the container has nvidia-cap13 of something else"
    )


def test_what_cannot_be_looked_at_is_not_taken_for_empty() -> None:
    assert held_by(2**22 + 1) is None
    assert held_by(os.getpid()) is not None


def test_names_are_read_from_what_ls_prints() -> None:
    text = "/dev:\nfd\nnull\nnvidia-caps\nnvidia-uvm\nnvidia0\nnvidiactl\n\n/dev/nvidia-caps:\nnvidia-cap12\nnvidia-cap13\n"

    assert names_listed(text) == dict.fromkeys(["nvidia0", "nvidia-cap12", "nvidia-cap13"])
