"""`adopt`: one's own leftovers after the records were lost become one's own again, where labels and hardware agree fully."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from migctl.core.choices import RuntimeName
from migctl.core.gpu.company import company_of, same_instance
from migctl.core.runs.adoption import Leftover, objection, record_of
from migctl.core.runs.labels import LABEL
from migctl.core.runs.observed import Observed
from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.core.runs.settle import settle
from migctl.engine import recording
from migctl.engine.claiming import claim
from migctl.engine.observe import boot, owners
from migctl.engine.session import Session
from migctl.engine.unrecorded import unrecorded
from migctl.errors import HostError
from migctl.host.claims import Claim, read_claims, store_name
from migctl.nvml.driver import Driver
from migctl.store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Left:
    """Something that looks like migctl's and stays as it is."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptResult:
    """What `adopt` took, or would take."""

    adopted: tuple[Record, ...]
    left: tuple[Left, ...]


def adopt(session: Session, run: str | None, *, dry_run: bool) -> AdoptResult:
    """Take what matches fully; name everything else and leave it alone.

    Args:
        run: only this run's leftovers; `None` = all.
        dry_run: change nothing.

    Raises:
        HostError: the driver or the engine does not answer.
        Busy: another migctl is at work.
    """
    with ExitStack() as stack:
        ledger = stack.enter_context(session.ledger(write=not dry_run))
        driver = stack.enter_context(session.driver())
        found = _look(session, driver, ledger, run)
        if not dry_run:
            held = tuple(sorted({record.run for record, _ in found.taken}))
            # As everywhere: the locks of runs, by name, then the machine; what counts is what is seen while they are held.
            for name in held:
                stack.enter_context(session.run_lock(name))
            stack.enter_context(session.lock("machine"))
            found = _look(session, driver, ledger, run).only(held)
            for record, origin in found.taken:
                _save(session, ledger, record, origin)
            for name in dict.fromkeys(record.run for record, _ in found.taken):
                made = ledger.run(name)
                assert made is not None
                claim(session, made, ledger.records(name), found.boot_id)
            if found.taken:
                recording.ensure(session)
        return AdoptResult(adopted=tuple(record for record, _ in found.taken), left=found.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What one look says can be taken, and what has to stay."""

    boot_id: str
    taken: tuple[tuple[Record, Leftover], ...]
    left: tuple[Left, ...]

    def only(self, runs: Collection[str]) -> _Found:
        """Nothing but what belongs to these runs is taken; what came since the look before is told."""
        late = tuple(
            Left(origin.what, "it came just now: adopt again") for r, origin in self.taken if r.run not in runs
        )
        return replace(self, taken=tuple(one for one in self.taken if one[0].run in runs), left=(*self.left, *late))


def _look(session: Session, driver: Driver, ledger: Ledger, run: str | None) -> _Found:
    """Look at everything and judge it; changes nothing."""
    processes = unrecorded(session, ledger)
    unseen: tuple[Left, ...] = ()
    try:
        containers = session.runtime(RuntimeName.DOCKER).leftovers()
    except HostError as error:
        if not processes:
            raise
        containers, unseen = [], (Left("containers", error.message),)
    leftovers = [one for one in (*containers, *processes) if run in (None, one.unit.run)]
    observed = Observed(boot_id=boot(session, driver), gpus=driver.gpus(), units=tuple(one.unit for one in leftovers))
    judge = _Judge(session, ledger, observed)
    taken, left = judge.sorted(leftovers)
    settled = tuple((settle(record, observed), origin) for record, origin in taken)
    strangers = judge.strangers([record for record, _ in settled]) if run is None else ()
    return _Found(boot_id=observed.boot_id, taken=settled, left=(*left, *unseen, *strangers))


def _save(session: Session, ledger: Ledger, record: Record, origin: Leftover) -> None:
    if ledger.run(record.run) is None:
        ledger.save_run(
            Run(
                name=record.run,
                plan_path=origin.labels.get(LABEL + "plan", ""),
                owner_uid=session.caller.uid,
                runtime=record.runtime,
                strategy=record.strategy,
                nvml=session.nvml,
                boot_id=record.boot_id,
                created_at=record.created_at or session.now(),
            )
        )
    ledger.save([replace(record, revision=record.revision + 1)], durable=True)


class _Judge:
    """Tells one's own leftovers from everything else."""

    def __init__(self, session: Session, ledger: Ledger, observed: Observed) -> None:
        self._session = session
        self._observed = observed
        self._claims = tuple(read_claims(session.paths.run, observed.boot_id))
        self._known = {(r.run, r.job): r.token for run in ledger.runs() for r in ledger.records(run.name)}
        self._owners = owners(ledger, observed, list(self._claims))
        self._holders = [r for run in ledger.runs() for r in ledger.records(run.name) if r.instance is not None]
        self._instances: set[tuple[str, int]] = {
            (r.instance.gpu_uuid, r.instance.gi_id) for r in self._holders if r.instance is not None
        }

    def sorted(self, leftovers: Sequence[Leftover]) -> tuple[list[tuple[Record, Leftover]], list[Left]]:
        """Those to be taken, and the others with the reason; newest attempts first, since only so many can have an instance."""
        taken: list[tuple[Record, Leftover]] = []
        left: list[Left] = []
        for one in sorted(leftovers, key=_newest_first):
            if one.unit.token in self._known.values():
                continue
            what = one.what
            if one.owner_uid != self._session.caller.uid:
                left.append(
                    Left(what, f"of uid {one.owner_uid}" if one.owner_uid >= 0 else "it does not say whose it is")
                )
                continue
            try:
                record = record_of(one)
            except ValueError as error:
                left.append(Left(what, f"its labels do not tell enough: {error}"))
                continue
            why = (
                self._recorded(record)
                or self._elsewhere(record)
                or objection(record, self._observed)
                or self._instance_taken(record)
            )
            if why is not None:
                left.append(Left(what, why))
                continue
            self._known[(record.run, record.job)] = record.token
            if record.instance is not None:
                self._instances.add((record.instance.gpu_uuid, record.instance.gi_id))
                self._holders.append(record)
            taken.append((record, one))
        return taken, left

    def strangers(self, adopted: Sequence[Record]) -> Iterator[Left]:
        """Instances of which nothing tells that they are one's own."""
        ours = {(r.instance.gpu_uuid, r.instance.gi_id) for r in adopted if r.instance is not None}
        for gpu in self._observed.gpus:
            for instance in gpu.instances:
                if (gpu.uuid, instance.gi_id) in ours | self._instances:
                    continue
                owner = self._owners.get((gpu.uuid, instance.gi_id))
                yield Left(
                    f"GPU {gpu.index}: GPU instance {instance.gi_id} ({instance.profile} at {instance.placement})",
                    f"claimed by {owner}, and no container or process tells more"
                    if owner is not None
                    else "no container, process or record tells that it is yours",
                )

    def _recorded(self, record: Record) -> str | None:
        if (record.run, record.job) in self._known:
            return f"{record.run}/{record.job} is recorded with another container"
        return None

    def _elsewhere(self, record: Record) -> str | None:
        mine = [c for c in self._claims if self._is_others(c) and c.uid == self._session.caller.uid]
        if any(c.run == record.run for c in mine):
            return f"another state directory of yours has the run {record.run}: use that one (--state-dir)"
        return None

    def _instance_taken(self, record: Record) -> str | None:
        owned = record.instance
        if owned is None:
            return None
        mates = [other for other in self._holders if same_instance(owned, other.instance)]
        kept = company_of(record)
        fits = kept is not None and len(mates) < kept.seats
        if mates and fits and all(m.run == record.run and company_of(m) == kept for m in mates):
            return None  # it shares the instance with them
        if (owned.gpu_uuid, owned.gi_id) in self._instances:
            return f"GPU instance {owned.gi_id} belongs to another job already"
        holder = next((c for c in self._claims if self._is_others(c) and _holds(c, record)), None)
        return f"its place is claimed by {holder.user}/{holder.run}" if holder is not None else None

    def _is_others(self, one: Claim) -> bool:
        return (one.uid, one.store) != (self._session.caller.uid, store_name(self._session.paths.state))


def _holds(one: Claim, record: Record) -> bool:
    return record.placement is not None and record.placement in one.gpus.get(record.gpu_uuid or "", ())


def _newest_first(one: Leftover) -> tuple[str, str, bool, float]:
    return one.unit.run, one.unit.job, one.unit.state.ended, -(one.unit.started_at or 0.0)
