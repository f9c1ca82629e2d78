"""Several jobs' lines on one terminal: what may pass and what may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migctl.render.log_lines import tame

CASES = {
    "plain": (b"epoch 1: loss 0.25", b"epoch 1: loss 0.25"),
    "a tab and letters of all sorts": ("\té 학습 ✓".encode(), "\té 학습 ✓".encode()),
    "a progress bar that rewrites itself": (b"10%\r50%\r100%", b"100%"),
    "a line that ends as Windows ends it": (b"10%\r100%\r", b"100%"),
    "colours": (b"\x1b[1;31mloss\x1b[0m nan", b"\x1b[1;31mloss\x1b[0m nan\x1b[0m"),
    "the cursor moved up and the line erased": (b"\x1b[2A\x1b[2Kgotcha", b"gotcha"),
    "the screen cleared, the terminal reset": (b"\x1b[2J\x1bcgotcha", b"gotcha"),
    "the window's title, ended by BEL": (b"\x1b]0;root@host\x07after", b"after"),
    "the window's title, ended by ST": (b"\x1b]0;root@host\x1b\\after", b"after"),
    "a title that never ends": (b"before\x1b]0;all the rest", b"before"),
    "eight-bit control characters": ("a\x9b2Jb".encode(), b"a2Jb"),
    "backspaces": (b"abc\b\b\bxyz", b"abcxyz"),
    "a sequence cut off": (b"abc\x1b[", b"abc"),
    "no UTF-8": (b"\xff\x9bx", "��x".encode()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_line_stays_behind_its_name(name: str) -> None:
    given_, shown = CASES[name]

    assert tame(given_) == shown


@given(st.binary(max_size=60))
def test_nothing_but_colours_is_left_of_control_characters(line: bytes) -> None:
    rest = tame(line).decode()
    while "\x1b[" in rest:
        before, _, after = rest.partition("\x1b[")
        numbers, m, rest_after = after.partition("m")
        assert m == "m"
        assert set(numbers) <= set("0123456789;:")
        rest = before + rest_after

    assert all(sign == "\t" or (sign >= " " and not "\x7f" <= sign <= "\x9f") for sign in rest)
