"""Which state of its source a job ran, as far as git tells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The source at the start of an attempt."""

    commit: str
    """The commit that was checked out, 40 or 64 hex digits."""
    dirty: bool | None = None
    """Whether files that git knows differed from it; `None`: git was not there, or took too long."""
    changes: str = ""
    """Short digest of that difference: the same edits give the same."""

    def same(self, other: Code) -> bool:
        """Whether both are one state, as far as is known of both."""
        if self.commit != other.commit:
            return False
        if self.dirty is None or other.dirty is None:
            return True
        return (self.dirty, self.changes) == (other.dirty, other.changes)

    def __str__(self) -> str:
        mark = "" if not self.dirty else f" + edits {self.changes[:8]}"
        return f"{self.commit[:10]}{mark}"
