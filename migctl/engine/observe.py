"""One look at everything: GPUs, units, cores and claims, read side by side; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from migctl.core.machine import Machine
from migctl.core.mig import Gpu
from migctl.core.observed import Observed
from migctl.core.plan import RuntimeName
from migctl.core.record import Record
from migctl.core.run import Run
from migctl.core.settle import settle
from migctl.engine.session import Session
from migctl.host.claims import read_claims
from migctl.host.procfs import boot_id, memory_total_mib, own_affinity
from migctl.host.sysfs import read_topology
from migctl.nvml.driver import Driver
from migctl.runtimes.api import Runtime
from migctl.store.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A run as it is: what was observed, and its records brought up to date with that."""

    observed: Observed
    records: Mapping[str, Record]


def look(session: Session, driver: Driver, runtime: Runtime, ledger: Ledger, run: str) -> Look:
    """Observe one run. The records are settled in memory only; whoever acts on them writes them."""
    records = ledger.records(run)
    folders = [str(ledger.folder(r.run, r.job, r.attempt)) for r in records]
    with ThreadPoolExecutor(1) as pool:
        units = pool.submit(runtime.units, run, folders)
        gpus = driver.gpus()
        observed = Observed(boot_id=boot_id(session.root_of_proc), gpus=gpus, units=tuple(units.result()))
    return Look(observed=observed, records={r.job: settle(r, observed) for r in records})
