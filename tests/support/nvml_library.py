"""The C stand-in for libnvidia-ml.so.1, compiled, and programs that run over it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

STUB = Path(__file__).parents[1] / "data" / "nvml_stub.c"
HAS_COMPILER = shutil.which("cc") is not None


def compiled(folder: Path, *flags: str, code: Path = STUB) -> Path:
    """The folder with the library in it, for LD_LIBRARY_PATH."""
    command = ["cc", "-shared", "-fPIC", *flags, "-o", str(folder / "libnvidia-ml.so.1"), str(code)]
    subprocess.run(command, check=True, timeout=60)
    return folder


def python(code: str, library: Path | None, *arguments: str, **environment: str) -> list[object]:
    """What a program prints as JSON, run with this library (none: without one)."""
    paths = {"LD_LIBRARY_PATH": str(library)} if library else {}
    full = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **paths, **environment}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=full, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert isinstance(told, list)
    return told
