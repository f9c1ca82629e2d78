"""Records, runs, queues and submissions as JSON and back, field by field; what is not exactly one of ours is a ValueError."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, cast

from migctl.core.queueing.entries import Queue
from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.store.form import Form, form, shown

if TYPE_CHECKING:
    from migctl.core.cluster.clusterrun import ClusterRun
    from migctl.core.queueing.submission import Submission

FORMAT = 1
"""Version of the JSON in owner files; raised when an older migctl would misread it."""
_REMEMBERED = 4096
"""Records, of about 2 KiB each."""


class TooNew(ValueError):  # noqa: N818 -- says what the text is
    """The text was written by a newer migctl."""


def encode_record(record: Record) -> str:
    """The record as one line of ASCII JSON."""
    return _text("record", _record().encode(record))


def decode_record(text: str | bytes) -> Record:
    """Read what `encode_record` wrote.

    Raises:
        TooNew: written by a newer migctl.
        ValueError: anything else that is not a record; the message says where it is wrong.
    """
    return _decoded((text if isinstance(text, bytes) else text.encode()).rstrip(b"\n"))


@lru_cache(maxsize=_REMEMBERED)
def _decoded(text: bytes) -> Record:
    """A supervisor reads the same records over and over."""
    return _record().decode(_opened(_parsed(text), "record"))


def decode_records(texts: Iterable[str]) -> list[Record]:
    """Read many; of very many none is remembered, and the parser is called once. Raises as `decode_record`."""
    texts = list(texts)
    if len(texts) <= _REMEMBERED // 2:
        return [decode_record(text) for text in texts]
    values = _parsed("[" + ",".join(texts) + "]")
    assert isinstance(values, list), "a text that closes the bracket does not parse with another one around it"
    decode = _record().decode
    return [decode(_opened(value, "record")) for value in values]


def encode_run(run: Run) -> str:
    """The run as one line of ASCII JSON."""
    return _text("run", _run().encode(run))


def decode_run(text: str | bytes) -> Run:
    """Read what `encode_run` wrote. Raises as `decode_record`."""
    return _run().decode(_opened(_parsed(text), "run"))


def encode_queue(queue: Queue) -> str:
    """The queue's notes as one line of ASCII JSON."""
    return _text("queue", _queue().encode(queue))


def decode_queue(text: str | bytes) -> Queue:
    """Read what `encode_queue` wrote. Raises as `decode_record`."""
    return _queue().decode(_opened(_parsed(text), "queue"))


def encode_submission(submission: Submission) -> str:
    """The submission as one line of ASCII JSON."""
    return _text("submission", _submission().encode(submission))


def decode_submission(text: str | bytes) -> Submission:
    """Read what `encode_submission` wrote. Raises as `decode_record`."""
    return _submission().decode(_opened(_parsed(text), "submission"))


def encode_cluster(run: ClusterRun) -> str:
    """A run on a cluster as one line of ASCII JSON."""
    return _text("cluster", _cluster().encode(run))


def decode_cluster(text: str | bytes) -> ClusterRun:
    """Read what `encode_cluster` wrote. Raises as `decode_record`."""
    return _cluster().decode(_opened(_parsed(text), "cluster"))


def _text(key: str, value: object) -> str:
    return json.dumps({"version": FORMAT, key: value}, separators=(",", ":"), allow_nan=False)


def _parsed(text: str | bytes) -> object:
    try:
        return cast("object", json.loads(text, parse_constant=_no_constant))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _opened(value: object, key: str) -> object:
    if type(value) is not dict:
        raise ValueError(f"expected a JSON object, got {shown(value)}")
    version = value.get("version")
    if type(version) is not int or version < 1:
        raise ValueError("without a version number")
    if version > FORMAT:
        raise TooNew(f"has format {version}, this migctl reads up to {FORMAT}")
    if value.keys() != {"version", key}:
        raise ValueError(f"expected the keys version and {key}")
    return value[key]


@cache
def _record() -> Form[Record]:
    """Made at the first use: deriving it takes longer than reading a few records."""
    return form(Record)


@cache
def _run() -> Form[Run]:
    return form(Run)


@cache
def _queue() -> Form[Queue]:
    return form(Queue)


@cache
def _submission() -> Form[Submission]:
    # Whoever only looks reads no plan.
    from migctl.core.queueing.submission import Submission

    return form(Submission)


@cache
def _cluster() -> Form[ClusterRun]:
    from migctl.core.cluster.clusterrun import ClusterRun

    return form(ClusterRun)
