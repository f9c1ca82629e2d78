"""Which user of the machine a user inside a container is: engines without root, and those that remap users, shift the numbers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class IdRange:
    """User ids, or group ids (user_namespaces(7))."""

    root: int = 0
    """What 0 inside is outside."""
    others: int | None = 1
    """What 1 inside is outside, the rest following; `None` = not known."""

    def outside(self, inside: int) -> int | None:
        """The machine's number; `None` = not known."""
        if inside == 0:
            return self.root
        return self.others + inside - 1 if self.others is not None else None


@dataclass(frozen=True, slots=True)
class IdMap:
    """Both of an engine's; by default nothing is shifted."""

    uids: IdRange = field(default_factory=IdRange)
    gids: IdRange = field(default_factory=IdRange)

    @property
    def shifts(self) -> bool:
        """Root inside is somebody else outside."""
        return self.uids.root != 0
