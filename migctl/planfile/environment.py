"""A job's environment: its files first, its own variables after them, without those that choose a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from migctl.core.handover import HANDED
from migctl.errors import PlanError
from migctl.planfile.dotenv import Variable, parse
from migctl.planfile.expand import Draft
from migctl.planfile.interpolation import references
from migctl.planfile.mounts import absolute
from migctl.planfile.nodes import Mapping as MappingNode
from migctl.planfile.problems import Refusal, Report
from migctl.planfile.source import read

_GPU = re.compile(
    r"(NVIDIA|CUDA)_VISIBLE_DEVICES|NVIDIA_MIG_\w+|NVIDIA_IMEX_CHANNELS|GPU_DEVICE_ORDINAL|CUDA_MPS_\w+|DOCKER_RESOURCE_\w+"
)
_NAME = re.compile(r"[^\s=]+")


@dataclass(frozen=True, slots=True)
class Variables:
    """What a job finds in its environment."""

    values: tuple[tuple[str, str], ...]
    from_files: tuple[str, ...]
    """Names of those that an `env_file` gave."""


class Environments:
    """Reads each file once, whatever number of jobs names it."""

    def __init__(self, folder: str, environ: Mapping[str, str], report: Report) -> None:
        self._folder = folder
        self._environ = environ
        self._report = report
        self._files: dict[tuple[str, bool], tuple[Variable, ...]] = {}

    def dotenv(self) -> dict[str, str]:
        """The variables of `.env` beside the plan; none where there is no such file."""
        path = absolute(".env", self._folder, self._environ)
        try:
            source = read(Path(path), ".env", kind="file", private=True)
        except PlanError as error:
            if error.id != "file-not-found":
                self._report.add(error)
            return {}
        return {one.name: one.value for one in parse(source, self._report, self._environ) if one.value is not None}

    def of(self, draft: Draft) -> Variables:
        """All variables of a job, in order; a later one wins and keeps the first one's place."""
        found: dict[str, str] = {}
        from_files: dict[str, None] = {}
        for file in draft.model.env_file or ():
            for one in self._variables(file.path, file.offset, required=file.required):
                value = self._environ.get(one.name) if one.value is None else one.value
                if value is not None:
                    found[one.name] = value
                    from_files[one.name] = None
        node = draft.nodes.get("environment")
        for name, value in (draft.model.environment or {}).items():
            offset = _offset(node, name)
            if refused := _refused(name):
                self._report.error(refused.id, refused.message, offset, refused.hint)
                continue
            taken = self._environ.get(name) if value is None else value
            from_files.pop(name, None)
            if taken is None:
                self._report.notice(
                    "variable-not-set",
                    f"{name} of job {draft.origin} takes the caller's value, and the caller has none: the job starts without it",
                    offset,
                    f'write {name}: "" for an empty value',
                )
                found.pop(name, None)
            else:
                found[name] = taken
        for name, value in found.items():
            if unknown := next((word for word in references(value) if word not in HANDED), None):
                self._report.error(
                    "unknown-variable",
                    f"{name} of job {draft.origin} holds ${{{unknown}}}, which is nothing that migctl hands to a job",
                    _offset(node, name),
                    f"there are {', '.join(HANDED)}",
                )
        return Variables(tuple(found.items()), tuple(from_files))

    def _variables(self, name: str, offset: int, *, required: bool) -> tuple[Variable, ...]:
        key = (name, required)
        if key not in self._files:
            self._files[key] = self._read(name, offset, required=required)
        return self._files[key]

    def _read(self, name: str, offset: int, *, required: bool) -> tuple[Variable, ...]:
        try:
            path = absolute(name, self._folder, self._environ)
        except Refusal as refused:
            self._report.error(refused.id, f"env_file {refused.message}", offset, refused.hint)
            return ()
        try:
            source = read(Path(path), name, kind="env_file", private=True)
        except PlanError as error:
            if error.id != "file-not-found":
                self._report.add(error)
            elif required:
                self._report.error("missing-env-file", error.message, offset, f"it is looked for at {path}")
            return ()
        inside = Report(source)
        variables = parse(source, inside, self._environ)
        for one in variables:
            if bad := _refused(one.name):
                inside.error(bad.id, bad.message, one.offset, bad.hint)
        for problem in inside.errors:
            self._report.add(problem)
        return variables


def _refused(name: str) -> Refusal | None:
    if _GPU.fullmatch(name):
        return Refusal(
            f"{name} chooses GPUs past the plan; migctl gives each job exactly its instance",
            "delete it",
            id="gpu-variable",
        )
    if name in HANDED:
        return Refusal(f"{name} is handed over by migctl and cannot be set", "delete it", id="reserved-variable")
    if not _NAME.fullmatch(name):
        return Refusal(f"{name!r} cannot be the name of a variable", "write NAME: value", id="bad-variable")
    return None


def _offset(node: object, name: str) -> int:
    if isinstance(node, MappingNode):
        return node.keys[name].start if name in node.keys else node.start
    if (items := getattr(node, "items", None)) is not None:
        return next((item.start for item in items if getattr(item, "text", "").partition("=")[0] == name), -1)
    return -1
