"""The common end of `up` and `down`: run chains with the run's launch and log places, and undo what must not stay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from migctl.core.choices import RuntimeName
from migctl.core.others.holders import Purpose, Sighting
from migctl.core.runs.events import Event, NoteEvent
from migctl.core.runs.ownership import in_doubt
from migctl.core.runs.reconcile import steps_down
from migctl.core.runs.record import Action, JobState, Record
from migctl.core.runs.steps import Chain, chain
from migctl.engine.codes import CodeReading, note_code
from migctl.engine.execute import Executor, Outcome
from migctl.engine.holders.heldmachine import HeldMachine, stepped_back
from migctl.engine.holders.holding import Patience, Vigil, sight
from migctl.engine.launch import LaunchPad, unit_name
from migctl.engine.mpsdaemons import start_daemons, stop_daemon_of, stop_daemons
from migctl.engine.observe import Look, look
from migctl.engine.session import Session
from migctl.errors import Interrupted, MigctlError
from migctl.nvml.driver import Driver
from migctl.nvml.refusals import is_in_use
from migctl.runtimes.api import Runtime
from migctl.runtimes.launch import Launch
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
    wait_for_s: float = 0.0
    """How long to wait for those who hold what is to be made or removed (`--wait-for`)."""
    machine: HeldMachine = field(default_factory=HeldMachine)
    """Of a command that has the machine all the time, but for what it waits for."""
    destroying: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered around the removal of an instance, where the command does not hold the machine all the time."""
    unrecorded: list[MigctlError] = field(default_factory=list, init=False)
    """Why records of a removal could not be written, once for each."""
    _daemons: threading.Lock = field(default_factory=threading.Lock, init=False)
    """Jobs that share an instance start side by side, and one daemon serves them."""

    def look(self, run: str) -> Look:
        """Observe the run now."""
        return look(self.session, self.driver, self.runtime, self.ledger, run)

    def folder(self, record: Record) -> Path:
        """Where the attempt's files lie."""
        return self.ledger.folder(record.run, record.job, record.attempt)

    def bring_up(
        self,
        chains: Sequence[Chain],
        records: Mapping[str, Record],
        seen: Look,
        pad: LaunchPad,
        *,
        stop_all_on_error: bool = True,
    ) -> Outcome:
        """Run the chains of jobs that start; of `up` the first failure lets all others finish their step and stop."""
        executor = self._executor(
            seen,
            self.cancel,
            others=_beside(seen, records),
            pad=pad,
            wait_s=self.wait_for_s,
            stop_all_on_error=stop_all_on_error,
        )
        start_daemons(self.session, pad.plan, [records[chain.job] for chain in chains])
        reading = CodeReading(pad, [chain.job for chain in chains])
        outcome = executor.run(chains, records)
        begun = {c.job: outcome.records[c.job] for c in chains if outcome.records[c.job].started_at is not None}
        return replace(outcome, records={**outcome.records, **note_code(self.ledger, reading, begun)})

    def clear(self, chains: Sequence[Chain], records: Mapping[str, Record], seen: Look) -> Outcome:
        """Run chains that only remove; the jobs' records stay."""
        executor = self._executor(
            seen, threading.Event(), others=_beside(seen, records), stop_all_on_error=False, removing=True
        )
        return executor.run(chains, records)

    def take_down(
        self,
        records: Mapping[str, Record],
        seen: Look,
        *,
        grace_s: float | None = None,
        hurry: threading.Event | None = None,
    ) -> Outcome:
        """Undo what these settled records stand for; one failure does not keep the others from being undone.

        Records whose everything is gone are dropped from the run; those that could not be undone stay. Where somebody holds an
        instance, the others are undone, and then it is waited for, with no GPU open meanwhile.
        """
        outcome = self._take_down(records, seen, grace_s=grace_s, hurry=hurry)
        vigil = Vigil(
            purpose=Purpose.DESTROY,
            wait_s=self.wait_for_s,
            say=lambda text: self.report(NoteEvent(text)),
            away=partial(stepped_back, self.driver, self.machine),
        )
        while held := {name: error for name, error in outcome.errors.items() if is_in_use(error)}:
            if vigil.left_s <= 0:
                break
            if self.cancel.is_set():
                told = _not_waited_for(held) if vigil.told else {}
                return replace(outcome, errors={**outcome.errors, **told})
            vigil.for_an_end(self._who_holds(outcome.records[next(iter(held))]), self.cancel)
            seen = self.look(next(iter(records.values())).run)
            left = {name: seen.records[name] for name in held if name in seen.records}
            again = self._take_down(left, seen, grace_s=grace_s, hurry=hurry, moment_s=0.0)
            others = {name: error for name, error in outcome.errors.items() if name not in held}
            outcome = Outcome(records={**outcome.records, **again.records}, errors={**others, **again.errors})
        return self._without_daemons(outcome)

    def _without_daemons(self, outcome: Outcome) -> Outcome:
        """The MPS daemons that no job needs any more go with the last one."""
        problems = stop_daemons(self.session, self.ledger, self.destroying)
        return replace(outcome, errors={**outcome.errors, "mps": problems[0]}) if problems else outcome

    def who_holds(self, gpu_uuid: str) -> Sighting:
        """Everybody who holds this GPU now, as far as this user can see; nobody where the GPU does not answer any more."""
        try:
            with self.session.ledger(write=False) as ledger:
                return sight(self.session, ledger, self.driver.gpu(gpu_uuid))
        except MigctlError:
            return Sighting()

    def _who_holds(self, record: Record) -> Sighting:
        owned = record.instance
        assert owned is not None, "only an instance can be in use"
        return self.who_holds(owned.gpu_uuid).on(owned.gi_id)

    def _take_down(
        self,
        records: Mapping[str, Record],
        seen: Look,
        *,
        grace_s: float | None,
        hurry: threading.Event | None,
        moment_s: float | None = None,
    ) -> Outcome:
        others = _beside(seen, records)
        chains = [steps_down(record, seen.observed, others.values()) for record in records.values()]
        executor = self._executor(
            seen,
            threading.Event(),
            others=others,
            hurry=hurry,
            grace_s=grace_s,
            stop_all_on_error=False,
            moment_s=moment_s,
            removing=True,
        )
        outcome = executor.run(chains, records)
        doubts = ((name, in_doubt(record, seen.observed)) for name, record in records.items())
        errors: dict[str, MigctlError] = {name: doubt for name, doubt in doubts if doubt is not None}
        errors.update(outcome.errors)
        for name, record in outcome.records.items():
            if name not in errors and _nothing_left(record):
                try:
                    if not self.session.simulated:
                        # Also for a unit that somebody removed by hand: what lay beside it would name a device that is gone.
                        self.runtime.leave(record.container_name or unit_name(record))
                    self._close(record)
                    self.ledger.drop(record.run, name)
                except MigctlError as error:
                    errors[name] = error
        return replace(outcome, errors=errors)

    def _close(self, record: Record) -> None:
        """What goes into the history has ended, also where an `up` that was killed had only written it down."""
        if record.state.ended:
            return
        ended = replace(
            record, state=JobState.STOPPED, reason="taken down before it began", revision=record.revision + 1
        )
        with suppress(MigctlError):  # a full disk keeps the state that it has; the job goes all the same
            self.ledger.save([ended], durable=False)

    def stop(self, records: Mapping[str, Record], seen: Look, *, grace_s: float | None) -> Outcome:
        """End these jobs and keep everything else of them."""
        executor = self._executor(
            seen, threading.Event(), hurry=self.cancel, grace_s=grace_s, stop_all_on_error=False, removing=True
        )
        return executor.run([chain(name, Action.STOP) for name in records], records)

    def _executor(
        self,
        seen: Look,
        cancel: threading.Event,
        *,
        others: Mapping[str, Record] | None = None,
        pad: LaunchPad | None = None,
        hurry: threading.Event | None = None,
        grace_s: float | None = None,
        stop_all_on_error: bool = True,
        moment_s: float | None = None,
        wait_s: float = 0.0,
        removing: bool = False,
    ) -> Executor:
        def launch(record: Record) -> Launch:
            assert pad is not None, "only chains of `up` start anything"
            with self._daemons:
                start_daemons(self.session, pad.plan, [record])
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
            patience=Patience(
                look=self.who_holds,
                uid=self.session.caller.uid,
                moment_s=self.session.moment_s if moment_s is None else moment_s,
                wait_s=wait_s,
                say=lambda text: self.report(NoteEvent(text)),
                machine=self.machine,
            ),
            unrecorded=self.unrecorded.append if removing else None,
            destroying=self.destroying,
            before_destroying=lambda owned: stop_daemon_of(self.session, owned.mig_uuid),
            others=others or {},
            stop_all_on_error=stop_all_on_error,
            cancel=cancel,
            hurry=hurry or threading.Event(),
        )


@contextmanager
def read_only(session: Session, runtime: RuntimeName) -> Iterator[Workshop]:
    """A workshop to look and decide in; nothing can be changed from it."""
    with session.driver() as driver, session.ledger(write=False) as ledger:
        yield Workshop(
            session=session,
            driver=driver,
            runtime=session.runtime(runtime),
            ledger=ledger,
            report=lambda _: None,
        )


def _beside(seen: Look, records: Mapping[str, Record]) -> Mapping[str, Record]:
    """The run's other records."""
    return {name: record for name, record in seen.records.items() if name not in records}


def _not_waited_for(held: Mapping[str, MigctlError]) -> Mapping[str, MigctlError]:
    """The waiting for holders was ended by a signal."""
    return {
        name: Interrupted("interrupted", f"{error.message} (interrupted while waiting for that)", hint=error.hint)
        for name, error in held.items()
    }


def _nothing_left(record: Record) -> bool:
    return record.container_id is None and (record.instance is None or record.instance.foreign)
