"""Whether what came back over an engine's socket is the answer of an engine, in the parts that the rest relies on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from migctl.core.cpu.cpuset import CpuSet

Check = Callable[[object], bool]
_BOUND: Final = 2**63


class Strange(Exception):  # noqa: N818 -- what it is, not what it does
    """It is not; the text names the part."""


def checked(answer: object, parts: Mapping[str, Check], what: str) -> Any:  # noqa: ANN401 -- JSON
    """The answer, an object whose parts are as they should be; a part that is missing or null is nothing.

    Args:
        parts: dotted names (`State.Pid`), the outer ones before the inner.

    Raises:
        Strange: it is no object, or a part is of another kind.
    """
    if type(answer) is not dict:
        raise Strange(f"{what} is no object")
    for name, check in parts.items():
        value: Any = answer
        for key in name.split("."):
            value = value.get(key) if value is not None else None
        if value is not None and not check(value):
            raise Strange(f"{name} of {what} is {str(value)[:60]!r}")
    return answer


def all_checked(answer: object, parts: Mapping[str, Check], what: str) -> Any:  # noqa: ANN401 -- JSON
    """The same for a list of objects."""
    if type(answer) is not list:
        raise Strange(f"the list of {what}s is none")
    return [checked(one, parts, what) for one in answer]


def needed(answer: Any, *names: str) -> Any:  # noqa: ANN401 -- JSON
    """The checked answer, in which these are there.

    Raises:
        Strange: one is missing.
    """
    for name in names:
        value = answer
        for key in name.split("."):
            value = value.get(key) if type(value) is dict else None
        if value is None:
            raise Strange(f"{name} is missing")
    return answer


def _object(value: object) -> bool:
    return type(value) is dict


def _objects(value: object) -> bool:
    return type(value) is list and all(type(one) is dict for one in value)


def _text(value: object) -> bool:
    return type(value) is str


def _texts(value: object) -> bool:
    return type(value) is list and all(type(one) is str for one in value)


def _list(value: object) -> bool:
    return type(value) is list


def _pairs(value: object) -> bool:
    return type(value) is dict and all(type(one) is str for one in value.values())


def _number(value: object) -> bool:
    return type(value) is int and -_BOUND <= value < _BOUND


def _pid(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _flag(value: object) -> bool:
    return type(value) is bool


def _cpus(value: object) -> bool:
    try:
        return type(value) is str and CpuSet.parse(value) is not None
    except ValueError:
        return False


def _time(value: object) -> bool:
    if type(value) is not str:
        return False
    try:
        return not value or value.startswith("0001-") or datetime.fromisoformat(value).timestamp() is not None
    except (ValueError, OverflowError):
        return False


VERSION: Final[Mapping[str, Check]] = {
    "Version": _text,
    "ApiVersion": _text,
    "MinAPIVersion": _text,
    "KernelVersion": _text,
    "Platform": _object,
    "Components": _objects,
}
INFO: Final[Mapping[str, Check]] = {
    "Runtimes": _object,
    "SecurityOptions": _list,
    "CDISpecDirs": _texts,
    "CgroupDriver": _text,
    "DockerRootDir": _text,
}
LISTED: Final[Mapping[str, Check]] = {"Id": _text, "Labels": _pairs}
CONTAINER: Final[Mapping[str, Check]] = {
    "Id": _text,
    "Name": _text,
    "Config": _object,
    "Config.Labels": _pairs,
    "HostConfig": _object,
    "HostConfig.CpusetCpus": _cpus,
    "HostConfig.DeviceRequests": _objects,
    "State": _object,
    "State.Status": _text,
    "State.Pid": _pid,
    "State.ExitCode": _number,
    "State.OOMKilled": _flag,
    "State.Error": _text,
    "State.StartedAt": _time,
    "State.FinishedAt": _time,
}
IMAGE: Final[Mapping[str, Check]] = {"Id": _text, "Config": _object, "Config.Env": _texts, "Architecture": _text}
