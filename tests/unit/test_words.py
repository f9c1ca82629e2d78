"""Counted nouns."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from migctl.core.words import are, counted

SOURCE = Path(__file__).parents[2] / "migctl"


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 jobs are"), (1, "1 job is"), (2, "2 jobs are"), (100, "100 jobs are")]
)
def test_a_noun_and_its_verb_follow_the_number(number: int, words: str) -> None:
    assert f"{counted(number, 'job')} {are(number)}" == words


def test_a_plural_without_s_is_given() -> None:
    assert counted(1, "process", "processes") == "1 process"
    assert counted(2, "process", "processes") == "2 processes"


def test_no_other_place_makes_plurals() -> None:
    by_hand = re.compile(r"'' if [^}]* == 1 else '(?:s|es)'")
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr) and by_hand.search(ast.unparse(node))
    ]

    assert found == []
