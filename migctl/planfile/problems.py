"""All mistakes of one plan, collected so that they are reported at once."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from migctl.errors import MigctlError, Notice, PlanError, Problems, Where
from migctl.planfile.source import Source

MOST = 100
"""Beyond this many the first ones are enough to work on."""


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The hint for a misspelt word, or nothing."""
    known = tuple(known)
    word = word.lower() if all(other.islower() for other in known) else word
    near = get_close_matches(word, sorted(known), n=3, cutoff=0.6)
    swapped = (other for other in near if sorted(other) == sorted(word))
    return f"did you mean {next(swapped, near[0])}?" if near else None


class Refusal(ValueError):  # noqa: N818 -- raised inside field types; becomes a PlanError with the field's name and place
    """A value that a field does not take.

    Args:
        message: the rest of a sentence that starts with the key (`must be …`), or a whole one with `whole`.
        hint: what to write instead.
        id: kebab-case kind.
        offset: a better place than the value's start.
        whole: `message` is a sentence of its own.
    """

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        id: str = "bad-value",  # noqa: A002 -- the error's field of that name
        offset: int | None = None,
        whole: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.id = id
        self.offset = offset
        self.whole = whole


class Report:
    """Errors and notices of one plan; equal ones (from variants of one job) are kept once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._errors: dict[tuple[str, str, Where | str | None], MigctlError] = {}
        self._notices: dict[tuple[str, str], Notice] = {}
        self._places: dict[int, Where] = {}

    def place(self, offset: int) -> Where | None:
        """The place of an offset; values that came from the command line have none."""
        if offset < 0:
            return None
        if offset not in self._places:
            self._places[offset] = self.source.where(offset)
        return self._places[offset]

    def error(self, kind: str, message: str, offset: int = -1, hint: str | None = None) -> None:
        """Add a mistake at an offset of the file."""
        self.add(PlanError(kind, message, where=self.place(offset), hint=hint))

    def add(self, error: MigctlError) -> None:
        """Add a mistake that knows its place."""
        for one in error.all:
            self._errors.setdefault((one.id, one.message, one.where), one)

    def notice(self, kind: str, message: str, offset: int = -1, hint: str | None = None) -> None:
        """Add something that the user should know."""
        if (kind, message) not in self._notices:
            self._notices[kind, message] = Notice(kind, message, hint, self.place(offset))

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return bool(self._errors)

    @property
    def errors(self) -> tuple[MigctlError, ...]:
        """In the order in which they were found."""
        return tuple(self._errors.values())

    @property
    def notices(self) -> tuple[Notice, ...]:
        """In the order in which they were found."""
        return tuple(self._notices.values())

    def finish(self) -> None:
        """Raise what was collected.

        Raises:
            Problems: there is at least one error; in the file's order.
        """
        if not self._errors:
            return
        errors = sorted(self._errors.values(), key=_order)
        if len(errors) > MOST:
            more = PlanError("more-problems", f"and {len(errors) - MOST} further problems", where=self.source.name)
            errors = [*errors[:MOST], more]
        raise Problems(errors)


def _order(error: MigctlError) -> tuple[bool, str, int, int]:
    place = error.where
    if isinstance(place, Where):
        return False, "", place.line, place.column
    return True, place or "", 0, 0
