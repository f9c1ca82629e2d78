"""The MPS control daemons of this user's jobs: one for each GPU or instance that they share, from the first job to the last."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from migctl.core.choices import Strategy
from migctl.core.gpu.mps import served, uses_mps
from migctl.core.plan import Plan
from migctl.core.runs.record import Record
from migctl.core.views.findings import Finding, Level
from migctl.engine.session import Session
from migctl.errors import HostError, MigctlError, Notice
from migctl.host.claims import store_name
from migctl.host.mps import GPU, PROGRAM, MpsDaemon, no_program
from migctl.host.paths import make_shared
from migctl.programs import find_program
from migctl.store.ledger import Ledger


def pipes_of(session: Session, plan: Plan, strategy: Strategy) -> Callable[[Record], str | None]:
    """Tells the pipe directory of a job's daemon; nothing where it is no client. A simulated GPU has no daemon."""
    clients = {job.name for job in plan.jobs if uses_mps(job, strategy)} if not session.simulated else set()

    def pipes(record: Record) -> str | None:
        uuid = served(record) if record.job in clients else None
        return str(_daemon(session, uuid).pipes) if uuid is not None else None

    return pipes


def start_daemons(session: Session, plan: Plan, records: Iterable[Record]) -> None:
    """Have the daemons run that these starting jobs need, as far as their instance is there.

    Raises:
        HostError: one does not start, or a job is another user's than the daemon serves.
    """
    if session.simulated:
        return
    clients = {job.name: job for job in plan.jobs if job.mps is not None}
    for record in records:
        job, uuid = clients.get(record.job), served(record)
        if job is None or uuid is None or not uses_mps(job, Strategy(record.strategy)):
            continue
        if job.user is not None and os.geteuid() != 0 and job.user.partition(":")[0] != str(session.caller.uid):
            raise HostError(
                "mps-of-another-user",
                f"job {job.name} runs as user {job.user}, and an MPS server that {session.caller.name} starts serves "
                f"uid {session.caller.uid} alone",
                where=job.place("user", "mps"),
                hint="leave user away for your own, or bring the plan up with sudo",
            )
        make_shared(session.paths.run)
        _daemon(session, uuid).start()


def stop_daemons(
    session: Session, ledger: Ledger, holding: Callable[[], AbstractContextManager[None]] = nullcontext
) -> tuple[MigctlError, ...]:
    """End the daemons on whose GPU or instance no job of this user runs any more; returns what did not end.

    Args:
        holding: entered where there is any: it keeps those out who are about to start a job there.
    """
    if not any(_there(session)):
        return ()
    problems: list[MigctlError] = []
    with holding():
        used = _used(ledger)
        for daemon in [daemon for daemon, uuid in _there(session) if uuid not in used]:
            try:
                daemon.stop()
            except MigctlError as error:
                problems.append(error)
    return tuple(problems)


def stop_daemon_of(session: Session, uuid: str | None) -> None:
    """End the daemon of an instance that is about to go: its server holds it.

    Raises:
        HostError: it is still there.
    """
    if uuid is not None and not session.simulated:
        for daemon, served_by_it in _there(session):
            if served_by_it == uuid:
                daemon.stop()


def mps_findings(session: Session, plan: Plan, strategy: Strategy) -> Iterator[Finding]:
    """What `check` says of the program that jobs with `mps` need."""
    if session.simulated or not any(uses_mps(job, strategy) for job in plan.jobs):
        return
    program = find_program(PROGRAM, session.environ)
    if program is None:
        error = no_program()
        yield Finding(id=error.id, level=Level.FAILURE, message=error.message, hint=error.hint)
    else:
        place = "GPU" if strategy is Strategy.SHARED else "instance"
        yield Finding(id="mps", level=Level.OK, message=f"jobs with mps share one daemon for each {place}: {program}")


def mps_notices(session: Session, plan: Plan, strategy: Strategy) -> tuple[Notice, ...]:
    """What is not done on a simulated GPU."""
    if not session.simulated or not any(uses_mps(job, strategy) for job in plan.jobs):
        return ()
    return (Notice("no-mps-daemon", "simulated: no MPS daemon is started, and jobs are told of none"),)


def _used(ledger: Ledger) -> Collection[str]:
    records = (record for run in ledger.runs() for record in ledger.records(run.name))
    found = (served(record) for record in records if not record.state.ended)
    return frozenset(uuid for uuid in found if uuid is not None)


def _there(session: Session) -> Iterator[tuple[MpsDaemon, str]]:
    """Those that were started, also by a migctl that was killed since."""
    for folder in sorted(session.paths.run.glob(f"{_prefix(session)}*")):
        try:
            uuid = (folder / GPU).read_text().strip()
        except OSError:
            continue
        daemon = MpsDaemon(folder, uuid, session.environ)
        if folder == _folder(session, uuid):
            yield daemon, uuid


def _daemon(session: Session, gpu_uuid: str) -> MpsDaemon:
    return MpsDaemon(_folder(session, gpu_uuid), gpu_uuid, session.environ)


def _folder(session: Session, gpu_uuid: str) -> Path:
    """Short, since a socket's path has an end; in the machine's folder, which a restart of the machine empties."""
    short = hashlib.blake2b(gpu_uuid.encode(), digest_size=4).hexdigest()
    return session.paths.run / f"{_prefix(session)}{short}"


def _prefix(session: Session) -> str:
    return f"mps-{session.caller.uid}-{store_name(session.paths.state)[:8]}-"
