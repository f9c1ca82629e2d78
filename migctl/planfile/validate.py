"""From nodes to models, with pydantic's findings turned into errors at their places."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from migctl.planfile.keys import is_extension, refusal
from migctl.planfile.nodes import Mapping as MappingNode
from migctl.planfile.nodes import Node, Scalar, Sequence
from migctl.planfile.problems import Refusal, Report
from migctl.planfile.scalars import is_null

Model = TypeVar("Model", bound=BaseModel)


def known_entries(
    node: MappingNode, report: Report, known: Iterable[str], *, in_job: bool, elsewhere: Iterable[str] = ()
) -> dict[str, Node]:
    """The entries with a known key and a value; unknown keys go to the report, empty values count as absent.

    Args:
        elsewhere: keys of a plan where these are a job's, and the other way round.
    """
    known, elsewhere = tuple(known), tuple(elsewhere)
    found: dict[str, Node] = {}
    for key, value in node.entries.items():
        if key in known:
            if not is_null(value):
                found[key] = value
        elif not is_extension(key) and (reason := refusal(key, value, in_job=in_job, known=known, elsewhere=elsewhere)):
            report.error(reason.id, reason.message, node.keys[key].start, reason.hint)
    return found


def validated(model: type[Model], entries: Mapping[str, Node], report: Report) -> tuple[Model, frozenset[str]]:
    """The model of these entries, and the keys that are wrong and therefore left out of it."""
    wrong: set[str] = set()
    try:
        with nullcontext() if model.__pydantic_complete__ else _no_plugins():
            made = model.model_validate(entries)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            wrong.add(str(detail["loc"][0]))
            _add(detail, entries, report)
        good = {key: value for key, value in entries.items() if key not in wrong}
        made = model.model_validate(good)
    return made, frozenset(wrong)


@contextmanager
def _no_plugins() -> Iterator[None]:
    """Of whatever else is installed beside migctl nothing has a say in plans, nor in how long reading one takes.

    pydantic looks for plugins when it builds a model, which it does with its first use.
    """
    name = "PYDANTIC_DISABLE_PLUGINS"
    before = os.environ.get(name)
    os.environ[name] = "__all__"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _add(detail: ErrorDetails, entries: Mapping[str, Node], report: Report) -> None:
    node = (
        detail["input"]
        if isinstance(detail["input"], (Scalar, Sequence, MappingNode))
        else entries.get(str(detail["loc"][0]))
    )
    offset = node.start if node is not None else -1
    subject = _subject(detail["loc"])
    refused = detail.get("ctx", {}).get("error")
    if isinstance(refused, Refusal):
        message = refused.message if refused.whole else f"{subject} {refused.message}"
        report.error(refused.id, message, offset if refused.offset is None else refused.offset, refused.hint)
    else:
        report.error("bad-value", f"{subject}: {detail['msg'][:1].lower()}{detail['msg'][1:]}", offset)


def _subject(loc: tuple[int | str, ...]) -> str:
    first, *rest = loc
    return str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)
