"""Where GPUs that are only thought of stand in a machine: in the places of those that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from migctl.core.cpu.topology import Topology
from migctl.core.gpu.mig import Gpu


def in_place_of_others(gpus: Sequence[Gpu], topology: Topology) -> Topology:
    """The topology with the NUMA nodes of GPUs whose own PCI addresses it does not know: the first stands where its first one does.

    Simulated boards, and boards that are planned for on another machine's tree, have addresses that no machine has.
    """
    if any(gpu.pci_bus_id in topology.pci_nodes for gpu in gpus):
        return topology
    # Function 0 is the GPU; its audio device and the like follow it.
    nodes = [node for address, node in sorted(topology.pci_nodes.items()) if address.endswith(".0")]
    # As many as there are: what is known of two GPUs says nothing of a third.
    placed = {gpu.pci_bus_id: node for gpu, node in zip(gpus, nodes, strict=False)}
    return replace(topology, pci_nodes={**topology.pci_nodes, **placed})
