"""Commands written as one string: split into arguments as Compose does, and what in them only a shell would understand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_OPERATORS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "<<", "2>", "2>&1", "&>", "1>", "|&"})

_QUOTING = re.compile(r"""['"\\]""")
_BLANKS = re.compile(r"[ \t\r\n]+")

_LAUNCHERS = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch", "torch/distributed/run.py"})
_PER_NODE = ("--nproc_per_node", "--nproc-per-node")


def split(text: str) -> tuple[str, ...]:
    """The arguments of a command line: quotes and backslashes as in a POSIX shell, nothing else of a shell.

    Raises:
        ValueError: a quote is not closed, or a backslash ends the text.
    """
    if not _QUOTING.search(text):
        return tuple(_BLANKS.sub(" ", text).strip(" ").split(" ")) if text.strip(" \t\r\n") else ()
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(
            "a quote is not closed" if "quotation" in str(error) else "a backslash ends the text"
        ) from None


def shell_operators(arguments: Sequence[str]) -> tuple[str, ...]:
    """Arguments that look as if a shell were meant to read the command, in their order, each once.

    A shell that gets the whole line as one argument (`sh -c '… && …'`) has none.
    """
    return tuple(dict.fromkeys(word for word in arguments if word in _OPERATORS))


def processes_per_node(arguments: Sequence[str]) -> str | None:
    """What torchrun's `--nproc_per_node` says, where the command is a torchrun and the value is not 1."""
    if not any(word.rpartition("/")[2] == "torchrun" or word in _LAUNCHERS for word in arguments):
        return None
    for here, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if option not in _PER_NODE:
            continue
        if not equals:
            value = arguments[here + 1] if here + 1 < len(arguments) else ""
        return None if value in ("", "1") else value
    return None
