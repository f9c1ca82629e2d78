"""What simulated drivers of different ages can do; the number of a driver is its branch (470 in 470.57.02)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

_LAST_PROFILE: Final = ((470, 4), (525, 7), (570, 9))
"""Before this branch: the last GPU instance profile index. Listings: none but the five plain ones with R450, no 1_SLICE_REV2 (9)
with 510.47 and 515.86; the graphics and media variants came with Blackwell, whose first branch is R570."""
_NEWEST_PROFILE: Final = 17
"""NVML_GPU_INSTANCE_PROFILE_COUNT - 1 of nvml.h 13.3."""


@dataclass(frozen=True, slots=True)
class DriverAge:
    """One driver's abilities."""

    branch: int

    @property
    def last_profile_index(self) -> int:
        """Asked for a later one, the driver answers INVALID_ARGUMENT (nvml.h: an enum that it does not know)."""
        return next((last for before, last in _LAST_PROFILE if self.branch < before), _NEWEST_PROFILE)

    @property
    def versioned_queries(self) -> bool:
        """Whether it has the functions …InfoV, which give profiles their names, and …RunningProcesses_v3."""
        return self.branch >= 510

    @property
    def queries_without_mode(self) -> bool:
        """Whether it can be one that tells profiles while MIG mode is off; older ones do not (field 199 tells)."""
        return self.branch >= 510

    @property
    def name_prefix(self) -> str:
        """What stands before a profile's name: who writes `MIG ` is documented nowhere, so here some do and some do not."""
        return "MIG " if self.branch >= 550 else ""

    @property
    def mixes_four_and_three(self) -> bool:
        """4g beside 3g on one GPU: from R510 on (MIG User Guide)."""
        return self.branch >= 510

    @property
    def short_uuids(self) -> bool:
        """`MIG-<UUID>`, from R470.42 on; before, `MIG-GPU-<UUID>/<GI id>/<CI id>` (NVML's changelog)."""
        return self.branch >= 470


@cache
def driver_age(version: str) -> DriverAge:
    """The age of a driver of this version.

    Raises:
        ValueError: it does not begin with a number.
    """
    return DriverAge(int(version.partition(".")[0]))
