"""Programs of the system that migctl asks to do something: run for real, without a shell, with an end."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program said."""

    code: int
    """Exit code; -1: it did not end in time and was killed."""
    text: str
    """Both of its outputs, on one line."""


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """The program's path on the caller's PATH."""
    return shutil.which(name, path=environ.get("PATH"))


def ask(words: Sequence[str], environ: Mapping[str, str], timeout_s: float) -> Answer:
    """Run a program to its end; Ctrl-C in the terminal does not reach it, so that it is never left half done."""
    try:
        done = subprocess.run(
            list(words),
            env=dict(environ) | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        return Answer(-1, _line(error.output or b""))
    except OSError as error:
        return Answer(127, f"{words[0]}: {error.strerror}")
    return Answer(done.returncode, _line(done.stdout))


def _line(output: bytes) -> str:
    text = " ".join(output.decode("utf-8", "replace").split())
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:500]
