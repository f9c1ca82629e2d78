"""The fenced blocks of a Markdown file, and what a console block shows: commands and their output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"(?ms)(?:^<!-- (?P<remark>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `remark` is the comment on the line above it (`file: NAME`, `needs: docker`, `not run: why`)."""

    language: str
    text: str
    remark: str
    line: int

    def about(self, key: str) -> str:
        """What the remark says of `key`; nothing where it is silent."""
        name, _, value = self.remark.partition(": ")
        return value if name == key else ""


@dataclass(frozen=True, slots=True)
class Command:
    """A `$ …` line and the output that the block shows for it; `...` stands for anything."""

    words: str
    shown: str


def blocks(path: Path) -> list[Block]:
    """All of them, in order."""
    text = path.read_text("utf-8")
    return [
        Block(found["language"], found["text"], found["remark"] or "", text.count("\n", 0, found.start("language")) + 1)
        for found in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    """The commands of a console block, without the comments behind them."""
    parts = re.split(r"(?m)^\$ (.*)\n", block.text)
    return [
        Command(re.split(r"\s+# ", words)[0].strip(), shown)
        for words, shown in zip(parts[1::2], parts[2::2], strict=True)
    ]


def agrees(shown: str, printed: str) -> bool:
    """Whether the output is what the block shows; a block that shows nothing leaves it open."""
    if not shown.strip():
        return True
    wanted = ""
    for line in shown.splitlines():
        wanted += r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", ".*?") + r"\n"
    return re.fullmatch(wanted, "".join(f"{line.rstrip()}\n" for line in printed.splitlines())) is not None
