"""Processes that look like a job's shim and are none: they keep no command from looking for those that are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from migctl.runtimes import proc
from migctl.runtimes.strays import CARRIED, living


@contextmanager
def lookalike(folder: Path, labels: str) -> Iterator[int]:
    script = folder / "shim.py"
    script.write_text("print(flush=True)\nimport time\ntime.sleep(60)\n")
    words = [sys.executable, "-I", "-S", str(script), "0", "0", "night/a", ""]
    with subprocess.Popen(words, env={CARRIED: labels}, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize("labels", ["", "no json", "[]", "[" * 60_000, '{"a": ' * 10_000], ids=range(5))
def test_what_a_lookalike_carries_is_no_jobs(tmp_path: Path, labels: str) -> None:
    with lookalike(tmp_path, labels) as pid:
        assert proc.words(pid)[3].endswith("/shim.py")
        assert pid not in {one.unit.pid for one in living()}
