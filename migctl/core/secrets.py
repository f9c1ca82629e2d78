"""Which variables hold secrets, as far as their names tell, and lines of files in which the values of these cannot be read."""

from __future__ import annotations

import re
from typing import Final

_SECRET: Final = re.compile(
    r"(?:^|[_.-])(?:token|key|pat)$|access_?key_?id$|api_?key|password|passwd|passphrase|secret|credentials?$",
    re.IGNORECASE,
)
_QUICK: Final = re.compile(r"token|key|pat|passw|passphrase|secret|credential", re.IGNORECASE)
_HEAD: Final = re.compile(r"""(?P<name>[A-Za-z_][\w.-]*)["']?\s*[:=]\s*""")
_VALUE: Final = re.compile(r"""\"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,}\]\#"'][^,}\]\#]*""")
_NAMED: Final = re.compile(r"\s*(?:export\s+)?[A-Z_][A-Z0-9_]{0,63}\s*=")
HIDDEN: Final = "*"
"""Stands for each character of a value, so that what is behind it keeps its column."""


def is_secret(name: str) -> bool:
    """Whether a variable of this name is taken for a secret: `HF_TOKEN`, `WANDB_API_KEY`, `AWS_ACCESS_KEY_ID`, `DB_PASSWORD`.

    `MAX_TOKENS` and `TOKENIZERS_PARALLELISM` are not: it is the last word that counts.
    """
    return _SECRET.search(name) is not None


def concealed(line: str) -> str:
    """The line of a plan with `*` in place of every value that stands behind a secret's name (`NAME: value`, `NAME=value`)."""
    if not _QUICK.search(line):
        return line
    shown, here = "", 0
    while head := _HEAD.search(line, here):
        shown += line[here : head.end()]
        here = head.end()
        if is_secret(head["name"]) and (value := _VALUE.match(line, here)) is not None:
            shown += _stars(value[0])
            here = value.end()
    return shown + line[here:]


def without_values(line: str) -> str:
    """The line of a file of variables with nothing but its name, and with nothing at all where that may be part of a key's text."""
    found = _NAMED.match(line)
    shown = found[0] if found is not None else ""
    return shown + _stars(line[len(shown) :])


def _stars(value: str) -> str:
    return HIDDEN * len(value)
