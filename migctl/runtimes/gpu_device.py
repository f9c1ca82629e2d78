"""The device a job runs on, as containers need it: the GPU's minor number and the ids whose capability nodes open the instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """A MIG device, or (under `shared`) a whole GPU: then there are no instance ids."""

    uuid: str
    """What CUDA calls it: `MIG-…` or `GPU-…`."""
    minor: int | None
    """N of /dev/nvidiaN; `None` where the driver does not tell."""
    gi_id: int | None = None
    ci_id: int | None = None

    @property
    def is_mig(self) -> bool:
        """It is part of a GPU, opened by capability nodes of its own."""
        return self.gi_id is not None

    def labels(self) -> dict[str, str]:
        """What a container's labels hold beside `gi` and `ci`, without migctl's prefix."""
        return {"device": self.uuid, "gpu-minor": "" if self.minor is None else str(self.minor)}

    @staticmethod
    def of_labels(labels: Mapping[str, str], prefix: str) -> GpuDevice | None:
        """The device of a container that exists; `None` for a simulated one, and for one made before these labels were."""
        uuid = labels.get(f"{prefix}device")
        if not uuid:
            return None
        return GpuDevice(
            uuid=uuid,
            minor=_number(labels.get(f"{prefix}gpu-minor")),
            gi_id=_number(labels.get(f"{prefix}gi")),
            ci_id=_number(labels.get(f"{prefix}ci")),
        )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
