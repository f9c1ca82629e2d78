"""The common end of `up` and `down`: run chains with the run's launch and log places, and undo what must not stay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from migctl.core.events import Event
from migctl.core.reconcile import steps_down
from migctl.core.record import Action, Record
from migctl.core.steps import Chain, chain
from migctl.engine.execute import Executor, Outcome
from migctl.engine.launch import LaunchPad
from migctl.engine.observe import Look, look
from migctl.engine.session import Session
from migctl.nvml.driver import Driver
from migctl.runtimes.api import Launch, Runtime
from migctl.store.ledger import Ledger


@dataclass(kw_only=True)
class Workshop:
    """What is open while a run is being changed."""

    session: Session
    driver: Driver
    runtime: Runtime
    ledger: Ledger
    report: Callable[[Event], None]
    cancel: threading.Event = field(default_factory=threading.Event)
    """Set by a signal: present steps are finished, no other is begun."""

    def look(self, run: str) -> Look:
        """Observe the run now."""
        return look(self.session, self.driver, self.runtime, self.ledger, run)

    def folder(self, record: Record) -> Path:
        """Where the attempt's files lie."""
        return self.ledger.folder(record.run, record.job, record.attempt)

    def bring_up(self, chains: Sequence[Chain], records: Mapping[str, Record], seen: Look, pad: LaunchPad) -> Outcome:
        """Run the chains of `up`; the first failure lets all others finish their step and stop."""
        return self._executor(seen, self.cancel, pad=pad).run(chains, records)

    def take_down(
        self,
        records: Mapping[str, Record],
        seen: Look,
        *,
        grace_s: float | None = None,
        hurry: threading.Event | None = None,
    ) -> Outcome:
        """Undo what these settled records stand for; one failure does not keep the others from being undone.

        Records whose everything is gone are dropped from the run; those that could not be undone stay.
        """
        chains = [steps_down(record, seen.observed) for record in records.values()]
        executor = self._executor(seen, threading.Event(), hurry=hurry, grace_s=grace_s, stop_all_on_error=False)
        outcome = executor.run(chains, records)
        for name, record in outcome.records.items():
            if name not in outcome.errors and _nothing_left(record):
                self.ledger.drop(record.run, name)
        return outcome

    def stop(self, records: Mapping[str, Record], seen: Look, *, grace_s: float | None) -> Outcome:
        """End these jobs and keep everything else of them."""
        executor = self._executor(seen, threading.Event(), hurry=self.cancel, grace_s=grace_s, stop_all_on_error=False)
        return executor.run([chain(name, Action.STOP) for name in records], records)

    def _executor(
        self,
        seen: Look,
        cancel: threading.Event,
        *,
        pad: LaunchPad | None = None,
        hurry: threading.Event | None = None,
        grace_s: float | None = None,
        stop_all_on_error: bool = True,
    ) -> Executor:
        def launch(record: Record) -> Launch:
            assert pad is not None, "only chains of `up` start anything"
            return pad.launch(record, self.folder(record))

        return Executor(
            driver=self.driver,
            runtime=self.runtime,
            ledger=self.ledger,
            report=self.report,
            launch=launch,
            log_path=lambda record: str(self.folder(record) / "log"),
            grace_s=lambda record: record.grace_s if grace_s is None else grace_s,
            boot_id=seen.observed.boot_id,
            gpus={gpu.uuid: gpu for gpu in seen.observed.gpus},
            stop_all_on_error=stop_all_on_error,
            cancel=cancel,
            hurry=hurry or threading.Event(),
        )


def _nothing_left(record: Record) -> bool:
    return record.container_id is None and (record.instance is None or record.instance.foreign)
