"""The answer to `status`: runs, jobs, instances and cores as they are now, and where they differ from what was recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from migctl.core.choices import RuntimeName
from migctl.core.cpu.corecells import cores_view
from migctl.core.cpu.pinning import Pinning
from migctl.core.gpu.mig import Gpu
from migctl.core.othercode import other_code
from migctl.core.queueing.handing import sole_owners
from migctl.core.runs.observed import Observed, Unit
from migctl.core.runs.ownership import ADMINISTRATORS, NOT_OURS
from migctl.core.runs.record import JobState, Record
from migctl.core.runs.run import Run
from migctl.core.runs.settle import settle
from migctl.core.views.status import GpuView, InstanceView, JobView, RunView, StatusView, run_state
from migctl.engine.clusters.clusterruns import on_cluster, view
from migctl.engine.drift import after_restart, differences
from migctl.engine.endings import explain
from migctl.engine.lost_gpus import lost_gpus, told
from migctl.engine.observe import elsewhere, known_gpus, other_nvml, owners
from migctl.engine.pins import AWAY, load_notices, pins
from migctl.engine.queueing.queue_views import queue_notices, with_course, with_waiting
from migctl.engine.rights import sudo_notices
from migctl.engine.said import with_said
from migctl.engine.session import Session
from migctl.engine.unrecorded import notices as without_record
from migctl.engine.unrecorded import unrecorded
from migctl.errors import MigctlError, Notice
from migctl.host.claims import read_claims
from migctl.host.sysfs import read_topology
from migctl.runtimes.bare import with_bare
from migctl.store.ledger import Ledger


def status(session: Session, names: Sequence[str] | None, *, ended: bool = False) -> StatusView:
    """Look at everything once. A source that fails blanks only what it would have told.

    Args:
        names: these runs; `None` = all.
        ended: runs that `down` has undone, too.
    """
    with session.ledger(write=False) as ledger:
        runs = [run for run in ledger.runs(ended=ended) if names is None or run.name in names]
        clustered = {run.name: view(session, ledger, run) for run in runs if on_cluster(run)}
        if clustered and len(clustered) == len(runs):
            return _of_clusters(session, ledger, runs, clustered)
        every, runs = runs, [run for run in runs if not on_cluster(run)]
        notices = [*sudo_notices(session), *ledger.notices, *without_record(unrecorded(session, ledger))]
        boot_now, gpus, problems = known_gpus(session)
        notices += problems
        units, silent = _units(session, ledger, runs, notices)
        recorded = [record for run in runs for record in ledger.records(run.name)]
        observed = Observed(boot_id=boot_now, gpus=gpus, units=with_bare(units, recorded, boot_now))
        settled: dict[str, tuple[Record, ...]] = {}
        for run in runs:
            records = ledger.records(run.name)
            away = elsewhere(run, records, gpus, session.nvml)
            known = run.runtime not in silent and not away
            settled[run.name] = _now(session, ledger, run, records, observed) if known else records
            if away:
                message, hint = other_nvml(run)
                notices.append(Notice("other-nvml", f"{message}; shown is what was recorded", hint=hint))
        before = {run: {record.job: record for record in ledger.records(run)} for run in settled}
        notices += [n for run, now in settled.items() if (n := after_restart(run, before[run], now, observed))]
        lent = {
            (r.instance.gpu_uuid, r.instance.gi_id)
            for records in settled.values()
            for r in records
            if r.instance is not None and r.instance.foreign
        }
        having: dict[tuple[str, int], list[str]] = {}
        for records in settled.values():
            for r in records:
                if r.instance is not None:
                    having.setdefault((r.instance.gpu_uuid, r.instance.gi_id), []).append(f"{r.run}/{r.job}")
        pinned = pins(record for records in settled.values() for record in records)
        notices += load_notices(pinned)
        notices += queue_notices(session, ledger, runs)
        notices += [n for run, now in settled.items() if (n := other_code(run, now)) is not None]
        lost = lost_gpus(session, (r for run in runs if run.runtime not in silent for r in settled[run.name]))
        claims = list(read_claims(session.paths.run, boot_now))
        made_by = owners(ledger, observed, claims)
        return StatusView(
            now=session.now(),
            runs=tuple(
                clustered[run.name][0]
                if run.name in clustered
                else _run(session, run, settled[run.name], ledger, pinned, lost)
                for run in every
            ),
            gpus=tuple(_gpu(gpu, made_by, lent, having) for gpu in gpus),
            cores=cores_view(
                read_topology(session.root),
                {
                    f"{record.run}/{record.job}": record.cpus
                    for records in settled.values()
                    for record in records
                    if record.state in (JobState.RUNNING, JobState.STARTING)
                },
            ),
            drift=(
                *(d for run, now in settled.items() for d in differences(before[run], now, observed, pinned)),
                *told(lost),
            ),
            notices=(*notices, *(notice for _, more in clustered.values() for notice in more)),
            simulated=session.nvml,
        )


def _of_clusters(
    session: Session, ledger: Ledger, runs: Sequence[Run], views: Mapping[str, tuple[RunView, tuple[Notice, ...]]]
) -> StatusView:
    """Nothing of them is on this machine, so that nothing of it is looked at: often it has no GPU at all."""
    said = [notice for _, notices in views.values() for notice in notices]
    return StatusView(
        now=session.now(),
        runs=tuple(views[run.name][0] for run in runs),
        gpus=(),
        notices=(*ledger.notices, *said),
    )


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


def _now(
    session: Session, ledger: Ledger, run: Run, records: Sequence[Record], observed: Observed
) -> tuple[Record, ...]:
    """A run's records as the machine shows them, failed jobs with the reason that can be found out."""
    settled = sole_owners({r.job: settle(r, observed) for r in records})
    runtime = session.runtime(RuntimeName(run.runtime))
    explained = explain(settled, runtime=runtime, ledger=ledger, gpus=observed.gpus, now=session.now)
    return tuple(explained.values())


def _run(
    session: Session,
    run: Run,
    records: Sequence[Record],
    ledger: Ledger,
    pinned: Mapping[str, Pinning],
    lost: Mapping[str, str],
) -> RunView:
    names = {record.job: f"{record.run}/{record.job}" for record in records}
    jobs = tuple(_job(r, pinned.get(names[r.job]), lost.get(names[r.job])) for r in records)
    if run.ended_at is not None and not jobs:
        jobs = tuple(_job(record) for record in ledger.history(run.name))
    else:
        jobs = with_said(session, run, with_waiting(ledger, run, jobs))
    view = RunView(
        name=run.name,
        state="removed" if run.ended_at is not None else run_state(jobs),
        jobs=jobs,
        plan_path=run.plan_path,
        runtime=run.runtime,
        strategy=run.strategy,
        created_at=run.created_at,
        simulated=run.nvml,
    )
    return with_course(ledger, view) if run.ended_at is None else view


def _job(record: Record, pinned: Pinning | None = None, lost: str | None = None) -> JobView:
    owned = record.instance
    return JobView(
        name=record.job,
        origin=record.job,
        state=record.state,
        exit_code=record.exit_code,
        reason=lost or record.reason,
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
        code=record.code,
        pinning=pinned,
        unknown=(("workers_alive", AWAY),) if pinned is None and record.state is JobState.RUNNING else (),
    )


def _gpu(
    gpu: Gpu,
    made_by: Mapping[tuple[str, int], str],
    lent: Collection[tuple[str, int]],
    having: Mapping[tuple[str, int], Sequence[str]],
) -> GpuView:
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
                owner=made_by.get((gpu.uuid, instance.gi_id), NOT_OURS)
                if (gpu.uuid, instance.gi_id) not in lent
                else ADMINISTRATORS,
                jobs=tuple(having.get((gpu.uuid, instance.gi_id), ())),
                foreign=(gpu.uuid, instance.gi_id) not in made_by or (gpu.uuid, instance.gi_id) in lent,
            )
            for instance in sorted(gpu.instances, key=lambda i: (i.placement, i.gi_id))
        ),
        instances_reason=gpu.instances_reason,
    )
