"""What the records in an attempt's folder must hold before anything is concluded from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from migctl.core.cpu.cpuset import CpuSet

LAUNCH: Final = "launch.json"
PID: Final = "pid.json"
EXIT: Final = "exit.json"
MOST_BYTES: Final = 8 << 20
"""Larger is none: environment and command line have 2 MiB at most (execve(2)), and JSON writes a sign in up to six bytes."""
_BOUND: Final = 2**63
Check = Callable[[object], bool]


def _text(value: object) -> bool:
    return type(value) is str


def _number(value: object) -> bool:
    return type(value) is int and 0 <= value < _BOUND


def _pid(value: object) -> bool:
    return type(value) is int and 0 < value < 2**31


def _time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < _BOUND  # type: ignore[operator]  # a number, by its type


def _texts(value: object) -> bool:
    return type(value) is list and all(type(one) is str for one in value)


def _pairs(value: object) -> bool:
    return type(value) is dict and all(type(one) is str for one in value.values())


def _cpus(value: object) -> bool:
    try:
        return type(value) is str and CpuSet.parse(value) is not None
    except ValueError:
        return False


def _identity(value: object) -> bool:
    if value is None:
        return True
    return (
        type(value) is list
        and len(value) == 3
        and _number(value[0])
        and _number(value[1])
        and type(value[2]) is list
        and all(_number(group) for group in value[2])
    )


def _text_or_nothing(value: object) -> bool:
    return value is None or type(value) is str


_NEEDED: Final[Mapping[str, Mapping[str, Check]]] = {
    LAUNCH: {
        "run": _text,
        "job": _text,
        "token": _text,
        "program": _text,
        "argv": _texts,
        "environment": _pairs,
        "working_dir": _text,
        "user": _identity,
        "cpus": _cpus,
    },
    PID: {
        "pid": _pid,
        "start_ticks": _number,
        "shim_pid": _pid,
        "shim_start_ticks": _number,
        "started_at": _time,
        "boot_id": _text,
    },
    EXIT: {"exit_code": _number, "finished_at": _time},
}
_OPTIONAL: Final[Mapping[str, Check]] = {"device": _text_or_nothing, "labels": _pairs, "reason": _text_or_nothing}


def parsed(name: str, text: bytes) -> dict[str, Any]:
    """The record of this name.

    Raises:
        ValueError: it is not one, or lacks what every one of its kind has.
    """
    try:
        record = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if type(record) is not dict:
        raise ValueError("no object")
    for key, check in _NEEDED.get(name, {}).items():
        if not check(record.get(key)):
            raise ValueError(f"{key} is not what it should be")
    for key, check in _OPTIONAL.items():
        if key in record and not check(record[key]):
            raise ValueError(f"{key} is not what it should be")
    return record
