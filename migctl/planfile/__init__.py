"""Plan files: YAML text to nodes with line and column, to models, to the core's plan; every mistake of a file at once."""

from __future__ import annotations

from migctl.planfile.reader import STANDARD, Value, find, load, load_stream, loads, one_job
from migctl.planfile.schema import schema

__all__ = ["STANDARD", "Value", "find", "load", "load_stream", "loads", "one_job", "schema"]
