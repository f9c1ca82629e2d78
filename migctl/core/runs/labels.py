"""Names of the labels that make a container migctl's."""

from __future__ import annotations

from typing import Final

LABEL: Final = "io.migctl."
"""What the name of each of them begins with."""
