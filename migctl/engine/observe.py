"""One look at everything: GPUs, units, cores and claims, read side by side; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from migctl.core.gpu.mig import Gpu
from migctl.core.queueing.handing import sole_owners
from migctl.core.runs.observed import Observed
from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.core.runs.settle import settle
from migctl.engine.endings import explain
from migctl.engine.session import Session
from migctl.errors import HostError, MigctlError, Notice
from migctl.host.claims import Claim
from migctl.host.procfs import boot_id
from migctl.nvml.driver import Driver
from migctl.runtimes.api import Runtime
from migctl.runtimes.bare import with_bare
from migctl.store.ledger import Ledger

_NAMED = 3
"""Jobs that share an instance, as named in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A run as it is: what was observed, and its records brought up to date with that."""

    observed: Observed
    records: Mapping[str, Record]
    written: Mapping[str, Record] = field(default_factory=dict)
    """The records as they were before that."""


def look(session: Session, driver: Driver, runtime: Runtime, ledger: Ledger, run: str) -> Look:
    """Observe one run. The records are settled in memory only; whoever acts on them writes them."""
    records = ledger.records(run)
    # Of what has ended and been dealt with nothing is left to be seen.
    there = [r for r in records if r.container_id is not None or not r.closed]
    folders = [str(ledger.folder(r.run, r.job, r.attempt)) for r in there]
    with ThreadPoolExecutor(1) as pool:
        units = pool.submit(runtime.units, run, folders)
        gpus = driver.gpus()
        now = boot(session, driver)
        observed = Observed(
            boot_id=now, gpus=gpus, units=with_bare(units.result(), there, now), failures=driver.failures
        )
    settled = sole_owners({r.job: settle(r, observed) for r in records})
    told = explain(settled, runtime=runtime, ledger=ledger, gpus=gpus, now=session.now)
    return Look(observed=observed, records=told, written={record.job: record for record in records})


def known_gpus(session: Session) -> tuple[str, tuple[Gpu, ...], list[Notice]]:
    """The boot id, what the driver tells of the GPUs, and what it does not; without a driver there are none."""
    try:
        with session.driver() as driver:
            gpus = driver.gpus()
            return boot(session, driver), gpus, [_notice(error) for error in driver.failures]
    except MigctlError as error:
        return boot_id(session.root), (), [_notice(error)]


def _notice(error: MigctlError) -> Notice:
    return Notice(error.id, error.message, hint=error.hint, where=error.where)


def boot(session: Session, driver: Driver) -> str:
    """The boot that instances belong to: the kernel's boot id, or the simulated machine's own."""
    return driver.boot_id or boot_id(session.root)


def owners(ledger: Ledger, seen: Observed, claims: list[Claim]) -> dict[tuple[str, int], str]:
    """Who made the instances that are there, as far as records and claims tell; the others are not ours."""
    found: dict[tuple[str, int], str] = {}
    for claim in claims:
        for gpu in seen.gpus:
            places = claim.gpus.get(gpu.uuid, ())
            found.update(
                {(gpu.uuid, i.gi_id): f"{claim.user}/{claim.run}" for i in gpu.instances if i.placement in places}
            )
    for run in ledger.runs():
        having: dict[tuple[str, int], list[Record]] = {}
        for record in sole_owners({r.job: settle(r, seen) for r in ledger.records(run.name)}).values():
            owned = record.instance
            if owned is not None and not owned.foreign:
                having.setdefault((owned.gpu_uuid, owned.gi_id), []).append(record)
        found.update({key: _owner(run.name, records) for key, records in having.items()})
    return found


def _owner(run: str, records: Sequence[Record]) -> str:
    """`run/job`; of several those that have not ended, if there are any."""
    there = [r.job for r in records if not r.state.ended] or [r.job for r in records]
    more = f" and {len(there) - _NAMED + 1} more" if len(there) > _NAMED else ""
    return f"{run}/{', '.join(there[: _NAMED - 1] if more else there)}{more}"


def elsewhere(run: Run, records: Iterable[Record], gpus: Sequence[Gpu], nvml: str) -> bool:
    """Whether the run is on GPUs that the present NVML (`sim:…`, or nothing for the real one) does not show.

    The UUIDs decide: a simulator can be spelt in several ways, and a rebuilt run does not know its own.
    """
    here = {gpu.uuid for gpu in gpus}
    return run.nvml != nvml and any(r.gpu_uuid is not None and r.gpu_uuid not in here for r in records)


def other_nvml(run: Run) -> tuple[str, str]:
    """Where that run is, and what to do about it."""
    there = f"simulated GPUs ({run.nvml})" if run.nvml else "this machine's real GPUs"
    flag = f"--nvml {run.nvml}" if run.nvml else "no --nvml and no MIGCTL_NVML"
    return f"the run {run.name} is on {there}", f"use {flag}"


def check_source(session: Session, driver: Driver, ledger: Ledger, run: Run | None) -> None:
    """Whoever changes a run must see its GPUs: on others its instances would look as if somebody had removed them.

    Raises:
        HostError: the run was made with another NVML.
    """
    if run is None or run.nvml == session.nvml:
        return
    if elsewhere(run, ledger.records(run.name), driver.gpus(), session.nvml):
        message, hint = other_nvml(run)
        raise HostError("other-nvml", f"{message}; nothing was changed", where=f"run {run.name}", hint=hint)
