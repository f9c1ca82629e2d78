"""The command line in this very process, many times a second, in a folder of its own; and what lies in a folder, to be compared."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from migctl.cli.app import run

BUG = 1
"""The exit code of a bug in migctl (README)."""
KNOWN = frozenset({0, 2, 3, 4, 5, 6, 7, 8})


@dataclass(frozen=True, slots=True)
class Said:
    """An ended command."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"$ migctl {' '.join(self.words)}\n[exit {self.code}]\n{self.out}\n{self.err}"


def say(*words: str) -> Said:
    """Run `migctl` with these words in this process; a bug of it fails the test."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    said = Said(words, code, *(one.buffer.getvalue().decode("utf-8", "replace") for one in (out, err)))  # type: ignore[attr-defined]
    assert code in KNOWN, f"exit code {code}\n{said}"
    assert "Traceback" not in said.err, said
    return said


@contextmanager
def standing_in(folder: Path, **environ: str) -> Iterator[None]:
    """This process as one that was started in the folder, with nothing of migctl's in its environment but what is given."""
    before, place = dict(os.environ), Path.cwd()
    kept = {k: v for k, v in before.items() if not k.startswith(("MIGCTL_", "SUDO_", "DOCKER_", "XDG_"))}
    own = {
        "MIGCTL_STATE_DIR": str(folder / "state"),
        "MIGCTL_RUN_DIR": str(folder / "run"),
        "MIGCTL_SIM_STATE": str(folder / "simulator.json"),
        "MIGCTL_NVML": "sim:a100-40gb",
        "DOCKER_HOST": f"unix://{folder}/no-engine.sock",
        "COLUMNS": "100",
        "MIGCTL_RECORDING": "off",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    try:
        os.environ.clear()
        os.environ.update({**kept, **own, **environ})
        os.chdir(folder)
        yield
    finally:
        os.chdir(place)
        os.environ.clear()
        os.environ.update(before)


def tree(*tops: Path) -> Mapping[str, tuple[int, int, int, int]]:
    """Everything below: path → mode, inode, size, time of the last change."""
    found: dict[str, tuple[int, int, int, int]] = {}
    for top in tops:
        left = [str(top)]
        while left:
            path = left.pop()
            if path.endswith("-shm"):
                continue  # memory that those who read the index share, and no part of it (sqlite.org/walformat.html)
            try:
                there = os.lstat(path)
            except FileNotFoundError:
                continue
            # A folder's time changes with what comes and goes in it, which is seen by its names.
            changed = 0 if stat.S_ISDIR(there.st_mode) else there.st_mtime_ns
            found[path] = (there.st_mode, there.st_ino, 0 if not changed else there.st_size, changed)
            if stat.S_ISDIR(there.st_mode):
                left += [f"{path}/{name}" for name in os.listdir(path)]  # noqa: PTH208 -- a thousand times a second
    return found
