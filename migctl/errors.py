"""The tree of errors: one exit code a branch; message, place and way out are data, the renderer writes the text.

MigctlError
├── PlanError         2   the plan file or the command line is wrong
├── DoesNotFit        3   it can never fit, or (without a queue) does not fit now
├── HostError         4   this host cannot: no driver, pending mode, missing image, not permitted …
├── Busy              5   try later: a lock, a holder, a stranger's name, a wait that timed out
├── PartlyApplied     6   something was changed and not everything could be finished
├── Drift             7   `status --check` found that reality differs from the plan
├── JobsFailed        8   a job failed, was stopped or is lost
├── Interrupted     130   Ctrl-C (143 for SIGTERM, 129 for SIGHUP)
└── Problems              several of the above at once; exit code of the first
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a text file; `line` and `column` count from 1, 0 means the whole file."""

    file: str
    line: int = 0
    column: int = 0
    excerpt: str = ""
    """The offending line as it stands in the file, for the caret."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class MigctlError(Exception):
    """Base of all expected errors; never raised itself.

    Args:
        id: kebab-case name of the kind, stable: documentation and `--json` use it (`no-daemon`).
        message: what is wrong and why, one or two sentences, no trailing newline.
        where: file position for plans, else a name (`job train-a`, `GPU 0`), else nothing.
        hint: the next command or change that helps.
        data: facts for programs, JSON-compatible.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        id: str,  # noqa: A002 -- the JSON field of the design is called id
        message: str,
        *,
        where: Where | str | None = None,
        hint: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.id = id
        self.message = message
        self.where = where
        self.hint = hint
        self.data: Mapping[str, object] = data or {}

    def __reduce__(self) -> tuple[object, ...]:
        """For another process; an exception is otherwise made again from its message alone."""
        return _again, (type(self), self.args, vars(self))

    @property
    def all(self) -> tuple[MigctlError, ...]:
        """Every single error in here (itself, unless it is a collection)."""
        return (self,)


def _again(kind: type[MigctlError], args: tuple[object, ...], state: Mapping[str, object]) -> MigctlError:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(state)
    return error


class PlanError(MigctlError):
    """The plan file or the command line is wrong; nothing was changed."""

    exit_code = 2


class DoesNotFit(MigctlError):  # noqa: N818 -- reads as the sentence it is
    """No layout exists for what was asked; nothing was changed."""

    exit_code = 3


class HostError(MigctlError):
    """This host cannot do it now: driver, mode, rights, engine or image is missing."""

    exit_code = 4


class Busy(MigctlError):  # noqa: N818
    """Somebody else has it; the same command can succeed later."""

    exit_code = 5


class PartlyApplied(MigctlError):  # noqa: N818
    """Something was changed and not everything could be finished; `hint` names the command that recovers."""

    exit_code = 6


class Drift(MigctlError):  # noqa: N818
    """Reality differs from what the run recorded."""

    exit_code = 7


class JobsFailed(MigctlError):  # noqa: N818
    """At least one job failed, was stopped or is lost."""

    exit_code = 8


class Interrupted(MigctlError):  # noqa: N818
    """A signal ended the command; what this call had made is undone or named."""

    exit_code = 130


class Problems(MigctlError):  # noqa: N818
    """Several errors found at once, e.g. every mistake of a plan file."""

    def __init__(self, errors: Sequence[MigctlError]) -> None:
        first = errors[0]
        super().__init__(first.id, first.message, where=first.where, hint=first.hint, data=first.data)
        self.errors: tuple[MigctlError, ...] = tuple(e for error in errors for e in error.all)
        self.exit_code = first.exit_code  # type: ignore[misc]  # the one collection takes its first error's code

    @property
    def all(self) -> tuple[MigctlError, ...]:
        """Every single error in here."""
        return self.errors


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know that stops nothing."""

    id: str
    message: str
    hint: str | None = None
    where: Where | str | None = None
