"""Tells `migctl tune` how fast a training is: copy this into your own, it needs nothing but Python.

Call `add` once a batch. A line reads `migctl: samples=N wait=SECONDS`: samples finished so far, seconds waited for data so far.
"""

from __future__ import annotations

import os
import time


class Throughput:
    """Counts samples; writes into the file named by MIGCTL_SAMPLES_FILE four times a second, else to stdout: once a
    second, and less often the longer the training runs, so that no log fills up.
    """

    def __init__(self) -> None:
        self.samples, self.wait_s, self._next = 0, 0.0, 0.0
        self._begun, self._path = time.monotonic(), os.environ.get("MIGCTL_SAMPLES_FILE")

    def add(self, samples: int, wait_s: float = 0.0, *, last: bool = False) -> None:
        """Count `samples` more, for which the training loop waited `wait_s`; `last` tells the end whatever the time."""
        self.samples, self.wait_s, now = self.samples + samples, self.wait_s + wait_s, time.monotonic()
        if now < self._next and not last:
            return
        self._next = now + (0.25 if self._path else max(1.0, (now - self._begun) / 60))
        line = f"migctl: samples={self.samples} wait={self.wait_s:.3f}\n"
        if self._path:
            with open(self._path, "a", encoding="utf-8") as file:  # noqa: PTH123 -- one import less to copy
                file.write(line)
        else:
            print(line, end="", flush=True)
