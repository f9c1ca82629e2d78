"""What planning needs beside a look at a run: the machine's cores, and what other runs, users and containers hold of it."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.gpuplaces import in_place_of_others
from migctl.core.gpu.mig import Gpu
from migctl.core.machine import Machine
from migctl.core.others.holdings import Holdings, claimed_slices
from migctl.core.runs.observed import Observed, Recorded
from migctl.engine.observe import owners
from migctl.engine.ruling import ruling
from migctl.engine.session import Session
from migctl.host.claims import Claim, read_claims, store_name
from migctl.host.cpulimits import cpu_quota
from migctl.host.procfs import memory_total_mib, process_words
from migctl.host.sysfs import read_topology
from migctl.runtimes.api import Runtime
from migctl.store.ledger import Ledger


def surroundings(session: Session, runtime: Runtime, ledger: Ledger, seen: Observed, run: str) -> Machine:
    """What planning needs beside the look: cores, and what other runs and containers hold."""
    claims = [c for c in read_claims(session.paths.run, seen.boot_id) if not _own(session, c, run)]
    here = session.here
    facts = runtime.facts() if here else None
    quotas = [cpu_quota(session.root), facts.cpu_quota if facts is not None else None]
    held = ruling(session)
    topology = read_topology(session.root, pci_ids=[gpu.pci_bus_id for gpu in seen.gpus])
    if not here:
        topology = in_place_of_others(seen.gpus, topology)
    there = Machine(
        gpus=seen.gpus,
        failures=seen.failures,
        topology=topology,
        affinity=session.local_affinity(topology.online),
        engine=facts.cpus if facts is not None else None,
        quota=min((quota for quota in quotas if quota is not None), default=None),
        claimed={f"{claim.user}/{claim.run}": claim.cpus for claim in claims} if here else {},
        foreign=tuple(runtime.foreign(_recorded(session, ledger))) if here else (),
        owners=owners(ledger, seen, claims),
        whole={uuid: f"{c.user}/{c.run}" for c in claims for uuid, places in c.gpus.items() if not places},
        processes={p.pid: process_words(p.pid) for gpu in seen.gpus for p in gpu.processes},
        memory_total_mib=memory_total_mib(session.root),
        holdings=_holdings(claims, seen.gpus, session.caller.uid) if held is not None else Holdings(),
    )
    return held.applied(there) if held is not None else there


def _holdings(claims: Sequence[Claim], gpus: Sequence[Gpu], uid: int) -> Holdings:
    """What the administrator's rules count: this user's other runs, and everybody's memory limits."""
    mine = [claim for claim in claims if claim.uid == uid]
    return Holdings(
        slices=sum(claimed_slices(claim.gpus, gpus) for claim in mine),
        cpus=CpuSet(cpu for claim in mine for cpu in claim.cpus),
        memory_mib=sum(claim.memory_mib for claim in claims),
    )


def _own(session: Session, claim: Claim, run: str) -> bool:
    return (claim.uid, claim.run, claim.store) == (session.caller.uid, run, store_name(session.paths.state))


def _recorded(session: Session, ledger: Ledger) -> Recorded:
    tokens = frozenset(record.token for run in ledger.runs() for record in ledger.records(run.name))
    return Recorded(store_name(session.paths.state), tokens)
