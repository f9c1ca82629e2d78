"""Lines of several jobs' logs on one terminal: none may write over another's name, move the cursor or set the title."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # control sequences: ECMA-48, 5.4
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\Z)"  # strings, the window's title among them: ECMA-48, 5.6; xterm ends them by BEL as well
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_RESET = "\x1b[0m"


def tame(line: bytes) -> bytes:
    """The line as a terminal would show it in the end, colours kept: of what carriage returns write over each other the last."""
    text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
    colours = False
    shown: list[str] = []
    end = 0
    for found in _SEQUENCE.finditer(text):
        shown.append(_CONTROL.sub("", text[end : found.start()]))
        if _COLOUR.fullmatch(found[0]):
            shown.append(found[0])
            colours = True
        end = found.end()
    shown.append(_CONTROL.sub("", text[end:]))
    return ("".join(shown) + (_RESET if colours else "")).encode()
