"""The answers of the commands that print tables."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.gpu.mig import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardProfiles:
    """The profiles of one GPU or board."""

    name: str
    profiles: tuple[Profile, ...]
    index: int | None = None
    uuid: str | None = None
    reason: str = ""
    """Why there are none: no MIG, or MIG mode must be on for the driver to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersRow:
    """How many workers each of so many trainings should have on so many cores."""

    cores: int
    jobs: int
    num_workers: int
    cores_per_job: int
    note: str = ""
