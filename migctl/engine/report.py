"""Gathers everything that is kept of one run, living, ended or undone, for its report; changes nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from migctl import __version__
from migctl.core.gpu.mig import Gpu
from migctl.core.plankeys import plan_keys
from migctl.core.redaction import redacted
from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.core.runs.sameness import spec
from migctl.core.seeing.spells import spells
from migctl.core.views.report import (
    ReportAttempt,
    ReportGpu,
    ReportJob,
    ReportMachine,
    ReportView,
    ReportWaiting,
)
from migctl.core.views.status import state_of
from migctl.engine.clusters.clusterruns import on_cluster
from migctl.engine.observe import elsewhere, known_gpus
from migctl.engine.past import all_attempts, found_run
from migctl.engine.queueing.queued import Waiting, waiting
from migctl.engine.session import Session
from migctl.engine.targets import find_run
from migctl.errors import MigctlError, Notice
from migctl.host.procfs import memory_total_mib
from migctl.host.sysfs import read_topology
from migctl.store.ledger import Ledger
from migctl.store.samples import Track, read_track


def report(session: Session, word: str | None, folder: Path) -> ReportView:
    """Everything about one run; what cannot be had is left out, and a notice says why.

    Args:
        word: a run's name or its plan file; `None` = the only run, or that of the plan in the folder; else the last one that lived.
        folder: that a plan file is relative to.

    Raises:
        PlanError: there is no such run.
    """
    with session.ledger(write=False) as ledger:
        run = _chosen(ledger, word, folder)
        records = all_attempts(session, ledger, run)
        notices = list(ledger.notices)
        waits = _waiting(ledger, run, notices)
        plan = _plan(ledger, run, records)
    track = _track(session, run, notices)
    gpus, problems = _driver(session, run)
    away = elsewhere(run, records, gpus, session.nvml)
    notices += [] if away else problems
    ends = {r.job: r.finished_at for r in records if r.finished_at is not None and r.state.ended}
    local = time.localtime(session.now())
    order = {job.name: number for number, job in enumerate(plan)}
    states = {r.job: r.state for r in records} | {name: one.state for name, one in waits.items()}
    return ReportView(
        now=session.now(),
        utc_offset_s=local.tm_gmtoff,
        zone=local.tm_zone,
        name=run.name,
        state="removed" if run.ended_at is not None else state_of(set(states.values())),
        plan_path=run.plan_path,
        runtime=run.runtime,
        strategy=run.strategy,
        engine=run.engine,
        simulated=run.nvml,
        created_at=run.created_at,
        ended_at=run.ended_at,
        attempts=tuple(
            sorted((_attempt(r) for r in records), key=lambda a: (order.get(a.job, len(order)), a.job, a.attempt))
        ),
        waiting=tuple(
            ReportWaiting(job=name, state=one.state, reason=redacted(one.reason)) for name, one in waits.items()
        ),
        plan=plan,
        gpus=_gpus(records, {} if away else {gpu.uuid: gpu for gpu in gpus}),
        machine=_machine(session),
        samples=track.samples,
        verdicts=spells(track.said, ends),
        notices=tuple(notices),
    )


def _driver(session: Session, run: Run) -> tuple[tuple[Gpu, ...], list[Notice]]:
    """The GPUs of this machine, and what is not told of them; for a run on a cluster they mean nothing."""
    if on_cluster(run):
        return (), []
    _, gpus, problems = known_gpus(session)
    return gpus, problems


def _chosen(ledger: Ledger, word: str | None, folder: Path) -> Run:
    if word is not None:
        return found_run(ledger, word, folder)
    if not ledger.runs() and (over := ledger.runs(ended=True)):
        return max(over, key=lambda run: run.ended_at or 0.0)
    return find_run(ledger, None, folder)


def _waiting(ledger: Ledger, run: Run, notices: list[Notice]) -> Mapping[str, Waiting]:
    if run.ended_at is not None:
        return {}
    try:
        return waiting(ledger, run.name, ledger.records(run.name))
    except MigctlError as error:
        notices.append(Notice(error.id, error.message, hint=error.hint))
        return {}


def _plan(ledger: Ledger, run: Run, records: Sequence[Record]) -> tuple[ReportJob, ...]:
    """The jobs as they were given: of those that wait, from the plan that was submitted, of the others from their last record."""
    try:
        submitted = ledger.submissions.submission(run.name)
    except MigctlError:
        submitted = None
    specs = {job.name: spec(job) for job in submitted.plan.jobs} if submitted is not None else {}
    specs |= {record.job: record.spec for record in records if record.spec or record.job not in specs}
    return tuple(ReportJob(name=name, keys=plan_keys(text)) for name, text in specs.items())


def _track(session: Session, run: Run, notices: list[Notice]) -> Track:
    try:
        return read_track(session.paths.state, run.name)
    except MigctlError as error:
        notices.append(Notice(error.id, error.message, hint=error.hint))
        return Track()


def _attempt(record: Record) -> ReportAttempt:
    owned = record.instance
    return ReportAttempt(
        job=record.job,
        attempt=record.attempt,
        state=record.state,
        exit_code=record.exit_code,
        reason=redacted(record.reason) if record.reason else None,
        gpu_uuid=record.gpu_uuid,
        gi_id=owned.gi_id if owned is not None else None,
        profile=record.profile,
        placement=record.placement,
        memory_mib=record.memory_mib,
        cpus=record.cpus,
        cores=record.cores,
        num_workers=record.num_workers,
        started_at=record.started_at,
        finished_at=record.finished_at,
        code=record.code,
    )


def _gpus(records: Sequence[Record], there: Mapping[str, Gpu]) -> tuple[ReportGpu, ...]:
    """The GPUs that the run used, those that are there first, by their number."""
    used = dict.fromkeys(record.gpu_uuid for record in records if record.gpu_uuid is not None)
    found = [_known(there[uuid]) if uuid in there else _gone(uuid, records) for uuid in used]
    return tuple(sorted(found, key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.uuid)))


def _known(gpu: Gpu) -> ReportGpu:
    return ReportGpu(
        uuid=gpu.uuid,
        name=gpu.name,
        index=gpu.index,
        memory_slices=int(gpu.memory_slices),
        memory_mib=gpu.memory_mib,
    )


def _gone(uuid: str, records: Sequence[Record]) -> ReportGpu:
    ends = [r.placement.end for r in records if r.gpu_uuid == uuid and r.placement is not None]
    return ReportGpu(uuid=uuid, name="GPU", memory_slices=max(ends, default=0), known=False)


def _machine(session: Session) -> ReportMachine:
    topology = read_topology(session.root)
    system = os.uname()
    return ReportMachine(
        host=system.nodename,
        kernel=f"{system.sysname} {system.release} {system.machine}",
        cores=len(topology.cores),
        logical_cpus=len(topology.online),
        nodes=len({core.node for core in topology.cores}),
        memory_mib=memory_total_mib(session.root),
        version=__version__,
    )
