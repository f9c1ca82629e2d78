"""Which jobs run now, with what a sampler must know of each; read from the records, and from the engine only where they lack it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from migctl.core.choices import RuntimeName
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.observed import Unit
from migctl.core.runs.record import JobState, Record
from migctl.core.runs.run import Run
from migctl.engine.session import Session
from migctl.errors import MigctlError
from migctl.host.procfs import process_start_ticks
from migctl.store.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One running attempt of a job."""

    run: str
    job: str
    attempt: int
    runtime: str
    handle: str
    """Of its unit: container id, or the attempt's folder."""
    pid: int
    pid_start: int
    """Clock ticks since boot."""
    cpus: CpuSet
    cores: int
    num_workers: int
    gpu_uuid: str | None
    gi_id: int | None
    mig_uuid: str | None
    started_at: float | None
    """Unix seconds."""
    nvml: str = ""
    """`sim:…` or nothing: on which GPUs its run is."""

    @property
    def name(self) -> str:
        """`run/job`."""
        return f"{self.run}/{self.job}"

    @property
    def container(self) -> bool:
        """It has a cgroup of its own."""
        return self.runtime == RuntimeName.DOCKER.value


def running(session: Session, names: Collection[str] | None = None) -> tuple[Watched, ...]:
    """The jobs whose processes are seen from here, in the order of the records.

    Args:
        names: of these runs; `None` = of all.

    Raises:
        HostError: the store cannot be read.
    """
    with session.ledger(write=False) as ledger:
        runs = [run for run in ledger.runs() if names is None or run.name in names]
        return tuple(watched for run in runs for watched in _of_run(session, ledger, run))


def _of_run(session: Session, ledger: Ledger, run: Run) -> Iterator[Watched]:
    records = [r for r in ledger.records(run.name) if r.state in (JobState.RUNNING, JobState.STARTING)]
    units: dict[str, Unit] | None = None
    for record in records:
        pid, start = record.pid, record.pid_start
        if pid is None or start is None:
            units = _units(session, ledger, run.name, run.runtime, records) if units is None else units
            unit = units.get(record.token)
            pid, start = (unit.pid, unit.pid_start) if unit is not None else (None, None)
        if pid is None or start is None or process_start_ticks(pid) != start:
            continue
        yield _watched(record, pid, start, run.nvml)


def _units(session: Session, ledger: Ledger, run: str, runtime: str, records: Sequence[Record]) -> dict[str, Unit]:
    try:
        folders = [str(ledger.folder(r.run, r.job, r.attempt)) for r in records]
        return {unit.token: unit for unit in session.runtime(RuntimeName(runtime)).units(run, folders)}
    except MigctlError:
        return {}  # what the engine does not tell is not watched until it does


def _watched(record: Record, pid: int, start: int, nvml: str) -> Watched:
    owned = record.instance
    return Watched(
        run=record.run,
        job=record.job,
        attempt=record.attempt,
        runtime=record.runtime,
        handle=record.container_id or "",
        pid=pid,
        pid_start=start,
        cpus=record.cpus,
        cores=record.cores,
        num_workers=record.num_workers,
        gpu_uuid=record.gpu_uuid,
        gi_id=owned.gi_id if owned is not None else None,
        mig_uuid=owned.mig_uuid if owned is not None else None,
        started_at=record.started_at,
        nvml=nvml,
    )
