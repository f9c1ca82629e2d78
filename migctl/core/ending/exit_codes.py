"""Exit codes in words."""

from __future__ import annotations

from typing import Final

_SIGNALS: Final = {
    1: "SIGHUP",
    2: "SIGINT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}

OOM_FLAG: Final = "out of memory: the kernel killed a process of the container (OOM)"
"""What is said where the engine has seen that, and nothing else is known."""


def exit_words(code: int) -> str:
    """An exit code other than 0 in words; 128 + n is the shell's way to say signal n (signal(7))."""
    if code - 128 in _SIGNALS:
        return f"ended by {_SIGNALS[code - 128]} (exit code {code})"
    return f"exit code {code}"
