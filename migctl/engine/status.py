"""The answer to `status`: runs, jobs, instances and cores as they are now, and where they differ from what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migctl.core.choices import RuntimeName
from migctl.core.corecells import cores_view
from migctl.core.cpuset import CpuSet
from migctl.core.mig import Gpu
from migctl.core.observed import Observed, Unit
from migctl.core.ownership import NOT_OURS, Standing, standing
from migctl.core.record import JobState, Record
from migctl.core.run import Run
from migctl.core.settle import settle
from migctl.core.views.status import GpuView, InstanceView, JobView, RunView, StatusView, run_state
from migctl.engine.observe import boot, elsewhere, other_nvml, owners
from migctl.engine.session import Session
from migctl.errors import MigctlError, Notice
from migctl.host.claims import read_claims
from migctl.host.procfs import boot_id, process_cpus
from migctl.host.sysfs import read_topology
from migctl.store.ledger import Ledger


def status(session: Session, names: Sequence[str] | None, *, ended: bool = False) -> StatusView:
    """Look at everything once. A source that fails blanks only what it would have told.

    Args:
        names: these runs; `None` = all.
        ended: runs that `down` has undone, too.
    """
    with session.ledger(write=False) as ledger:
        runs = [run for run in ledger.runs(ended=ended) if names is None or run.name in names]
        notices = list(ledger.notices)
        boot_now, gpus, problems = _gpus(session)
        notices += problems
        units, silent = _units(session, ledger, runs, notices)
        observed = Observed(boot_id=boot_now, gpus=gpus, units=units)
        settled: dict[str, tuple[Record, ...]] = {}
        for run in runs:
            records = ledger.records(run.name)
            away = elsewhere(run, records, gpus, session.nvml)
            known = run.runtime not in silent and not away
            settled[run.name] = tuple(settle(r, observed) for r in records) if known else records
            if away:
                message, hint = other_nvml(run)
                notices.append(Notice("other-nvml", f"{message}; shown is what was recorded", hint=hint))
        claims = list(read_claims(session.paths.run, boot_now))
        made_by = owners(ledger, observed, claims)
        return StatusView(
            now=session.now(),
            runs=tuple(_run(run, settled[run.name], ledger) for run in runs),
            gpus=tuple(_gpu(gpu, made_by) for gpu in gpus),
            cores=cores_view(
                read_topology(session.root),
                {
                    f"{record.run}/{record.job}": record.cpus
                    for records in settled.values()
                    for record in records
                    if record.state in (JobState.RUNNING, JobState.STARTING)
                },
            ),
            drift=tuple(_drift(settled, ledger, observed)),
            notices=tuple(notices),
            simulated=session.nvml,
        )


def _gpus(session: Session) -> tuple[str, tuple[Gpu, ...], list[Notice]]:
    try:
        with session.driver() as driver:
            gpus = driver.gpus()
            failures = [Notice(e.id, e.message, hint=e.hint, where=e.where) for e in driver.failures]
            return boot(session, driver), gpus, failures
    except MigctlError as error:
        return boot_id(session.root), (), [Notice(error.id, error.message, hint=error.hint, where=error.where)]


def _units(
    session: Session, ledger: Ledger, runs: Sequence[Run], notices: list[Notice]
) -> tuple[tuple[Unit, ...], set[str]]:
    """The units of these runs, and the runtimes that did not answer."""
    units: list[Unit] = []
    silent: set[str] = set()
    for kind in dict.fromkeys(run.runtime for run in runs):
        own = [run for run in runs if run.runtime == kind]
        try:
            runtime = session.runtime(RuntimeName(kind))
            folders = [str(ledger.folder(r.run, r.job, r.attempt)) for run in own for r in ledger.records(run.name)]
            units += runtime.units(own[0].name if len(own) == 1 else None, folders)
        except MigctlError as error:
            silent.add(kind)
            notices.append(Notice(error.id, f"{error.message}; shown is what was recorded", hint=error.hint))
    return tuple(units), silent


def _run(run: Run, records: Sequence[Record], ledger: Ledger) -> RunView:
    jobs = tuple(_job(record) for record in records)
    if run.ended_at is not None and not jobs:
        jobs = tuple(_job(record) for record in ledger.history(run.name))
    return RunView(
        name=run.name,
        state="removed" if run.ended_at is not None else run_state(jobs),
        jobs=jobs,
        plan_path=run.plan_path,
        runtime=run.runtime,
        strategy=run.strategy,
        created_at=run.created_at,
        simulated=run.nvml,
    )


def _job(record: Record) -> JobView:
    owned = record.instance
    return JobView(
        name=record.job,
        origin=record.job,
        state=record.state,
        exit_code=record.exit_code,
        reason=record.reason,
        gpu_uuid=record.gpu_uuid,
        gi_id=owned.gi_id if owned else None,
        ci_id=owned.ci_id if owned else None,
        mig_uuid=owned.mig_uuid if owned else None,
        profile=record.profile,
        placement=record.placement,
        cpus=record.cpus,
        num_workers=record.num_workers,
        container_id=record.container_id if record.runtime == RuntimeName.DOCKER.value else None,
        pid=record.pid if record.state is JobState.RUNNING else None,
        attempt=record.attempt,
        started_at=record.started_at,
        finished_at=record.finished_at,
    )


def _gpu(gpu: Gpu, made_by: Mapping[tuple[str, int], str]) -> GpuView:
    slices = {p.id: p.compute_slices for p in gpu.profiles}
    return GpuView(
        uuid=gpu.uuid,
        index=gpu.index,
        name=gpu.name,
        memory_mib=gpu.memory_mib,
        memory_slices=gpu.memory_slices,
        compute_slices=gpu.compute_slices,
        mig=gpu.mig,
        mig_reason="this product has no MIG" if gpu.mig is None else None,
        instances=tuple(
            InstanceView(
                gi_id=instance.gi_id,
                profile=instance.profile,
                placement=instance.placement,
                compute_slices=slices.get(instance.profile_id),
                mig_uuids=tuple(ci.mig_uuid for ci in instance.compute_instances),
                owner=made_by.get((gpu.uuid, instance.gi_id), NOT_OURS),
                foreign=(gpu.uuid, instance.gi_id) not in made_by,
            )
            for instance in sorted(gpu.instances, key=lambda i: (i.placement, i.gi_id))
        ),
        instances_reason=gpu.instances_reason,
    )


def _drift(settled: Mapping[str, Sequence[Record]], ledger: Ledger, observed: Observed) -> list[str]:
    """Every difference between what was recorded and what is there."""
    found: list[str] = []
    for run, now in settled.items():
        before = {record.job: record for record in ledger.records(run)}
        for record in now:
            name = f"{run}/{record.job}"
            match standing(before[record.job].instance, observed):
                case Standing.GONE:
                    found.append(f"{name}: its GPU instance is gone")
                case Standing.TAKEN:
                    found.append(f"{name}: another GPU instance is in the place of its own")
                case Standing.HALF:
                    found.append(f"{name}: its GPU instance has no compute instance")
                case Standing.NONE | Standing.OURS | Standing.UNKNOWN:
                    pass
            if record.state is JobState.LOST:
                found.append(f"{name}: lost ({record.reason})")
            real = process_cpus(record.pid) if record.state is JobState.RUNNING and record.pid else None
            if real is not None and real != record.cpus:
                found.append(f"{name}: runs on CPUs {real or CpuSet()}, not on {record.cpus}")
    return found
