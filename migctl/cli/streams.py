"""The three standard streams: there even where the caller closed them, and what cannot be written is told once, at the end."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

OUTPUT_FAILED: Final = 4
"""Exit code where the work was the output, and it could not be written: `ls > /dev/full` fails, too."""
ACTING: Final = frozenset(
    {
        "up", "run", "exec", "down", "stop", "restart", "hold", "release", "resume", "adopt", "tune", "mode", "service", "rm",
        "wait", "metrics",
    }
)  # fmt: skip
"""Commands whose work is not their output. They go on when nobody takes it, and their exit code tells of the work alone, as that of
`docker run -d` does: a script that read "this host cannot" there would take what runs for not started."""

_PRINTING: Final = frozenset({"--dry-run", "--once"})
"""With one of these a command's work is what it prints."""


class Unwritten(Exception):  # noqa: N818 -- reads as the sentence it is
    """Nobody takes the output any more; the stream knows why. No OSError: others would take it for one of theirs."""


class Output(io.FileIO):
    """A standard stream that remembers why it could not be written, and drops what comes after that.

    Args:
        descriptor: 1 or 2.
        goes_on: not even the first failure is raised.
    """

    def __init__(self, descriptor: int, *, goes_on: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.goes_on = goes_on
        self.failure: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write. After a failure all counts as written, so that nothing is tried again while Python ends.

        Raises:
            Unwritten: it failed for the first time.
        """
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
                if not self.goes_on:
                    raise Unwritten from error
        return memoryview(data).nbytes


@dataclass(frozen=True, slots=True)
class Streams:
    """What stdout is for this command."""

    out: TextIO
    raw: Output

    @classmethod
    def prepare(cls, words: Sequence[str]) -> Streams:
        """Put all three in order. To be called before any file is opened: it would get the number of a closed stream.

        Args:
            words: the command line, without the program.
        """
        for descriptor in (0, 1, 2):
            try:
                os.fstat(descriptor)
            except OSError:
                # The kernel gives the lowest free number: exactly this one, as those below are there.
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if sys.stdin is None:
            sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
        acting = bool(words) and words[0] in ACTING and not _PRINTING & set(words)
        raw = Output(1, goes_on=acting)
        sys.stdout = _text(raw, sys.stdout)
        # Nobody reading why is no reason to leave work half done.
        sys.stderr = _text(Output(2, goes_on=True), sys.stderr, every_line=True)
        return cls(sys.stdout, raw)

    def finish(self, code: int) -> int:
        """Write what is left, say in one line what could not be written, and return the exit code of the whole.

        A reader that has gone (`| head`) has what it wanted: nothing is said.
        """
        try:
            self.out.flush()
        except Unwritten:
            pass
        failure = self.raw.failure
        if failure is None or isinstance(failure, BrokenPipeError):
            return code
        whole = code != 0 or self.raw.goes_on
        end = (
            ""
            if not whole
            else "; what was asked is done"
            if code == 0
            else f"; without that it ends with {code} as well"
        )
        sys.stderr.write(f"migctl: the output could not be written: {failure.strerror or failure}{end}\n")
        return code if whole else OUTPUT_FAILED


def _text(raw: Output, was: TextIO | None, *, every_line: bool = False) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=was.encoding if was is not None else "utf-8",
        errors=was.errors if was is not None else "backslashreplace",
        line_buffering=every_line or raw.isatty(),
    )
