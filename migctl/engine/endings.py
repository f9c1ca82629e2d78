"""Tells why failed jobs have failed, where their log, the kernel's log or the engine knows more than the exit code."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from migctl.core.ending.exit_codes import OOM_FLAG, exit_words
from migctl.core.gpu.mig import Gpu
from migctl.core.memory import auto_limit_bytes
from migctl.core.runs.record import JobState, Record
from migctl.errors import MigctlError
from migctl.host.procfs import memory_total_mib
from migctl.runtimes.api import Runtime
from migctl.runtimes.logfile import read_log
from migctl.store.ledger import Ledger

if TYPE_CHECKING:
    from migctl.core.ending.kernel_events import KernelEvent

_LINES: Final = 300
_BYTES: Final = 1 << 16
_LATE_S: Final = 5.0
"""The kernel may write a little before the job's start is noted, and after its end."""
_WORKER: Final = re.compile(r"\bworker \(pid(?:\(s\))? (?P<pids>\d+(?:, \d+)*)\)")
"""PyTorch names the worker that was killed; of a process these are the machine's pids, of a container its own."""


def explain(
    records: Mapping[str, Record], *, runtime: Runtime, ledger: Ledger, gpus: Sequence[Gpu], now: Callable[[], float]
) -> dict[str, Record]:
    """The same records; those of failed jobs with the reason that can be found out. Costs nothing where none has failed.

    Once a record with its reason is written, nobody looks again.
    """
    unclear = [name for name, record in records.items() if _unclear(record)]
    if not unclear:
        return dict(records)
    kernel = _kernel(now)
    from migctl.core.gpu.mps import with_company

    return with_company(
        {
            name: _explained(record, _tail(record, runtime, ledger), kernel, gpus) if name in unclear else record
            for name, record in records.items()
        }
    )


def _unclear(record: Record) -> bool:
    """Whether its reason says no more than its exit code."""
    if record.state is not JobState.FAILED or record.exit_code is None:
        return False
    return record.reason in (None, OOM_FLAG, exit_words(record.exit_code))


def _explained(
    record: Record, tail: str, kernel: tuple[Sequence[KernelEvent], float] | None, gpus: Sequence[Gpu]
) -> Record:
    # Only who has a failed job needs the table of texts.
    from migctl.core.ending.causes import Cause
    from migctl.core.ending.endings import Facts, ending

    code = record.exit_code
    found = ending(
        Facts(
            exit_code=code,
            tail=tail,
            oom_flag=record.reason == OOM_FLAG,
            kernel=_meanwhile(record, kernel),
            pids=_pids(record, tail),
            container_id=record.container_id if record.container_id and "/" not in record.container_id else None,
            pci=next((gpu.pci_bus_id for gpu in gpus if gpu.uuid == record.gpu_uuid), None),
            memory_limit_mib=_memory_limit_mib(record),
            shm_mib=_mib(record, "shm_size_bytes"),
            profile=record.profile,
            memory_mib=record.memory_mib,
        )
    )
    if found is None:
        return record
    reason = found.reason if found.sure else f"probably {found.reason}"
    if found.cause is Cause.EXCEPTION and code is not None:
        reason = f"{exit_words(code)}: {reason}"
    return replace(record, cause=found.cause, reason=f"{reason}; {found.hint}" if found.hint else reason)


def _memory_limit_mib(record: Record) -> int | None:
    """The job's own limit; `auto` was this part of RAM when it started, and is the same now."""
    if not _said(record).get("mem_limit_auto"):
        return _mib(record, "mem_limit_bytes")
    total = memory_total_mib(Path("/"))
    return None if total is None else auto_limit_bytes(len(record.cpus), os.cpu_count() or 1, total) >> 20


def _mib(record: Record, key: str) -> int | None:
    """A size in the job's spec."""
    size = _said(record).get(key)
    return size >> 20 if isinstance(size, int) else None


def _said(record: Record) -> dict[str, object]:
    """The job's spec; empty where it cannot be read."""
    try:
        spec = json.loads(record.spec or "{}")
    except ValueError:
        return {}
    return spec if isinstance(spec, dict) else {}


def _pids(record: Record, tail: str) -> frozenset[int]:
    own = {record.pid} if record.pid is not None else set()
    if record.container_id is not None and "/" in record.container_id:
        own |= {int(pid) for found in _WORKER.finditer(tail) for pid in found["pids"].split(", ")}
    return frozenset(own)


def _tail(record: Record, runtime: Runtime, ledger: Ledger) -> str:
    """The end of its log; nothing where it cannot be read."""
    saved = str(ledger.folder(record.run, record.job, record.attempt) / "log")
    data = b""
    try:
        if record.container_id is not None:
            data = _end(runtime.logs(record.container_id, follow=False, tail=_LINES))
    except MigctlError:
        pass  # the container is gone: what was saved of it is as good
    try:
        data = data or _end(read_log(saved, tail=_LINES))
    except OSError:
        pass
    return data.decode("utf-8", "replace")


def _end(chunks: Iterator[bytes]) -> bytes:
    data = b""
    for chunk in chunks:
        data = (data + chunk)[-_BYTES:]
    return data


def _kernel(now: Callable[[], float]) -> tuple[Sequence[KernelEvent], float] | None:
    """What the kernel says of jobs, and the Unix time of its boot; `None` where its log cannot be read."""
    from migctl.core.ending.kernel_events import kernel_events
    from migctl.host.kernellog import kernel_records

    records = kernel_records()
    return (tuple(kernel_events(records)), now() - time.monotonic()) if records is not None else None


def _meanwhile(record: Record, kernel: tuple[Sequence[KernelEvent], float] | None) -> Sequence[KernelEvent] | None:
    if kernel is None:
        return None
    events, boot_s = kernel
    begun = (record.started_at or 0.0) - _LATE_S
    ended = (record.finished_at or record.started_at or 0.0) + _LATE_S
    return [event for event in events if begun <= boot_s + event.at_s <= ended]
