"""Secrets that an exported text does not hold: whoever runs it gives them, by variables that the text names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from migctl.core.plan import Job
from migctl.core.secrets import is_secret

_OTHER = re.compile(r"[^A-Za-z0-9_]")
WHY = "a secret that is not written here"


@dataclass(frozen=True, slots=True)
class Withheld:
    """Which values are not written; none where the text is handed to no file."""

    by_job: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Job → name of its variable → name of the variable that whoever runs the text sets."""

    def of(self, job: Job) -> Mapping[str, str]:
        """A job's variables whose values are withheld."""
        return self.by_job.get(job.name, {})

    @property
    def variables(self) -> tuple[str, ...]:
        """What has to be set, in the jobs' order."""
        return tuple(dict.fromkeys(variable for found in self.by_job.values() for variable in found.values()))

    @property
    def told(self) -> tuple[str, ...]:
        """A line for each, with the jobs that need it."""
        jobs: dict[tuple[str, str], list[str]] = {}
        for job, found in self.by_job.items():
            for name, variable in found.items():
                jobs.setdefault((variable, name), []).append(job)
        return tuple(
            f"{variable}{'' if variable == name else f' for {name}'} of {_listed(names)}"
            for (variable, name), names in jobs.items()
        )


def withheld(jobs: Iterable[Job]) -> Withheld:
    """What `env_file` gives, and what is a secret by its name; equal values of one name are one variable."""
    values: dict[str, tuple[str, str]] = {}
    by_job: dict[str, dict[str, str]] = {}
    for job in jobs:
        for name, value in job.environment:
            if value and (is_secret(name) or name in job.from_files):
                by_job.setdefault(job.name, {})[name] = _variable(name, value, values)
    return Withheld(by_job)


def _variable(name: str, value: str, values: dict[str, tuple[str, str]]) -> str:
    plain = _OTHER.sub("_", name)
    plain = plain if not plain[:1].isdigit() else f"_{plain}"
    chosen, number = plain, 1
    while values.setdefault(chosen, (name, value)) != (name, value):
        number += 1
        chosen = f"{plain}_{number}"
    return chosen


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
