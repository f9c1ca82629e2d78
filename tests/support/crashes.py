"""A small machine to crash on: one folder with state, locks, simulated GPU and a file that every started job adds a line to."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from migctl.core.choices import RuntimeName
from migctl.core.gpu.mig import Placement
from migctl.core.plan import Auto, ByProfile, Job, Plan
from migctl.core.runs.events import Event, StepEvent
from migctl.core.runs.ownership import Standing, standing
from migctl.core.runs.record import JobState
from migctl.engine.converge import UpOptions, UpResult, converge
from migctl.engine.down import DownResult, take_down
from migctl.engine.follow import see
from migctl.engine.observe import Look
from migctl.engine.session import Session
from migctl.host.claims import read_claims
from migctl.nvml.simmodel import SimInstance
from migctl.nvml.simstate import SimState

RUN = "crash"
FOREIGN = (("1g.5gb", 6),)
"""What somebody else has made on the GPU before any test begins."""
RELEASE_LAG_S = 0.02
"""How long an instance stays in use after its job, as it does on hardware."""
_DEADLINE_S = 20.0

Spec = dict[str, str]
"""Job → profile; nothing = auto; `2g.10gb*3` = three jobs share an instance."""


def size(word: str) -> tuple[str, int]:
    """Profile and seats."""
    profile, _, seats = word.partition("*")
    return profile, int(seats or 1)


def instances_of(spec: Spec) -> int:
    """How many instances these jobs take."""
    return sum(-(-count // size(word)[1]) for word, count in Counter(spec.values()).items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where one user's migctl works. Two sites with one `machine` are two users of one machine."""

    folder: Path
    machine: Path
    run: str = RUN
    uid: int = 0
    """Not 0: root acts for this user."""
    moment_s: float = 10.0
    """How long "in use" is borne."""

    @classmethod
    def make(cls, folder: Path, *, foreign: Sequence[tuple[str, int]] = FOREIGN, boards: str = "a100-40gb") -> Site:
        """A fresh machine with a stranger's instances on its first GPU."""
        site = cls(folder=folder, machine=folder)
        state = SimState.create(site.sim, boards)
        for profile, start in foreign:
            state.add_foreign_instance(0, profile, start)
        state.release_lag_s = RELEASE_LAG_S
        state.save(site.sim)
        return site

    @property
    def sim(self) -> Path:
        return self.machine / "gpus.json"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def session(self) -> Session:
        boards = ",".join(gpu.board for gpu in SimState.load(self.sim).gpus)
        environ = {
            "PATH": os.environ["PATH"],
            "MIGCTL_STATE_DIR": str(self.state),
            "MIGCTL_RUN_DIR": str(self.machine / "run"),
            "MIGCTL_SIM_STATE": str(self.sim),
            "MIGCTL_RECORDING": "off",
            "STARTS": str(self.folder / "starts"),
        }
        if self.uid:
            environ |= {"SUDO_UID": str(self.uid), "SUDO_GID": str(self.uid)}
        return Session(environ=environ, nvml=f"sim:{boards}", moment_s=self.moment_s)

    def plan(self, spec: Spec, *, seconds: str = "300", oversubscribe: bool = True) -> Plan:
        """Each job notes its start and sleeps."""
        command = ("sh", "-c", f'echo "$MIGCTL_JOB" >>"$STARTS"; exec sleep {seconds}')
        jobs = tuple(
            Job(
                name=name,
                origin=name,
                request=ByProfile(profile) if profile else Auto(),
                per_instance=seats,
                command=command,
                user="image",
            )
            for name, (profile, seats) in ((name, size(word)) for name, word in spec.items())
        )
        return Plan(
            name=self.run,
            path=str(self.folder / "plan.yaml"),
            folder=str(self.folder),
            jobs=jobs,
            runtime=RuntimeName.PROCESS,
            oversubscribe=oversubscribe,
            enable_mig=True,
        )

    def up(
        self,
        spec: Spec,
        *,
        report: Callable[[Event], None] = lambda _: None,
        cancel: threading.Event | None = None,
        oversubscribe: bool = True,
        wait_for_s: float = 0.0,
        replacing: bool = False,
        retry: bool = False,
    ) -> UpResult:
        """`migctl up`, here."""
        plan = self.plan(spec, oversubscribe=oversubscribe)
        return converge(
            self.session(),
            plan,
            UpOptions(wait_for_s=wait_for_s, replacing=replacing, retry=retry),
            report,
            cancel or threading.Event(),
        )

    def down(self, *, report: Callable[[Event], None] = lambda _: None) -> DownResult:
        """`migctl down --timeout 0`, here."""
        return take_down(self.session(), self.run, grace_s=0.0, report=report, cancel=threading.Event())

    def reboot(self) -> None:
        """All processes end, all instances are gone."""
        seen = self.settled()
        for record in seen.records.values() if seen is not None else ():
            if record.state is JobState.RUNNING and record.pid is not None:
                # By pid: one that was let go a moment ago has not its own environment yet.
                end_process(record.pid)
        end_jobs(self.folder)
        assert until(lambda: not self._supervised())
        with SimState.edit(self.sim) as state:
            state.reboot()

    def _supervised(self) -> bool:
        """Whether a job runs, or has ended and its supervisor has not written that down yet."""
        seen = self.settled()
        return seen is not None and any(record.state is JobState.RUNNING for record in seen.records.values())

    # What is there

    def settled(self) -> Look | None:
        """The run as it is; nothing where there is none."""
        with self.session().ledger(write=False) as ledger:
            run = ledger.run(self.run)
        return see(self.session(), run)[0] if run is not None else None

    def gpu_instances(self) -> list[SimInstance]:
        return [instance for gpu in SimState.load(self.sim).gpus for instance in gpu.instances]

    def places(self) -> Counter[tuple[int, Placement]]:
        """Profile and placement of everything on the GPUs."""
        return Counter((i.profile_id, Placement(i.start, i.size)) for i in self.gpu_instances())

    def starts(self) -> Counter[str]:
        """How often each job has begun."""
        path = self.folder / "starts"
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def living(self) -> Counter[str]:
        """Jobs that have a living main process."""
        mark = f"STARTS={self.folder / 'starts'}".encode()
        found: Counter[str] = Counter()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark in words:
                found[next(w for w in words if w.startswith(b"MIGCTL_JOB=")).partition(b"=")[2].decode()] += 1
        return found

    # What must hold

    def assert_up(self, spec: Spec, strangers: Sequence[SimInstance]) -> None:
        """As after an undisturbed `up`: each job runs once, on an instance of its own, beside untouched strangers."""
        seen = self.settled()
        assert seen is not None
        assert {name: record.state for name, record in seen.records.items()} == dict.fromkeys(spec, JobState.RUNNING)
        standings = {name: standing(record.instance, seen.observed) for name, record in seen.records.items()}
        assert standings == dict.fromkeys(spec, Standing.OURS)
        assert until(lambda: self.starts() == Counter(spec.keys())), self.starts()
        self.assert_still_up(spec, strangers)

    def assert_still_up(self, spec: Spec, strangers: Sequence[SimInstance]) -> None:
        """These jobs and no others run, where they should."""
        seen = self.settled()
        assert seen is not None
        assert set(seen.records) == set(spec)
        assert self.living() == Counter(spec.keys())
        taken = {r.instance.placement for r in seen.records.values() if r.instance is not None}
        assert len(taken) == instances_of(spec)
        assert all(stranger in self.gpu_instances() for stranger in strangers)
        assert len(self.gpu_instances()) == instances_of(spec) + len(strangers)
        boot = seen.observed.boot_id
        claims = [c for c in read_claims(self.machine / "run", boot) if c.run == self.run]
        assert [set(places) for claim in claims for places in claim.gpus.values()] == [taken]

    def assert_gone(self, strangers: Sequence[SimInstance]) -> None:
        """Nothing of ours is left, and the strangers' instances are exactly what they were."""
        assert self.gpu_instances() == list(strangers)
        assert until(lambda: not self.living()), self.living()
        boot = SimState.load(self.sim).boot_id
        assert [c.run for c in read_claims(self.machine / "run", boot) if c.run == self.run] == []
        with self.session().ledger(write=False) as ledger:
            assert ledger.records(self.run) == ()
            assert ledger.runs() == ()
        assert all(count == 1 for count in self.starts().values()), self.starts()


@contextmanager
def site_at(folder: Path, *, foreign: Sequence[tuple[str, int]] = FOREIGN, boards: str = "a100-40gb") -> Iterator[Site]:
    """A site whose jobs do not outlive the test, whatever happens."""
    site = Site.make(folder, foreign=foreign, boards=boards)
    try:
        yield site
    finally:
        end_jobs(folder)


def end_jobs(folder: Path) -> None:
    """SIGKILL to all jobs of the sites below a folder."""
    mark = f"STARTS={folder}".encode()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and any(w.startswith(mark) for w in (entry / "environ").read_bytes().split(b"\0")):
                os.kill(int(entry.name), 9)
        except OSError:
            continue


def end_process(pid: int) -> None:
    """SIGKILL; a job counts as running until its supervisor has seen it end, so it may be gone already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def until(true: Callable[[], bool], deadline_s: float = _DEADLINE_S) -> bool:
    """Wait until something is so; false when it never was."""
    end = time.monotonic() + deadline_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class At:
    """A listener that does something at the n-th step event, counted from 1; threads may call it at once."""

    def __init__(self, number: int, do: Callable[[], None]) -> None:
        self.number = number
        self.seen = 0
        self._do = do
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepEvent):
            with self._lock:
                self.seen += 1
                if self.seen == self.number:
                    self._do()
