"""The line that runs a command again as root, and what sudo takes out of the environment on the way."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_DOCKER = (
    "DOCKER_API_VERSION",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
)
_XDG = ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")


def matters(name: str) -> bool:
    """Whether a variable changes what migctl does."""
    return name.startswith("MIGCTL_") or name in _DOCKER or name in _XDG


def dropped(now: Mapping[str, str], before: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that the user had set and sudo did not hand on, or changed."""
    return tuple(sorted(name for name, value in before.items() if matters(name) and now.get(name) != value))


def sudo_line(
    environ: Mapping[str, str], words: Sequence[str] | None = None, *, argv: Sequence[str] | None = None
) -> str:
    """What to type to run this very command, or another one of migctl, as root.

    The program is named by its path, since sudo has a PATH of its own, and the variables that count are kept by name.

    Args:
        environ: the caller's.
        words: another command than the present one: `["up", "plan.yaml"]`.
        argv: of this process.
    """
    argv = sys.argv if argv is None else argv
    program, kept = _program(argv[0] if argv else "migctl", environ)
    names = sorted({name for name, value in environ.items() if matters(name) and value} | kept)
    keep = [f"--preserve-env={','.join(names)}"] if names else []
    return shlex.join(["sudo", *keep, *program, *(argv[1:] if words is None else words)])


def _program(first: str, environ: Mapping[str, str]) -> tuple[list[str], set[str]]:
    """The words that start migctl by absolute path, and the variables that this needs."""
    if Path(first).name == "__main__.py":
        # python -m migctl, from a checkout
        return [sys.executable, "-m", "migctl"], {"PYTHONPATH"} if environ.get("PYTHONPATH") else set()
    found = first if "/" in first else shutil.which(first, path=environ.get("PATH"))
    return [os.path.abspath(found) if found else first], set()  # noqa: PTH100 -- a link stays as it is: its name counts
