"""Reading GPUs side by side: one that never answers is left behind and keeps neither the others nor the process from ending."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from migctl.core.gpu.mig import Gpu
from migctl.errors import MigctlError
from migctl.nvml.errors import no_answer

Key = int | str
"""A GPU's index, or its UUID while the index is not known."""


class Readers:
    """Threads that read GPUs, among them those whose call has not come back yet.

    Args:
        answer_timeout_s: how long a GPU may take.
    """

    def __init__(self, answer_timeout_s: float) -> None:
        self._answer_timeout_s = answer_timeout_s
        self._stuck: dict[Key, threading.Thread] = {}

    @property
    def any_stuck(self) -> bool:
        """Whether a call has still not returned."""
        return any(thread.is_alive() for thread in self._stuck.values())

    def read(self, looks: Mapping[Key, Callable[[], Gpu]]) -> tuple[dict[Key, Gpu], dict[Key, MigctlError]]:
        """The GPUs that answered, and why the others did not; one whose last call has not returned is not asked again.

        Raises:
            Exception: a bug in reading; a GPU is never missing without a word.
        """
        found: dict[Key, Gpu] = {}
        failed: dict[Key, MigctlError] = {}
        bugs: list[Exception] = []

        def look(key: Key) -> None:
            try:
                found[key] = looks[key]()
            except MigctlError as error:
                failed[key] = error
            except Exception as bug:  # noqa: BLE001 -- raised below, where somebody hears it
                bugs.append(bug)

        self._stuck = {key: thread for key, thread in self._stuck.items() if thread.is_alive()}
        threads = {
            key: threading.Thread(target=look, args=(key,), daemon=True) for key in looks if key not in self._stuck
        }
        deadline = time.monotonic() + self._answer_timeout_s
        for thread in threads.values():
            thread.start()
        for key, thread in threads.items():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self._stuck[key] = thread
        if bugs:
            raise bugs[0]
        silent = {key: no_answer(str(key), self._answer_timeout_s) for key in looks if key in self._stuck}
        return {key: gpu for key, gpu in found.items() if key not in silent}, {**failed, **silent}
