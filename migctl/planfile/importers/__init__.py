"""Files of other tools, read as plans."""

from __future__ import annotations

from migctl.planfile.importers.formats import Format, imported
from migctl.planfile.importers.sketch import Sketch, merged

__all__ = ["Format", "Sketch", "imported", "merged"]
