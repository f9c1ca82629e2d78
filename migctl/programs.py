"""Programs of the system that migctl asks to do something: run for real, without a shell, with an end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_SYSTEM: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the programs of a system lie, those for its administrator too, which are not on everybody's PATH."""
_MOST_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program said."""

    code: int
    """Exit code; -1: it did not end in time and was killed; 127: it could not be run."""
    output: str
    """Its standard output as it is."""
    text: str
    """The beginning of both of its outputs, on one line."""
    errors: str = ""
    """Its standard error as it is."""

    @property
    def ok(self) -> bool:
        """Whether it did what it was asked for."""
        return self.code == 0


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """The program's path on the caller's PATH."""
    import shutil  # loads compressors, which few commands need

    return shutil.which(name, path=environ.get("PATH"))


def with_system_path(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with a PATH on which the system's own programs are found, behind what the caller has there."""
    return {**environ, "PATH": f"{environ.get('PATH') or os.defpath}:{_SYSTEM}"}


def ask(words: Sequence[str], environ: Mapping[str, str], timeout_s: float, given: bytes | None = None) -> Answer:
    """Run a program, looked for on the PATH of `environ`, to its end; `given` is its standard input. It answers in English.

    Ctrl-C in the terminal does not reach it, so that it is never left half done.
    """
    return tell(words, {**environ, "LC_ALL": "C"}, timeout_s, given)


def tell(
    words: Sequence[str],
    environ: Mapping[str, str],
    timeout_s: float,
    given: bytes | None = None,
    *,
    folder: str | None = None,
) -> Answer:
    """The same in the caller's own language.

    Args:
        words: the program, looked for on the PATH of `environ`, and its arguments.
        environ: all of its environment.
        timeout_s: after which it is killed.
        given: what it reads; nothing = an empty standard input.
        folder: where it runs; nothing = where this process is.
    """
    program = find_program(words[0], environ) or words[0]
    try:
        done = subprocess.run(
            [program, *words[1:]],
            env=dict(environ),
            cwd=folder,
            input=given or b"",
            capture_output=True,
            timeout=timeout_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        return _answer(-1, error.stdout or b"", error.stderr or b"")
    except OSError as error:
        return _answer(127, b"", f"{error.filename or words[0]}: {error.strerror}".encode())
    except ValueError as error:  # a NUL byte in a word
        return _answer(127, b"", str(error).encode())
    return _answer(done.returncode, done.stdout, done.stderr)


def _answer(code: int, output: bytes, errors: bytes) -> Answer:
    text = " ".join((output + b" " + errors).decode("utf-8", "replace").split())
    printable = "".join(sign if sign.isprintable() else "?" for sign in text)
    return Answer(
        code, output.decode("utf-8", "replace"), printable[:_MOST_CHARACTERS], errors.decode("utf-8", "replace")
    )
