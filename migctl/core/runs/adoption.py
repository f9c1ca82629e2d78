"""A record again from what the labels of a container or process say, and why it may not be taken for one's own; pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.core.names import problem
from migctl.core.runs.labels import LABEL
from migctl.core.runs.observed import Observed, Unit
from migctl.core.runs.ownership import Standing, standing
from migctl.core.runs.record import JobState, Ownership, Record

_UID = re.compile(r"[0-9]{1,10}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_LONGEST_GRACE_S = 366 * 86400


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container or process that carries migctl's labels, whoever made it."""

    unit: Unit
    name: str
    """Of the container; a process's pid."""
    labels: Mapping[str, str]
    runtime: str = "docker"
    folder: str = ""
    """Where its log lies or lay, of a process that has nothing but what every job is handed."""

    @property
    def what(self) -> str:
        """It in words."""
        kind = "process" if self.runtime == "process" else "container"
        return f"{kind} {self.name} ({self.unit.run}/{self.unit.job})"

    @property
    def owner_uid(self) -> int:
        """Whose it says it is; -1 = it does not say."""
        text = self.labels.get(LABEL + "owner", "")
        return int(text) if _UID.fullmatch(text) else -1


def record_of(leftover: Leftover) -> Record:
    """The record that the labels were made from, as far as they tell.

    The digest is empty: its key is lost with the records, so sameness is judged on the spec from then on.

    Raises:
        ValueError: a label is missing or malformed.
    """
    said = {key.removeprefix(LABEL): value for key, value in leftover.labels.items() if key.startswith(LABEL)}
    try:
        placement = _placement(said["placement"])
        record = Record(
            run=_name(said["run"]),
            job=_name(said["job"]),
            attempt=_whole(said["attempt"]),
            token=said["token"],
            runtime=leftover.runtime,
            strategy=said["strategy"],
            state=JobState.STARTING,
            digest="",
            spec=_spec(said["spec"]),
            gpu_uuid=said["gpu"] or None,
            profile=said["profile"] or None,
            profile_id=_number(said["profile-id"]),
            placement=placement,
            memory_mib=_number(said.get("memory", "")),
            cpus=CpuSet.parse(said["cpus"]),
            cores=_number(said.get("cores", "")) or 0,
            num_workers=_whole(said["workers"]),
            grace_s=_grace(said.get("grace", "60")),
            boot_id=said["boot"],
            instance=_ownership(said, placement),
            container_id=leftover.unit.handle,
            container_name=leftover.name if leftover.runtime == "docker" else None,
            created_at=leftover.unit.started_at,
        )
    except KeyError as error:
        raise ValueError(f"label {LABEL}{error.args[0]} is missing") from None
    if record.profile is not None and record.instance is None:
        raise ValueError("it had no GPU instance yet")
    return record


def objection(record: Record, observed: Observed) -> str | None:
    """Why the machine does not bear out what the record says; `None`: everything matches."""
    gpu = observed.gpu(record.gpu_uuid)
    if gpu is None:
        return f"its GPU {record.gpu_uuid} is not here, or does not answer"
    match standing(record.instance, observed):
        case Standing.NONE | Standing.OURS:
            return None
        case Standing.GONE if record.boot_id != observed.boot_id:
            return "the machine was restarted since: its GPU instance is gone"
        case Standing.GONE:
            return "its GPU instance is gone"
        case Standing.TAKEN:
            return "its GPU instance is another one by now"
        case Standing.HALF:
            return "its GPU instance has no compute instance any more"
        case Standing.UNKNOWN:
            return f"the instances of GPU {gpu.index} cannot be read ({gpu.instances_reason}), so nothing proves that it is yours"


def _ownership(said: Mapping[str, str], placement: Placement | None) -> Ownership | None:
    gi_id, profile_id = _number(said["gi"]), _number(said["profile-id"])
    if gi_id is None or profile_id is None:
        return None
    if placement is None or not said["mig-uuid"]:
        raise ValueError("its GPU instance is not described fully")
    return Ownership(
        gpu_uuid=said["gpu"],
        gi_id=gi_id,
        profile_id=profile_id,
        placement=placement,
        boot_id=said["boot"],
        ci_id=_number(said["ci"]),
        mig_uuid=said["mig-uuid"],
        foreign=said.get("lent") == "yes",
    )


def _placement(text: str) -> Placement | None:
    if not text:
        return None
    start, _, size = text.partition(":")
    return Placement(_whole(start), MemorySlices(_whole(size)))


def _number(text: str) -> int | None:
    return _whole(text) if text else None


def _whole(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no number")
    return int(text)


def _grace(text: str) -> float:
    grace_s = float(text)
    if not math.isfinite(grace_s) or not 0 <= grace_s <= _LONGEST_GRACE_S:
        raise ValueError(f"{text[:40]!r} is no time to end in")
    return grace_s


def _name(text: str) -> str:
    """Names become those of files and locks: whoever wrote the label must not choose others."""
    if (why := problem(text)) is not None:
        raise ValueError(f"the name {text[:40]!r} {why}")
    return text


def _spec(text: str) -> str:
    try:
        if isinstance(json.loads(text), dict):
            return text
    except RecursionError:
        pass
    raise ValueError("spec is no object")
