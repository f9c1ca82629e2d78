"""The kernel's log since boot, as far as it is still in its buffer; reading it needs root where kernel.dmesg_restrict is 1."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MOST_RECORDS: Final = 100_000
_RECORD: Final = 8192
"""Bytes of the longest record (Documentation/ABI/testing/dev-kmsg: reading with less fails)."""
_WORTH: Final = (b"oom-kill:constraint=", b"NVRM: Xid")


def kernel_records(path: Path = Path("/dev/kmsg")) -> tuple[str, ...] | None:
    """The records that name a process killed for memory or a GPU's Xid, oldest first; `None` where the log cannot be read.

    Args:
        path: /dev/kmsg, which gives a record a read; an ordinary file with a record a line does for tests.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found: list[str] = []
    try:
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(descriptor, _RECORD)
            except BrokenPipeError:
                continue  # overwritten meanwhile: the next read is the oldest that is left
            except BlockingIOError:
                break
            except OSError:
                return None  # opened, and yet not for everybody (syslog's permission)
            if not record:
                break
            found += [line.decode("utf-8", "replace") for line in record.splitlines() if any(w in line for w in _WORTH)]
    finally:
        os.close(descriptor)
    return tuple(found)
