"""A terminal of a given size with a program on it: what it writes, the keys it is sent, and how it is left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

KEYS = {"up": b"\x1b[A", "down": b"\x1b[B", "enter": b"\r", "escape": b"\x1b", "ctrl+c": b"\x03"}
_LINE = re.compile(r"\x1b\[(\d+);1H\x1b\[2K([^\x1b]*(?:\x1b\[[0-9;]*m[^\x1b]*)*)")
_LOOKS = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """The side of a pseudo-terminal that a person sits at."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, before: list[object]) -> None:
        self.process = process
        self._master = master
        self._before = before
        self._written = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def written(self) -> str:
        """All that came until now."""
        return self._written.decode("utf-8", "replace")

    @property
    def screen(self) -> list[str]:
        """What the screen of a program shows that draws whole lines, each at its place."""
        lines: dict[int, str] = {}
        for part in self.written.split("\x1b[2J"):
            lines = {}
            for found in _LINE.finditer(part):
                lines[int(found[1])] = _LOOKS.sub("", found[2])
        return [lines.get(n + 1, "") for n in range(max(lines, default=0))]

    def press(self, *keys: str) -> None:
        """Each key by its name, or the letter that it writes."""
        for key in keys:
            os.write(self._master, KEYS.get(key, key.encode()))
            time.sleep(0.15)  # what follows an escape at once belongs to it

    def resize(self, columns: int, lines: int) -> None:
        """As when a window is drawn larger: the kernel tells the program."""
        termios.tcsetwinsize(self._master, (lines, columns))

    def until(self, true: Callable[[], bool], seconds: float = 20) -> bool:
        """Whether it came true in time."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def shows(self, text: str, seconds: float = 20) -> bool:
        """Whether this text has been written in time."""
        return self.until(lambda: text in self.written, seconds)

    def left(self, seconds: float = 20) -> int:
        """The exit code, once it has ended."""
        code = self.process.wait(timeout=seconds)
        self._reader.join(timeout=2)
        return code

    @property
    def as_it_was(self) -> bool:
        """Whether the terminal is set as before the program."""
        return termios.tcgetattr(self._master) == self._before

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            if not data:
                return
            self._written += data


@contextmanager
def terminal(
    words: Sequence[str],
    *,
    folder: Path,
    environ: Mapping[str, str],
    size: tuple[int, int] = (80, 24),
    inherited: tuple[int, ...] = (),
) -> Iterator[Terminal]:
    """A program on a terminal of its own, ended with it.

    Args:
        words: its command line.
        folder: where it is started.
        environ: its environment.
        size: columns and lines.
        inherited: descriptors that it keeps.
    """
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (size[1], size[0]))
    before = termios.tcgetattr(master)
    process = subprocess.Popen(
        list(words),
        cwd=folder,
        env={**environ, "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        pass_fds=inherited,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        yield Terminal(process, master, before)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
        os.close(slave)
        os.close(master)
