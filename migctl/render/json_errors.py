"""The object of `--json` for any failure."""

from __future__ import annotations

from migctl.errors import MigctlError, Where
from migctl.render.json_values import VERSION, Json, where_json


def errors_json(error: MigctlError) -> Json:
    """Any failure with `--json`; also on stdout."""
    return {"version": VERSION, "errors": [error_json(one) for one in error.all]}


def error_json(error: MigctlError) -> Json:
    """One failure."""
    return {
        "id": error.id,
        "message": error.message,
        "where": where_json(error.where),
        "position": _position(error.where),
        "hint": error.hint,
        "exit_code": error.exit_code,
        "data": dict(error.data),
    }


def _position(where: Where | str | None) -> Json | None:
    """The parts of a place in a file; 0 = the whole file."""
    if not isinstance(where, Where):
        return None
    return {"file": where.file, "line": where.line, "column": where.column}
