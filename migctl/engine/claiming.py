"""What a run tells every other migctl on this machine that it holds."""

from __future__ import annotations

from collections.abc import Iterable

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import Placement
from migctl.core.runs.record import JobState, Record
from migctl.core.runs.run import Run
from migctl.core.runs.sameness import memory_limit_mib
from migctl.engine.session import Session
from migctl.host.claims import Claim, HeldCpus, drop_claim, store_name, write_claim


def claim(session: Session, run: Run, records: Iterable[Record], boot_id: str) -> None:
    """Tell every other migctl on this machine which CPUs and places this run holds."""
    alive = [r for r in records if r.instance is not None or not r.state.ended]
    store = store_name(session.paths.state)
    if not alive:
        drop_claim(session.paths.run, session.caller, run.name, store)
        return
    gpus: dict[str, list[Placement]] = {}
    for record in alive:
        if record.gpu_uuid is not None:
            places = gpus.setdefault(record.gpu_uuid, [])
            places += [record.placement] if record.placement is not None and record.placement not in places else []
    write_claim(
        session.paths.run,
        Claim(
            uid=session.caller.uid,
            user=session.caller.name,
            run=run.name,
            cpus=CpuSet(cpu for r in alive if not r.state.ended and _passing(r) is None for cpu in r.cpus),
            gpus={uuid: tuple(places) for uuid, places in gpus.items()},
            boot_id=boot_id,
            store=store,
            memory_mib=sum(memory_limit_mib(r.spec) for r in alive if not r.state.ended),
            passing=tuple(held for r in alive if (held := _passing(r)) is not None),
        ),
    )


def _passing(record: Record) -> HeldCpus | None:
    """The CPUs of a running job whose process others can see end: nobody may be there to write the claim anew."""
    if record.state is not JobState.RUNNING or record.pid is None or record.pid_start is None:
        return None
    return HeldCpus(record.cpus, record.pid, record.pid_start)
