"""Whether a job of a later plan is the same job: a keyed digest over its own resolved keys, values of the environment included."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from enum import Enum
from operator import attrgetter

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.plan import Job

# Where a job, or a value of it, stands says nothing about what it is.
_PLACE = frozenset({"where", "places", "keys", "origin", "from_files"})
# When it runs, and whether once more, can change while it waits or runs: it stays the same job.
_TURN = frozenset({"needs", "stage", "priority", "retries", "retry_on", "timeout_s", "expect_s", "resumable"})
_NAMES = tuple(field.name for field in fields(Job) if field.name not in _PLACE | _TURN)
_VALUES = attrgetter(*_NAMES)
_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


def spec(job: Job, *, with_environment: bool = False) -> str:
    """The job's own keys as canonical JSON; without values of the environment, which may be secrets.

    Never the derived cores, workers or placement: another `up` on a fuller machine would make them differ.
    """
    values = {name: _plain(value) for name, value in zip(_NAMES, _VALUES(job), strict=True)}
    if not with_environment:
        values["environment"] = [name for name, _ in job.environment]
    return json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def memory_limit_mib(text: str) -> int:
    """The memory limit in a job's spec, 0 where there is none."""
    limit = json.loads(text).get("mem_limit_bytes") if text else None
    return limit >> 20 if isinstance(limit, int) else 0


def digest(job: Job, key: bytes) -> str:
    """Sameness of a job over two plans; keyed, so that a label does not let anybody test guesses of a secret."""
    return hashlib.blake2b(spec(job, with_environment=True).encode(), key=key, digest_size=16).hexdigest()


def _plain(value: object) -> object:
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, CpuSet):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        parts: dict[str, object] = {"": type(value).__name__}
        parts.update({name: _plain(getattr(value, name)) for name in value.__dataclass_fields__})
        return parts
    return value
