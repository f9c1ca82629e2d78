"""What is written as YAML is read as what it was, by readers of YAML 1.1 and 1.2."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from migctl.core.yaml_text import Lines, Noted, Value, document, scalar

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | TEXTS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=12,
)


def read(text: str) -> Any:
    return yaml.safe_load(text)


@given(VALUES)
def test_any_value_comes_back(value: Any) -> None:
    assert read(document({"value": value})) == {"value": value}


@given(TEXTS)
def test_any_script_comes_back(text: str) -> None:
    assert read(document({"run": [Lines(text), Lines(text + "\n")]})) == {"run": [text, text + "\n"]}


@given(TEXTS)
def test_a_comment_stays_one(comment: str) -> None:
    value = {"a": Noted(1, above=(comment,), beside=comment), "b": [Noted({"c": 2}, above=(comment,), beside=comment)]}

    assert read(document(value, (comment,))) == {"a": 1, "b": [{"c": 2}]}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("train.py", "train.py"),
        ("--workers", "--workers"),
        ("registry.example/train:1", "registry.example/train:1"),
        ("no", '"no"'),
        ("1.10", '"1.10"'),
        ("1e-4", '"1e-4"'),
        ("0-3", '"0-3"'),
        ("22:22", '"22:22"'),
        ("~", '"~"'),
        ("-", '"-"'),
        ("a: b", '"a: b"'),
        ("", '""'),
        ("é", '"é"'),
        (".5", '".5"'),
        (".inf", '".inf"'),
        ("./data", "./data"),
        ("key:", '"key:"'),
        ("=", '"="'),
        (7, "7"),
        (True, "true"),
    ],
)
def test_only_words_that_nobody_misreads_stand_without_quotes(value: str | int | bool, written: str) -> None:
    assert scalar(value) == written


def test_short_lists_stand_in_one_line_and_long_ones_do_not() -> None:
    short: Value = ["python", "train.py"]
    long: Value = ["w" * 60, "w" * 60]

    assert document({"a": short}) == "a: [python, train.py]\n"
    assert document({"a": long}).count("\n") == 3
