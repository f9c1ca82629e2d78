"""Others that change or hand out the same GPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A service that does with GPU instances what migctl does, or gives them to others' work."""

    id: str
    """`mig-manager`, `device-plugin`, `slurm`."""
    message: str
    hint: str
