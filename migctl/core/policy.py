"""What the administrator of a machine allows: rules for everybody, for groups and for single users."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Generic, TypeVar

from migctl.core.plan import GpuSelector
from migctl.errors import Where

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Rule(Generic[V]):
    """One line of the policy."""

    name: str
    """As it stands in the file, with the override it belongs to: `max_slices`, `users.anna.max_slices`."""
    value: V
    where: Where


@dataclass(frozen=True, slots=True)
class MountRule:
    """A folder of the host below which jobs may mount."""

    path: str
    """Absolute, links resolved."""
    read_only: bool = False
    """Only read-only mounts are allowed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for one user; a rule that is not there allows everything."""

    gpu: Rule[tuple[GpuSelector, ...]] | None = None
    """GPUs that may be used."""
    reserve_cores: Rule[int] | None = None
    """Physical cores that no job gets."""
    reserve_memory: Rule[int] | None = None
    """MiB of RAM that the limits of all users' containers together leave."""
    max_slices: Rule[int] | None = None
    """Compute slices that the user holds at the same time, in all runs together."""
    max_cores: Rule[int] | None = None
    """Physical cores, likewise."""
    enable_mig: Rule[bool] | None = None
    """Whether the MIG mode of a GPU may be changed."""
    mounts: Rule[tuple[MountRule, ...]] | None = None
    images: Rule[tuple[str, ...]] | None = None
    """Patterns with `*`, `?` and `[…]`; without a tag, any tag."""

    @property
    def given(self) -> tuple[Rule[object], ...]:
        """The rules that there are."""
        return tuple(rule for f in fields(self) if (rule := getattr(self, f.name)) is not None)

    def before(self, other: Rules) -> Rules:
        """These rules, and the other's where there is none."""
        missing = {f.name: getattr(other, f.name) for f in fields(self) if getattr(self, f.name) is None}
        return replace(self, **missing)


RULES = tuple(f.name for f in fields(Rules))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A whole policy file."""

    file: str
    owner: str
    """The user whose file it is."""
    contact: str | None = None
    """Whom to ask, as the file says."""
    everybody: Rules = field(default_factory=Rules)
    users: Mapping[str, Rules] = field(default_factory=dict)
    """By name or uid."""
    groups: Mapping[str, Rules] = field(default_factory=dict)
    """By name, in the file's order."""

    def of(self, user: str, uid: int, groups: Collection[str]) -> Rules:
        """What holds for a user: for each rule his own entry, else the first group's of the file, else everybody's."""
        found = Rules()
        for name in (user, str(uid)):
            found = found.before(self.users.get(name, Rules()))
        for name, rules in self.groups.items():
            if name in groups:
                found = found.before(rules)
        return found.before(self.everybody)

    @property
    def ask(self) -> str:
        """Whom to ask for an exception."""
        return f"{self.contact} (the policy is {self.owner}'s)" if self.contact else self.owner
