"""The reader of /sys against trees of machines as Linux shows them."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.errors import HostError
from migctl.host.sysfs import FAST, read_topology
from tests.support.machines import MACHINES, Machine, write


@dataclass
class Expected:
    cores: int
    first: str
    """CPUs of the first core."""
    l3: int
    """Number of L3 domains."""
    nodes: frozenset[int | None]
    sockets: int = 1
    hidden: bool = False


ONE = frozenset({0})
CASES = {
    "desktop-smt-off": Expected(8, "0", 1, ONE),
    "workstation-far-siblings": Expected(8, "0,8", 1, ONE),
    "workstation-near-siblings": Expected(8, "0-1", 1, ONE),
    "two-xeons": Expected(112, "0,112", 2, frozenset({0, 1}), sockets=2),
    "epyc-many-l3": Expected(64, "0,64", 16, ONE),
    "epyc-nps4": Expected(128, "0,128", 32, frozenset(range(8)), sockets=2),
    "offline-siblings": Expected(16, "0", 1, ONE),
    "offline-far-siblings": Expected(8, "0,8", 1, ONE),
    "smt-switched-off": Expected(8, "0", 1, ONE),
    "isolated": Expected(8, "0,8", 1, ONE),
    "hybrid": Expected(24, "0-1", 1, ONE),
    "vm-bare": Expected(12, "0", 1, frozenset({None}), hidden=True),
    "vm-flat": Expected(12, "0", 1, ONE, hidden=True),
    "vm-with-topology": Expected(6, "0-1", 1, ONE),
    "vm-smt-off": Expected(6, "0", 1, ONE),
    "grace-hopper": Expected(72, "0", 1, ONE),
    "node-without-memory": Expected(16, "0", 2, frozenset({0, 1}), sockets=2),
    "one-cpu": Expected(1, "0", 1, ONE),
    "container-quota": Expected(16, "0,16", 1, ONE),
    "pod-quota-above": Expected(16, "0,16", 1, ONE),
    "slurm-job": Expected(32, "0,32", 2, frozenset({0, 1}), sockets=2),
    "vm-taskset": Expected(8, "0", 1, frozenset({None}), hidden=True),
}


def test_every_machine_has_its_expectation() -> None:
    assert CASES.keys() == MACHINES.keys()


@pytest.mark.parametrize("name", CASES)
def test_topology_is_what_the_machine_has(name: str, tmp_path: Path) -> None:
    expected, machine = CASES[name], MACHINES[name]
    topology = read_topology(write(machine, tmp_path))

    assert topology.online == machine.online
    assert topology.offline == machine.present - machine.online
    assert len(topology.cores) == expected.cores
    assert topology.cores[0].cpus == CpuSet.parse(expected.first)
    assert len({core.l3 for core in topology.cores}) == expected.l3
    assert {core.node for core in topology.cores} == expected.nodes
    assert len({core.socket for core in topology.cores}) == expected.sockets
    assert topology.hidden is expected.hidden


@pytest.mark.parametrize("name", CASES)
def test_a_core_is_named_by_its_lowest_sibling_and_cores_never_share_a_cpu(name: str, tmp_path: Path) -> None:
    topology = read_topology(write(MACHINES[name], tmp_path))

    assert [core.id for core in topology.cores] == sorted({min(c.cpus | c.offline) for c in topology.cores})
    assert sum(len(core.cpus) for core in topology.cores) == len(topology.online)


def test_l3_and_nodes_of_an_epyc_in_quarters(tmp_path: Path) -> None:
    topology = read_topology(write(MACHINES["epyc-nps4"], tmp_path))
    core = next(core for core in topology.cores if 70 in core.cpus)

    assert (core.cpus, core.socket, core.node, core.l3) == (CpuSet.parse("70,198"), 1, 4, 68)
    assert topology.node_distances[4][5] == 12
    assert topology.node_distances[4][0] == 32


def test_gpus_are_found_on_their_nodes_and_other_vendors_devices_are_not_listed(tmp_path: Path) -> None:
    topology = read_topology(write(MACHINES["two-xeons"], tmp_path))

    assert topology.pci_nodes == {"0000:1b:00.0": 0, "0000:9d:00.0": 1}


def test_a_device_asked_for_by_id_is_listed_whatever_its_vendor(tmp_path: Path) -> None:
    topology = read_topology(write(MACHINES["two-xeons"], tmp_path), pci_ids=["0000:00:1f.0"])

    assert topology.pci_nodes["0000:00:1f.0"] == 0


def test_node_minus_one_means_not_known(tmp_path: Path) -> None:
    assert read_topology(write(MACHINES["desktop-smt-off"], tmp_path)).pci_nodes == {}


@pytest.mark.parametrize(
    ("name", "core", "online", "offline"),
    [
        ("offline-siblings", 0, "0", "1"),
        ("offline-siblings", 14, "14", "15"),
        ("offline-siblings", 16, "16-17", ""),
        ("offline-far-siblings", 4, "4", "12"),
        ("offline-far-siblings", 6, "6,14", ""),
        ("smt-switched-off", 3, "3", "11"),
    ],
)
def test_offline_siblings_are_deduced_from_how_the_machine_numbers(
    name: str, core: int, online: str, offline: str, tmp_path: Path
) -> None:
    found = next(c for c in read_topology(write(MACHINES[name], tmp_path)).cores if c.id == core)

    assert (str(found.cpus), str(found.offline)) == (online, offline)


def test_a_lower_sibling_that_is_offline_still_names_the_core(tmp_path: Path) -> None:
    machine = Machine(name="x", cores=4, threads=2, adjacent=True, offline="2")
    core = next(c for c in read_topology(write(machine, tmp_path)).cores if 3 in c.cpus)

    assert (core.id, core.offline) == (2, CpuSet({2}))


def test_isolated_and_tickless_cpus_are_one_set(tmp_path: Path) -> None:
    assert str(read_topology(write(MACHINES["isolated"], tmp_path)).isolated) == "5-7,13-15"


def test_efficient_cores_are_slower(tmp_path: Path) -> None:
    topology = read_topology(write(MACHINES["hybrid"], tmp_path))

    assert {core.capacity == FAST for core in topology.cores if max(core.cpus) < 16} == {True}
    assert {core.capacity < FAST for core in topology.cores if min(core.cpus) >= 16} == {True}


def test_capacities_of_the_kernel_count_and_favoured_cores_are_not_another_kind(tmp_path: Path) -> None:
    write(Machine(name="x", cores=4), tmp_path)
    for cpu, capacity in enumerate((1024, 990, 446, 446)):
        (tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity").write_text(f"{capacity}\n")

    assert [core.capacity for core in read_topology(tmp_path).cores] == [1024, 1024, 446, 446]


@pytest.mark.parametrize(("name", "expected"), [("grace-hopper", {0, 1}), ("node-without-memory", {0})])
def test_nodes_with_memory(name: str, expected: set[int], tmp_path: Path) -> None:
    assert read_topology(write(MACHINES[name], tmp_path)).nodes_with_memory == expected


def test_the_kernels_own_list_of_nodes_with_memory_wins(tmp_path: Path) -> None:
    write(MACHINES["node-without-memory"], tmp_path)
    (tmp_path / "sys/devices/system/node/has_memory").write_text("1\n")

    assert read_topology(tmp_path).nodes_with_memory == {1}


def test_a_machine_without_sysfs_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError) as caught:
        read_topology(tmp_path)

    assert caught.value.id == "no-topology"
    assert str(tmp_path) in caught.value.message


def test_nonsense_in_a_file_is_named_and_is_no_traceback(tmp_path: Path) -> None:
    write(MACHINES["one-cpu"], tmp_path)
    (tmp_path / "sys/devices/system/cpu/online").write_text("a-b\n")

    with pytest.raises(HostError) as caught:
        read_topology(tmp_path)

    assert caught.value.id == "bad-topology"


def test_this_machine_can_be_read() -> None:
    assert read_topology().online
