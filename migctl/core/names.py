"""Names of runs and jobs: what is allowed, and the names of jobs expanded from a matrix and replicas."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence

LONGEST = 63
"""Characters; the limit of a DNS label, so that the same name serves Kubernetes and host names of containers."""

_GOOD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_OTHER = re.compile(r"[^A-Za-z0-9_.-]")


def problem(name: str) -> str | None:
    """Why this cannot be a name, as the end of a sentence; `None` when it can."""
    if not name:
        return "is empty"
    if len(name) > LONGEST:
        return f"has {len(name)} characters, {LONGEST} are allowed"
    if not _GOOD.fullmatch(name):
        return "may hold only letters (a-z, A-Z), digits, '_', '.' and '-', and starts with a letter or a digit"
    return None


def sanitised(text: str, otherwise: str) -> str:
    """The nearest allowed name: letters lose their accents, the rest becomes `-`; `otherwise` where nothing can stay."""
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return _OTHER.sub("-", text).lstrip("-_.")[:LONGEST].rstrip("-.") or otherwise


def expanded(job: str, matrix: Sequence[tuple[str, str]] = (), replica: int | None = None) -> str:
    """`sweep` with lr=0.1, seed=1 and replica 2 is `sweep-lr0.1-seed1-2`.

    Other characters than `[A-Za-z0-9_.-]` become `-`. A name over 63 characters is cut and ends in six hex digits of
    the whole name's digest, so that two long names that differ at their ends stay different.
    """
    parts = [job, *(f"{key}{value}" for key, value in matrix)]
    if replica is not None:
        parts.append(str(replica))
    exact = "-".join(parts)
    name = _OTHER.sub("-", exact)
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - 7]}-{hashlib.blake2b(exact.encode('utf-8', 'surrogatepass'), digest_size=3).hexdigest()}"


def clashes(names: Iterable[str]) -> tuple[str, ...]:
    """Names that occur more than once, in the order of their second occurrence."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    return tuple(twice)
