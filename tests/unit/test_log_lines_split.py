"""Lines of a log that is read in pieces."""

from __future__ import annotations

import time

from migctl.engine.follow import split_lines


def test_lines_are_whole_wherever_the_pieces_end() -> None:
    assert list(split_lines(iter([b"a\nb", b"c\n\nd\n", b"", b"e"]))) == [b"a", b"bc", b"", b"d", b"e"]
    assert list(split_lines(iter([b"a\n"]))) == [b"a"]
    assert list(split_lines(iter([]))) == []


def test_a_progress_bar_that_never_ends_its_line_is_read_in_seconds() -> None:
    began = time.process_time()

    (line,) = split_lines(iter([b"x\r" * 32768] * 1600))

    assert len(line) == 100 << 20
    assert time.process_time() - began < 10
