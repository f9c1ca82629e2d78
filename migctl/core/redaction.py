"""Takes what looks like a secret out of text that is handed to others: a report says what ran, never with which key."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MARK: Final = "[hidden]"
"""What stands in its place."""

_WORD: Final = (
    r"(?:api[-_]?key|access[-_]?key|private[-_]?key|secret|token|passw(?:or)?d|passphrase|pwd|credentials?|auth)"
)
_NAME: Final = re.compile(rf"(?i)(?:^|[-_.]){_WORD}(?:$|[-_.])|(?:key|token|secret|password|passwd)$")
"""Of a variable or an option: `WANDB_API_KEY`, `--hf-token`, `db.password`."""
_NO_SECRETS: Final = re.compile(
    r"(?i)^-*(?:tokens|max[-_].*|num[-_].*|.*[-_](?:len|length|size|count|path|file|dir|id|ids|rate|loss|weight)|"
    r"(?:pad|eos|bos|unk|mask|sep|cls)[-_]token|sort[-_]?key|author|monkey)$"
)
"""Words of trainings that only sound like it."""

_IN_TEXT: Final = (
    # https://user:password@host, with or without a user
    (re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]+(?=@)"), MARK),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/_.~=-]{8,}"), rf"\1 {MARK}"),
    # tokens that say by their beginning what they are (as GitHub's secret scanning lists them)
    (
        re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|pypi-|nvapi-|dckr_pat_)[A-Za-z0-9_-]{8,}"),
        MARK,
    ),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MARK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), MARK),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), MARK),
)
_PAIR: Final = re.compile(
    r"""(?<![\w.-])(?P<name>-{0,2}[A-Za-z][\w.-]{0,127})(?P<sign>\s*[:=]\s*|["']\s*:\s*)(?P<value>"[^"]*"|'[^']*'|[^\s,;&"'}]+)"""
)
_OPTION: Final = re.compile(
    r"""(?P<name>(?<![\w.-])--?[A-Za-z][\w.-]{0,127})(?P<sign>\s+)(?P<value>"[^"]*"|'[^']*'|[^\s"'-][^\s"']*)"""
)


def is_secret_name(name: str) -> bool:
    """Whether what bears this name is most likely secret."""
    return _NAME.search(name) is not None and _NO_SECRETS.match(name) is None


def redacted(text: str) -> str:
    """The text with secrets replaced, as far as their shape or their name gives them away."""
    for pattern, instead in _IN_TEXT:
        text = pattern.sub(instead, text)
    return _OPTION.sub(_hidden, _PAIR.sub(_hidden, text))


def redacted_words(words: Iterable[str]) -> tuple[str, ...]:
    """A command with the value behind a telling option replaced, whatever it looks like."""
    found: list[str] = []
    hide = False
    for word in words:
        if hide and not word.startswith("--"):
            found.append(MARK)
            hide = False
            continue
        name, equals, _ = word.partition("=")
        hide = not equals and word.startswith("-") and is_secret_name(word)
        found.append(f"{name}={MARK}" if equals and is_secret_name(name) else redacted(word))
    return tuple(found)


def _hidden(found: re.Match[str]) -> str:
    if not is_secret_name(found["name"]) or found["value"] == MARK:
        return found[0]
    return f"{found['name']}{found['sign']}{MARK}"
