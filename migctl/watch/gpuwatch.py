"""Reads the GPUs now and then in a thread of its own; between two readings no GPU is open.

An open NVML session keeps everybody on the machine from changing a MIG mode or resetting a GPU, and people leave a view open over
night. So NVML is opened for each reading and closed again, by default every five seconds, which is often enough for what GPUs are
asked here (memory, activity, clocks). A GPU that does not answer keeps this thread and nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from migctl.core.seeing.dcgm_text import Where, activities
from migctl.core.seeing.readings import GpuReading, InstanceReading
from migctl.engine.session import Session
from migctl.errors import MigctlError
from migctl.nvml.gauges import read_gauges

EVERY_S: Final = 5.0
_STALE: Final = 3
"""A reading older than so many turns is no reading any more."""
_PAGE: Final = "http://127.0.0.1:9400/metrics"
"""Where dcgm-exporter serves by default; MIGCTL_DCGM_EXPORTER names another page, or nothing for none."""
_PAGE_TIMEOUT_S: Final = 1.0
_PAGE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class GpusSeen:
    """The last reading of all GPUs."""

    gpus: tuple[GpuReading, ...] = ()
    why: str | None = "not read yet"
    """Why there is none."""
    monotonic_s: float = 0.0


@dataclass(kw_only=True)
class GpuWatch:
    """Args: `every_s` between the ends and beginnings of readings; `None` = read only when asked (`read_now`)."""

    session: Session
    every_s: float | None = EVERY_S
    _seen: GpusSeen = field(default_factory=GpusSeen, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _page_why: str = field(default="", init=False)

    def latest(self) -> GpusSeen:
        """The last reading, or why there is none; starts the thread at the first call and never waits."""
        if self.every_s is not None and self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="migctl-gpus")
            self._thread.start()
        seen = self._seen
        if seen.gpus and self.every_s is not None and time.monotonic() - seen.monotonic_s > _STALE * self.every_s + 10:
            return GpusSeen((), "the driver has not answered since the last reading", seen.monotonic_s)
        return seen

    def read_now(self) -> GpusSeen:
        """Open NVML, read, close."""
        try:
            with self.session.driver() as driver:
                gpus = read_gauges(driver, now=self.session.now)
                failures = driver.failures
        except MigctlError as error:
            self._seen = GpusSeen((), error.message, time.monotonic())
            return self._seen
        told = self._dcgm() if any(_lacks(one) for gpu in gpus for one in gpu.instances) else {}
        gpus = tuple(replace(gpu, instances=tuple(self._with_dcgm(one, told) for one in gpu.instances)) for gpu in gpus)
        why = "; ".join(error.message for error in failures) or None
        self._seen = GpusSeen(gpus, why, time.monotonic())
        return self._seen

    def close(self) -> None:
        """End the thread; one that waits for a driver is left behind."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._ended.is_set():
            self.read_now()
            if self._ended.wait(self.every_s):
                return

    def _with_dcgm(self, one: InstanceReading, told: Mapping[Where, float]) -> InstanceReading:
        if not _lacks(one):
            return one
        value = told.get((one.gpu_uuid, one.gi_id))
        if value is None:
            why = f"{one.unknown.get('activity_share', '')}; {self._page_why}".strip("; ")
            return replace(one, unknown={**one.unknown, "activity_share": why})
        rest = {name: why for name, why in one.unknown.items() if name != "activity_share"}
        return replace(one, activity_share=value, activity_source="DCGM", unknown=rest)

    def _dcgm(self) -> Mapping[Where, float]:
        """What an exporter's host engine watches already; nothing is added to what it watches."""
        address = self.session.environ.get("MIGCTL_DCGM_EXPORTER", _PAGE)
        if not address or (self.session.simulated and "MIGCTL_DCGM_EXPORTER" not in self.session.environ):
            self._page_why = "no dcgm-exporter is asked"
            return {}
        try:
            found = activities(_page(address))
        except (OSError, ValueError) as error:
            self._page_why = f"dcgm-exporter does not answer at {address} ({type(error).__name__})"
            return {}
        self._page_why = (
            f"dcgm-exporter at {address} does not tell it (is DCGM_FI_PROF_GR_ENGINE_ACTIVE among its fields?)"
        )
        return found


def _lacks(one: InstanceReading) -> bool:
    return one.activity_share is None


def _page(address: str) -> str:
    """The page's text.

    Raises:
        OSError: nobody answers.
        ValueError: that is no http address.
    """
    from http.client import HTTPConnection, HTTPException
    from urllib.parse import urlsplit

    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{address} is no http:// address")
    connection = HTTPConnection(parts.hostname, parts.port or 80, timeout=_PAGE_TIMEOUT_S)
    try:
        connection.request("GET", parts.path or "/metrics")
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"it answers {answer.status}")
        return answer.read(_PAGE_BYTES).decode("utf-8", "replace")
    except HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()
