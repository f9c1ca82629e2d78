"""Topologies of the described machines, read back from a tree on disk."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from migctl.core.cpu.topology import Topology
from migctl.host.sysfs import read_topology
from tests.support.machines import MACHINES, Machine, write


def topology_of(machine: Machine | str) -> Topology:
    """What migctl knows of a machine."""
    return _named(machine) if isinstance(machine, str) else _read(machine)


@cache
def _named(name: str) -> Topology:
    return _read(MACHINES[name])


def _read(machine: Machine) -> Topology:
    with tempfile.TemporaryDirectory() as folder:
        return read_topology(write(machine, Path(folder)))
