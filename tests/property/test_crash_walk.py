"""A walk through days of use: ups and downs that are killed anywhere, jobs that end, strangers who come and go, reboots."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from migctl.core.gpu.company import company_of
from migctl.core.runs.ownership import Standing, standing
from migctl.core.runs.record import JobState
from migctl.engine.down import stop_jobs
from migctl.engine.observe import Look
from migctl.engine.queueing.advance import Memory, advance
from migctl.engine.queueing.queued import waiting
from migctl.errors import MigctlError, PartlyApplied
from migctl.nvml.simmodel import SimInstance
from migctl.nvml.simstate import SimState
from tests.support.crash_server import Order, Server, server
from tests.support.crashes import Site, end_jobs, end_process
from tests.support.queue_site import unattended

PROFILES = ("1g.5gb", "2g.10gb", "2g.10gb*2", "3g.20gb")
STRANGE = ("1g.5gb", "2g.10gb", "3g.20gb")
SPECS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(PROFILES), min_size=1, max_size=3)
WHICH = st.integers(0, 11)
"""One of those that are there. What is there depends on clocks and threads, so no strategy may depend on it."""
SEQUENCES, STEPS = 30, 8
"""What takes about half a minute."""


class Days(RuleBasedStateMachine):
    commands: Server

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="migctl-walk-"))
        self.site = Site.make(self.folder, foreign=())
        self.strangers: list[SimInstance] = []
        self.bell = ExitStack()
        self.bell.enter_context(unattended(self.site.session()))

    def teardown(self) -> None:
        try:
            self.site.down()
            assert self.site.gpu_instances() == self.strangers
            assert not self.site.living()
        finally:
            self.bell.close()
            end_jobs(self.folder)
            shutil.rmtree(self.folder)

    @rule(spec=SPECS, replacing=st.booleans(), retry=st.booleans())
    def up(self, spec: dict[str, str], replacing: bool, retry: bool) -> None:
        before = self.site.gpu_instances()
        try:
            self.site.up(spec, replacing=replacing, retry=retry)
        except PartlyApplied:
            raise
        except MigctlError:
            if not replacing and not retry:
                assert [i for i in self.site.gpu_instances() if i not in before] == []
            return
        seen = self.site.settled()
        assert seen is not None
        assert set(spec) <= set(seen.records) | self.waiting(seen)
        unborn = [n for n, r in seen.records.items() if n in spec and r.state in (JobState.QUEUED, JobState.STARTING)]
        assert unborn == []

    def waiting(self, seen: Look) -> set[str]:
        """The jobs in the queue."""
        with self.site.session().ledger(write=False) as ledger:
            return set(waiting(ledger, self.site.run, seen.records.values()))

    @rule()
    def the_supervisor_takes_a_turn(self) -> None:
        advance(self.site.session(), self.site.run, Memory(), report=lambda _: None, cancel=threading.Event())

    @rule(spec=SPECS, replacing=st.booleans(), retry=st.booleans(), event=st.integers(1, 36))
    def up_killed(self, spec: dict[str, str], replacing: bool, retry: bool, event: int) -> None:
        order = Order(site=self.site, command="up", spec=spec, at_event=event, replacing=replacing, retry=retry)
        assert self.commands.run(order).error != "traceback"

    @rule()
    def down(self) -> None:
        self.site.down()
        assert self.site.gpu_instances() == self.strangers
        assert not self.site.living()

    @rule(event=st.integers(1, 36))
    def down_killed(self, event: int) -> None:
        order = Order(site=self.site, command="down", spec={}, at_event=event)
        assert self.commands.run(order).error != "traceback"

    @rule(which=WHICH)
    def a_job_ends(self, which: int) -> None:
        seen = self.site.settled()
        records = seen.records.values() if seen is not None else ()
        pids = [r.pid for r in records if r.state is JobState.RUNNING and r.pid is not None]
        if pids:
            end_process(pids[which % len(pids)])

    @rule(which=WHICH)
    def stop(self, which: int) -> None:
        seen = self.site.settled()
        if seen is None or not seen.records:
            return
        job = sorted(seen.records)[which % len(seen.records)]
        stop_jobs(
            self.site.session(), self.site.run, [job], grace_s=0.0, report=lambda _: None, cancel=threading.Event()
        )
        assert job not in self.site.living()

    @rule(profile=st.sampled_from(STRANGE), start=st.sampled_from([0, 1, 2, 4, 6]))
    def a_stranger_comes(self, profile: str, start: int) -> None:
        try:
            with SimState.edit(self.site.sim) as state:
                made = state.add_foreign_instance(0, profile, start)
        except ValueError:
            return
        self.strangers = sorted([*self.strangers, made], key=lambda instance: instance.gi_id)

    @rule(which=WHICH)
    def a_stranger_leaves(self, which: int) -> None:
        if not self.strangers:
            return
        leaving = self.strangers[which % len(self.strangers)]
        with SimState.edit(self.site.sim) as state:
            state.gpus[0].instances.remove(leaving)
        self.strangers.remove(leaving)

    @rule()
    def reboot(self) -> None:
        self.site.reboot()
        self.strangers = []

    @invariant()
    def strangers_are_untouched_and_everything_else_is_owned(self) -> None:
        there = self.site.gpu_instances()
        assert [i for i in there if i in self.strangers] == self.strangers
        seen = self.site.settled()
        records = seen.records.values() if seen is not None else ()
        owned = Counter(r.instance.gi_id for r in records if r.instance is not None)
        assert owned.keys() == {i.gi_id for i in there if i not in self.strangers}
        for r in records:
            kept = company_of(r)
            assert r.instance is None or owned[r.instance.gi_id] <= (kept.seats if kept is not None else 1)
        if seen is not None:
            found = {standing(r.instance, seen.observed) for r in records}
            assert found <= {Standing.OURS, Standing.HALF, Standing.NONE}

    @invariant()
    def no_job_runs_twice(self) -> None:
        assert all(count == 1 for count in self.site.living().values())


@pytest.mark.slow
def test_whatever_happens_in_whatever_order_strangers_are_safe_and_down_leaves_only_them() -> None:
    class Walk(Days):
        pass

    with server() as Walk.commands:
        run_state_machine_as_test(
            Walk,
            settings=settings(
                max_examples=SEQUENCES,
                stateful_step_count=STEPS,
                deadline=None,
                # Each try takes seconds and threads make no two alike: shrinking would take longer than reading the steps.
                phases=(Phase.explicit, Phase.reuse, Phase.generate),
                suppress_health_check=list(HealthCheck),
            ),
        )
