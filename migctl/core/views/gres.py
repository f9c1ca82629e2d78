"""MIG devices as Slurm's configuration names them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GresDevice:
    """One MIG device of a node."""

    profile: str
    gpu_name: str
    files: tuple[str, ...] = ()
    """The GPU's device file and the two capability files; empty where the kernel does not tell them."""
