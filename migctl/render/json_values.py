"""Values that several of `--json`'s objects have: field names are a contract, every value is plain."""

from __future__ import annotations

from migctl.core.code import Code
from migctl.core.gpu.mig import MigMode, Placement
from migctl.errors import Notice, Where

Json = dict[str, object]

VERSION = 1
"""Grows only when a field changes its meaning or goes; new fields do not change it."""


def notice_json(notice: Notice) -> Json:
    """A warning."""
    return {"id": notice.id, "message": notice.message, "where": where_json(notice.where), "hint": notice.hint}


def code_json(code: Code | None) -> Json | None:
    """The state of a job's source."""
    if code is None:
        return None
    return {"commit": code.commit, "dirty": code.dirty, "changes": code.changes or None}


def placement_json(placement: Placement | None) -> Json | None:
    """A place on the memory-slice axis."""
    return None if placement is None else {"start": placement.start, "size": int(placement.size)}


def mode_json(mode: MigMode | None) -> Json | None:
    """MIG mode, now and after a reset."""
    return None if mode is None else {"current": mode.current, "pending": mode.pending}


def where_json(where: Where | str | None) -> str | None:
    """A place in words."""
    return None if where is None else str(where)
