"""Notes with each attempt which code it ran, while its container is made: looking for edits takes git a moment."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from migctl.core.code import Code
from migctl.core.runs.record import Record
from migctl.engine.launch import LaunchPad
from migctl.errors import MigctlError
from migctl.host.gitstate import code_of
from migctl.store.ledger import Ledger


class CodeReading:
    """The state of the source at this moment, read beside everything else.

    Args:
        pad: of the jobs that are about to start.
        jobs: their names.
    """

    def __init__(self, pad: LaunchPad, jobs: Sequence[str]) -> None:
        self._pad = pad
        self._found: Code | None = None
        self._thread: threading.Thread | None = None
        if any(job not in pad.copies for job in jobs):
            self._thread = threading.Thread(target=self._read, daemon=True)
            self._thread.start()

    def _read(self) -> None:
        with suppress(OSError):
            self._found = code_of(Path(self._pad.plan.folder), self._pad.environ)

    def of(self, job: str) -> Code | None:
        """What this job runs; waits for the reading, which has an end."""
        copy = self._pad.copies.get(job)
        if copy is not None:
            return self._pad.codes.get(copy)
        if self._thread is not None:
            self._thread.join()
        return self._found


def note_code(ledger: Ledger, reading: CodeReading, records: Mapping[str, Record]) -> Mapping[str, Record]:
    """The records with their code, written down where that can be: a job is not ended for want of it."""
    fresh: dict[str, Record] = {}
    for name, record in records.items():
        code = reading.of(name)
        if code is not None:
            fresh[name] = replace(record, code=code, revision=record.revision + 1)
    try:
        ledger.save(list(fresh.values()), durable=False)
    except MigctlError:
        return records
    return {**records, **fresh}
