"""The activity of GPU instances on a page of dcgm-exporter: values that its host engine watches already."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

FIELD: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
"""Part of the time in which the graphics engine worked, 0 to 1; of an instance, relative to that instance (DCGM field 1001)."""
_SAMPLE: Final = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)\{(?P<labels>[^}]*)\}\s+(?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Where = tuple[str, int | None]
"""GPU UUID and GI id; `None` for a whole GPU."""


def activities(page: str) -> Mapping[Where, float]:
    """Instance → activity, 0 to 1; what is no number (DCGM's "blank" values are huge) is left out."""
    found: dict[Where, float] = {}
    for line in page.splitlines():
        if not line.startswith(FIELD):
            continue
        sample = _SAMPLE.match(line)
        if sample is None or sample["name"] != FIELD:
            continue
        labels = dict(_LABEL.findall(sample["labels"]))
        uuid, gi_id = labels.get("UUID", ""), labels.get("GPU_I_ID", "")
        try:
            value = float(sample["value"])
        except ValueError:
            continue
        if uuid and 0.0 <= value <= 1.0:
            found[uuid, int(gi_id) if gi_id.isdecimal() else None] = value
    return found
