"""Counted nouns and verbs for messages: `1 core`, `2 cores`, and which of the two is meant."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """`1 core`, `2 cores`; `many` where the plural is not made by an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def are(number: int) -> str:
    """`is` for one, else `are`."""
    return "is" if number == 1 else "are"
