"""Writes results: text for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys


def write_json(value: object) -> None:
    """One object on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write(text: str) -> None:
    """Text on stdout, at once: a pipe's reader sees what has happened so far."""
    sys.stdout.write(text)
    sys.stdout.flush()
