"""A CPU quota of a cgroup, as the kernel writes it: so many microseconds in each period, which is so many CPUs' worth of time."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

_NUMBER = re.compile(r"[0-9]{1,18}")


def cpu_quota_of(read: Callable[[str], str | None]) -> Fraction | None:
    """The quota of one group; `None` = no limit.

    `cpu.max` of version 2 has both numbers, with `max` for no limit (Documentation/admin-guide/cgroup-v2.rst); version 1 has two
    files, with -1 (Documentation/scheduler/sched-bwc.rst).

    Args:
        read: the text of a file of the group by its name; `None` where there is none.
    """
    both = read("cpu.max")
    words = (both or "").split() or [(read(f"cpu.cfs_{name}_us") or "").strip() for name in ("quota", "period")]
    if len(words) != 2 or not all(_NUMBER.fullmatch(word) for word in words) or int(words[1]) == 0:
        return None
    return Fraction(int(words[0]), int(words[1]))
