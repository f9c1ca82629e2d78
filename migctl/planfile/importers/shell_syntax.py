"""As much of a shell's grammar as is needed to find the commands of a script, their words, and the loops around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_OPERATORS = ("&&", "||", ";;", ">>", "<<", "|", ";", "&", ">", "<", "(", ")")
_ENDS = frozenset({"&&", "||", ";;", "|", ";", "&", "(", ")"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


@dataclass(frozen=True, slots=True)
class Word:
    """One word; `text` is without quotes, with variables as the shell writes them."""

    text: str
    quoted: bool = False
    """Some of it was in quotes."""
    dynamic: bool = False
    """A variable, a substitution or a pattern that only the shell can resolve."""


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command; `line` counts from 1."""

    words: tuple[Word, ...]
    line: int
    source: str
    """The line that it begins in, as it stands."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The words' texts."""
        return tuple(word.text for word in self.words)

    @property
    def assignments(self) -> dict[str, str]:
        """Variables set before the command's name."""
        found: dict[str, str] = {}
        for word in self.words:
            if not _ASSIGNMENT.match(word.text):
                break
            name, _, value = word.text.partition("=")
            found[name.rstrip("+")] = value
        return found

    @property
    def plain(self) -> tuple[str, ...]:
        """The texts behind the assignments."""
        return self.texts[len(self.assignments) :]


def commands(text: str) -> Iterator[Command]:
    """The simple commands in their order; redirections are left out, a line that cannot be read is one word."""
    line = 1
    lines = text.split("\n")
    reader = _Reader(text)
    words: list[Word] = []
    start = 1
    skip = False
    for token in reader.tokens():
        line = token.line
        if token.operator in _ENDS or token.operator == "\n":
            if words:
                yield Command(tuple(words), start, lines[start - 1])
            words, skip = [], False
        elif token.operator:
            skip = True
            # 2>file: the number belongs to the redirection.
            if words and words[-1].text.isdigit() and token.glued:
                words.pop()
        elif skip:
            skip = False
        else:
            if not words:
                start = line
            words.append(Word(token.text, token.quoted, token.dynamic))
    if words:
        yield Command(tuple(words), start, lines[start - 1])


@dataclass(slots=True)
class _Token:
    text: str
    line: int
    operator: str = ""
    quoted: bool = False
    dynamic: bool = False
    glued: bool = False


class _Reader:
    """Reads words as a POSIX shell splits them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.here = 0
        self.line = 1

    def tokens(self) -> Iterator[_Token]:
        """Words and operators; a newline is an operator too."""
        while self.here < len(self.text):
            char = self.text[self.here]
            if self.text.startswith("\\\n", self.here):
                self._step(2)
            elif char == "\n":
                yield _Token("\n", self.line, "\n")
                self._step(1)
            elif char in " \t\r":
                self._step(1)
            elif char == "#":
                end = self.text.find("\n", self.here)
                self.here = len(self.text) if end < 0 else end
            elif operator := next((o for o in _OPERATORS if self.text.startswith(o, self.here)), None):
                glued = self.here > 0 and self.text[self.here - 1] not in " \t\n"
                yield _Token(operator, self.line, operator, glued=glued)
                self._step(len(operator))
                if operator == ">" and self.text.startswith("&", self.here):
                    self._step(1)
            else:
                yield self._word()

    def _step(self, count: int) -> None:
        self.line += self.text.count("\n", self.here, self.here + count)
        self.here += count

    def _word(self) -> _Token:
        token = _Token("", self.line)
        while self.here < len(self.text):
            char = self.text[self.here]
            if char in " \t\r\n;&|<>()":
                break
            if char == "\\":
                if not self.text.startswith("\\\n", self.here):
                    token.text += self.text[self.here + 1 : self.here + 2]
                self._step(2)
            elif char == "'":
                end = self._end_of("'")
                token.text += self.text[self.here + 1 : end].replace("$", "$$")
                token.quoted = True
                self._step(end + 1 - self.here)
            elif char == '"':
                self._double(token)
            elif char in "$`":
                self._dollar(token)
            else:
                token.dynamic |= char in "*?["
                token.text += char
                self._step(1)
        return token

    def _double(self, token: _Token) -> None:
        token.quoted = True
        self._step(1)
        while self.here < len(self.text) and self.text[self.here] != '"':
            char = self.text[self.here]
            if char == "\\" and self.text[self.here + 1 : self.here + 2] in ("$", "`", '"', "\\", "\n"):
                following = self.text[self.here + 1]
                token.text += {"\n": "", "$": "$$"}.get(following, following)
                self._step(2)
            elif char in "$`":
                self._dollar(token)
            else:
                token.text += char
                self._step(1)
        self._step(1)

    def _dollar(self, token: _Token) -> None:
        """A variable or a substitution, as it stands."""
        token.dynamic = True
        text, here = self.text, self.here
        if text[here] == "`":
            end = self._end_of("`") + 1
        elif text.startswith("$(", here) or text.startswith("${", here):
            end = self._closing(here + 1)
        else:
            found = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])?").match(text, here)
            assert found is not None
            end = found.end()
            token.dynamic &= end > here + 1 or bool(token.text)
        token.text += text[here:end]
        self._step(end - here)

    def _closing(self, opening: int) -> int:
        pairs = {"(": ")", "{": "}"}
        opened, closed = self.text[opening], pairs[self.text[opening]]
        depth = 0
        for place in range(opening, len(self.text)):
            if self.text[place] == opened:
                depth += 1
            elif self.text[place] == closed:
                depth -= 1
                if not depth:
                    return place + 1
        return len(self.text)

    def _end_of(self, quote: str) -> int:
        end = self.text.find(quote, self.here + 1)
        return len(self.text) if end < 0 else end
