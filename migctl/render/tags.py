"""A letter and a colour for every job, the same in the table, on the GPU and on the cores."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from migctl.render.console import JOB_LOOKS, Style

_LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits
MANY = "&"
"""Stands for all jobs beyond the letters."""


@dataclass(frozen=True, slots=True)
class Tags:
    """Which letter stands for which job."""

    letters: Mapping[str, str] = field(default_factory=dict)
    looks: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, jobs: Sequence[tuple[str, str]]) -> Tags:
        """Letters for (job, origin) in this order; jobs of one origin share a letter where there are more jobs than letters."""
        keys = [name for name, _ in jobs]
        if len(keys) > len(_LETTERS):
            keys = [origin or name for name, origin in jobs]
        order = {key: n for n, key in enumerate(dict.fromkeys(keys))}
        return cls(
            {
                name: _LETTERS[order[key]] if order[key] < len(_LETTERS) else MANY
                for (name, _), key in zip(jobs, keys, strict=True)
            },
            {name: f"job{order[key] % JOB_LOOKS}" for (name, _), key in zip(jobs, keys, strict=True)},
        )

    def known_as(self, aliases: Mapping[str, str]) -> Tags:
        """The same letters, also under other names: (alias → job)."""
        return Tags(
            {**self.letters, **{alias: self.letters[job] for alias, job in aliases.items() if job in self.letters}},
            {**self.looks, **{alias: self.looks[job] for alias, job in aliases.items() if job in self.looks}},
        )

    def letter(self, job: str) -> str:
        """The job's letter; nothing for a job that has none."""
        return self.letters.get(job, "")

    def look(self, job: str) -> tuple[str, ...]:
        """The job's colour."""
        look = self.looks.get(job)
        return () if look is None else (look,)

    def painted(self, job: str, style: Style) -> str:
        """The job's letter in its colour."""
        return style.paint(self.letter(job), "bold", *self.look(job))

    def range(self, jobs: Sequence[str]) -> str:
        """`A`, or `C–F` for several."""
        letters = list(dict.fromkeys(self.letter(job) for job in jobs if self.letter(job)))
        more = [MANY] if MANY in letters else []
        letters = sorted((letter for letter in letters if letter != MANY), key=_LETTERS.index)
        if len(letters) > 1:
            letters = [f"{letters[0]}–{letters[-1]}"]
        return " ".join([*letters, *more])
