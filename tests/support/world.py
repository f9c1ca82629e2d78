"""A whole machine in one folder for many commands: simulated GPUs, an engine in memory, sixteen cores, and what others do there."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from migctl.core.choices import RuntimeName
from migctl.core.gpu.company import company_of
from migctl.core.plan import ByInstance, ByProfile, GpuSelector, Job, Plan
from migctl.core.runs.events import Event, StepEvent
from migctl.core.runs.record import Action, Record
from migctl.engine.adopt import AdoptResult, adopt
from migctl.engine.converge import UpResult, converge
from migctl.engine.down import take_down
from migctl.engine.observe import Look, look
from migctl.engine.queueing.advance import Memory, Turn, advance
from migctl.engine.queueing.closing import close
from migctl.engine.queueing.queued import waiting
from migctl.engine.queueing.supervisor import bell_path
from migctl.engine.session import Session
from migctl.engine.upoptions import UpOptions
from migctl.host.claims import Claim, read_claims
from migctl.nvml.models import resolve_board
from migctl.nvml.simmodel import SimGpu, SimInstance
from migctl.nvml.simstate import SimState
from migctl.runtimes.api import Runtime
from tests.support.crashes import size
from tests.support.fake_engine import FakeEngine, Killed
from tests.support.machines import Machine, write
from tests.support.queue_site import unattended

RUNS = ("one", "two")
_CORES = Machine(name="sixteen", cores=16, threads=2)
_PATIENCE_S = 1.0
"""Instead of ten seconds for an instance to become free: what is in use for a moment in here is so for milliseconds."""


@cache
def _tree() -> Path:
    """The machine's /sys and /proc, which nobody changes: all worlds of this process have the same one."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="migctl-tree-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write(_CORES, folder)


@dataclass(kw_only=True)
class EngineSession(Session):
    """A session whose container engine is the one in memory."""

    engine: FakeEngine

    @property
    def here(self) -> bool:
        """Its cores are read below a folder, and all the same it is this machine."""
        return True

    def runtime(self, name: RuntimeName) -> Runtime:  # noqa: ARG002 -- there is only this one
        return self.engine


@dataclass
class World:
    """One machine with one user of migctl and several strangers."""

    folder: Path
    boards: str
    engine: FakeEngine = field(init=False)
    bell: ExitStack = field(init=False)
    strangers: dict[int, SimInstance] = field(default_factory=dict)
    """By serial: what is not migctl's, as it has to stay."""
    stray: set[str] = field(default_factory=set)
    """Handles of containers that no record tells of any more and `adopt` left alone: nobody may touch them."""

    last: list[Record] = field(default_factory=list)
    """All settled records at the last `check`."""

    def __post_init__(self) -> None:
        SimState.create(self.sim, self.boards)
        self.engine = FakeEngine(self.sim, os.getuid())
        self.bell = ExitStack()

    @property
    def sim(self) -> Path:
        return self.folder / "gpus.json"

    @property
    def run_dir(self) -> Path:
        return self.folder / "run"

    def session(self) -> EngineSession:
        environ = {
            "PATH": os.environ["PATH"],
            "MIGCTL_STATE_DIR": str(self.folder / "state"),
            "MIGCTL_RUN_DIR": str(self.run_dir),
            "MIGCTL_SIM_STATE": str(self.sim),
            "MIGCTL_RECORDING": "off",
        }
        return EngineSession(
            environ=environ,
            nvml=f"sim:{self.boards}",
            root=_tree(),
            engine=self.engine,
            moment_s=_PATIENCE_S,
        )

    # Commands

    def plan(self, run: str, jobs: Mapping[str, str], *, enable_mig: bool = True) -> Plan:
        """Jobs by name, each with a profile (and `*2` where two share an instance) or the MIG UUID of a stranger's instance."""
        return Plan(
            name=run,
            path=str(self.folder / f"{run}.yaml"),
            folder=str(self.folder),
            jobs=tuple(
                Job(
                    name=name,
                    origin=name,
                    request=ByInstance(word) if word.startswith("MIG-") else ByProfile(size(word)[0]),
                    per_instance=size(word)[1] if not word.startswith("MIG-") else 1,
                    image="train",
                    user="image",
                )
                for name, word in jobs.items()
            ),
            gpus=(GpuSelector(all=True),),
            runtime=RuntimeName.DOCKER,
            enable_mig=enable_mig,
        )

    def up(self, plan: Plan, options: UpOptions, *, kill_at: int = 0) -> UpResult:
        """`migctl up`; with `kill_at` its process gets SIGKILL at that step event."""
        self._listen()
        return converge(self.session(), plan, options, self._dying(kill_at), threading.Event())

    def down(self, run: str, *, kill_at: int = 0) -> None:
        """`migctl down`."""
        take_down(self.session(), run, grace_s=0.0, report=self._dying(kill_at), cancel=threading.Event())

    def adopt(self) -> AdoptResult:
        """`migctl adopt`."""
        return adopt(self.session(), None, dry_run=False)

    def lose_records(self) -> None:
        """Store, owner files and key are gone; claims stay."""
        self.bell.close()
        shutil.rmtree(self.folder / "state", ignore_errors=True)

    def _listen(self) -> None:
        """No command starts a supervisor of its own: `turn` is what one does."""
        session = self.session()
        if not bell_path(session).exists():
            self.bell.enter_context(unattended(session))

    def turn(self, run: str, *, kill_at: int = 0) -> Turn:
        """What the supervisor does when something has happened."""
        session = self.session()
        turn = advance(session, run, Memory(), report=self._dying(kill_at), cancel=threading.Event())
        if turn.plan is not None and turn.unclosed:
            close(session, run, turn.plan, turn.unclosed)
        return turn

    def waiting(self, run: str) -> frozenset[str]:
        """Jobs of a run that are in its queue."""
        with self.session().ledger(write=False) as ledger:
            return frozenset(waiting(ledger, run, ledger.records(run)))

    def settle(self) -> None:
        """The next command meets no planned failure of the last one."""
        self.engine.revive()
        if self.state().faults:
            with SimState.edit(self.sim) as state:
                state.faults.clear()

    def _dying(self, kill_at: int) -> Callable[[Event], None]:
        seen = 0
        lock = threading.Lock()

        def report(event: Event) -> None:
            nonlocal seen
            if not isinstance(event, StepEvent):
                return
            with lock:
                seen += 1
                self.engine.dead |= seen == kill_at
            if self.engine.dead:
                raise Killed

        return report

    # What is there

    def state(self) -> SimState:
        return SimState.load(self.sim)

    def instances(self) -> dict[int, SimInstance]:
        """All GPU instances by serial."""
        return {i.serial: i for gpu in self.state().gpus for i in gpu.instances}

    def looks(self) -> dict[str, Look]:
        """Every run as it is."""
        session = self.session()
        with session.ledger(write=False) as ledger, session.driver() as driver:
            return {run.name: look(session, driver, self.engine, ledger, run.name) for run in ledger.runs()}

    def records(self) -> list[Record]:
        """All settled records."""
        return [record for seen in self.looks().values() for record in seen.records.values()]

    def claims(self) -> tuple[Claim, ...]:
        return read_claims(self.run_dir, self.state().boot_id)

    def strangers_uuids(self) -> list[str]:
        """MIG UUIDs of the strangers' whole instances."""
        return [
            i.compute[0].mig_uuid
            for gpu in self.state().gpus
            for i in gpu.instances
            if i.serial in self.strangers and len(i.compute) == 1
        ]

    # What others do

    def stranger_comes(self, gpu: int, profile: str, start: int, *, compute: bool) -> None:
        """Somebody makes an instance, where there is room.

        Half of one at the very place where a killed `up` was about to make the same is ours by every sign there is, so nobody does
        that here: README tells of it.
        """
        if not compute:
            uuid = self.state().gpus[gpu].uuid
            place = (uuid, profile, start)
            compute = any(
                r.intent is Action.CREATE_GPU_INSTANCE
                and r.placement is not None
                and (r.gpu_uuid, r.profile, r.placement.start) == place
                for r in self.records()
            )
        try:
            with SimState.edit(self.sim) as state:
                made = state.add_foreign_instance(gpu, profile, start, compute=compute)
        except (ValueError, StopIteration):
            return
        self.strangers[made.serial] = made

    def stranger_leaves(self, which: int) -> None:
        """Somebody removes an instance of his own, unless a job of ours runs on it."""
        if not self.strangers:
            return
        serial = sorted(self.strangers)[which % len(self.strangers)]
        with SimState.edit(self.sim) as state:
            for gpu in state.gpus:
                for instance in gpu.instances:
                    if instance.serial == serial and not gpu.living(instance.gi_id):
                        gpu.instances.remove(instance)
                        del self.strangers[serial]
                        return

    def hand(self, which: int, what: str, smallest: str) -> None:
        """An administrator lays hands on an instance of ours that nothing runs on.

        Args:
            which: one of them.
            what: `destroy`, `halve` (its compute instance is gone), `shrink` (a smaller one of his is there instead).
            smallest: the profile that he puts there.
        """
        ours = [i for i in self.instances().values() if i.serial not in self.strangers]
        if not ours:
            return
        target = ours[which % len(ours)].serial
        with SimState.edit(self.sim) as state:
            for number, gpu in enumerate(state.gpus):
                for instance in gpu.instances:
                    if instance.serial != target or gpu.living(instance.gi_id):
                        continue
                    match what:
                        case "halve":
                            instance.compute.clear()
                        case "destroy":
                            gpu.instances.remove(instance)
                        case _:
                            if instance.size == 1 or instance.profile_id == self._profile_id(gpu, smallest):
                                return  # the very same would be ours by every sign there is
                            gpu.instances.remove(instance)
                            made = state.add_foreign_instance(number, smallest, instance.start)
                            self.strangers[made.serial] = made
                    return

    def _profile_id(self, gpu: SimGpu, name: str) -> int:
        return next(p.id for p in resolve_board(gpu.board).profiles if p.name == name)

    def reboot(self) -> None:
        """All instances and processes are gone."""
        with SimState.edit(self.sim) as state:
            state.reboot()
        self.engine.reboot()
        self.strangers.clear()

    # What must hold

    def check(self) -> None:
        """Strangers are untouched, everything else is owned once, and nobody shares what is not shared."""
        there = self.instances()
        assert {serial: there.get(serial) for serial in self.strangers} == self.strangers
        self.last = records = self.records()
        gpus = {gpu.uuid: gpu for gpu in self.state().gpus}
        owned = Counter(
            (r.instance.gpu_uuid, r.instance.gi_id) for r in records if r.instance and not r.instance.foreign
        )
        unknown = {
            (gpu.uuid, i.gi_id) for gpu in gpus.values() for i in gpu.instances if i.serial not in self.strangers
        }
        assert owned.keys() == unknown
        for r in records:
            if r.instance is not None and not r.instance.foreign:
                kept = company_of(r)
                assert owned[r.instance.gpu_uuid, r.instance.gi_id] <= (kept.seats if kept is not None else 1)
        self._check_containers(records)

    def _check_containers(self, records: Sequence[Record]) -> None:
        mine = [c for c in self.engine.containers.values() if c.handle not in self.stray]
        assert {c.launch.token for c in mine} <= {record.token for record in records}
        assert all(number == 1 for number in self.engine.starts.values())
        # A container that nobody knows any more may be one that covers half of the machine, which jobs share.
        running = [c for c in self.engine.running() if c.handle not in self.stray]
        devices = Counter(c.launch.mig_uuid for c in running)
        assert all(devices[c.launch.mig_uuid] <= c.launch.spec.per_instance for c in running)
        cpus = [cpu for c in running for cpu in c.launch.cpus]
        assert len(cpus) == len(set(cpus))
        assert self.stray <= set(self.engine.containers)

    def check_gone(self) -> None:
        """After `down` of everything: exactly the strangers' instances, and no container, record or claim of ours."""
        assert self.instances() == self.strangers
        assert set(self.engine.containers) == self.stray
        assert self.records() == []
        assert self.claims() == ()
