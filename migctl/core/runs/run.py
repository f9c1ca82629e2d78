"""A run: one plan brought up by one user."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is recorded about a run as a whole. Times are Unix seconds."""

    name: str
    plan_path: str
    """Absolute path of the plan file; nothing for a run made on the command line."""
    owner_uid: int
    runtime: str
    strategy: str
    nvml: str = ""
    """`sim:…` of simulated GPUs, nothing for real ones."""
    boot_id: str = ""
    revision: int = 0
    """Grows with each write; the higher one wins where two copies differ. The store sets it."""
    created_at: float | None = None
    ended_at: float | None = None
    """When `down` finished; such a run keeps only its history and logs."""
    engine: str = "local"
    """Where its jobs run; on a cluster (`slurm`, `kubernetes`) they have no records here but one for all: `ClusterRun`."""
    mig_enabled: tuple[str, ...] = ()
    """UUIDs of GPUs whose MIG mode this run turned on."""
