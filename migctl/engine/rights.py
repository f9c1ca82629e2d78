"""What this user may do here, found out before anything is changed, and how it looks in `check`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from migctl.errors import HostError, Notice

if TYPE_CHECKING:
    from migctl.core.gpu.mig import Gpu
    from migctl.core.runs.record import Record
    from migctl.core.views.findings import Finding
    from migctl.engine.session import Session


def require_instances(session: Session, records: Mapping[str, Record]) -> None:
    """Before the first change: whoever needs new GPU instances must be allowed to make them.

    The simulator has rights of its own, which it tells like a driver.

    Raises:
        HostError: `no-permission`.
    """
    needing = [
        name
        for name, record in records.items()
        if record.profile_id is not None
        and (record.instance is None or (not record.instance.foreign and record.instance.ci_id is None))
    ]
    if session.simulated or not needing:
        return
    from migctl.host.rights import rights

    found = rights()
    if not found.instances:
        raise HostError(
            "no-permission",
            f"{session.caller.name} may not make GPU instances: that takes root, or read access to {found.capability}; "
            "nothing was changed",
            where=f"job {needing[0]}",
            hint="ask an administrator for the capability (migctl check says how)",
            data={"needs_root": True, "capability": str(found.capability)},
        )


def require_mode(session: Session, gpu: Gpu) -> None:
    """Before the first change, also of services, images and records: whoever changes a MIG mode must be root.

    The simulator has rights of its own, which it tells like a driver.

    Raises:
        HostError: `no-permission`.
    """
    if session.simulated:
        return
    from migctl.host.rights import rights

    if not rights().administrator:
        raise HostError(
            "no-permission",
            f"{session.caller.name} may not change the MIG mode: that takes root (CAP_SYS_ADMIN); nothing was changed",
            where=f"GPU {gpu.index}",
            data={"needs_root": True},
        )


def sudo_notices(session: Session) -> tuple[Notice, ...]:
    """Variables that the user's shell has set and sudo kept from us: with them the command would mean something else."""
    if not session.caller.sudo:
        return ()
    from migctl.host.sudo import dropped
    from migctl.runtimes.program import environment_of_sudo

    before = environment_of_sudo(os.getppid())
    names = dropped(session.environ, before) if before is not None else ()
    if not names:
        return ()
    return (
        Notice(
            "sudo-environment",
            f"sudo did not hand on {', '.join(names)}, which your shell has set; this command goes without "
            f"{'it' if len(names) == 1 else 'them'}",
            hint=f"sudo --preserve-env={','.join(names)} …",
        ),
    )


def findings(session: Session, words: Sequence[str], *, real_gpus: bool) -> Iterator[Finding]:
    """The lines of `check` about rights and folders.

    Args:
        session: of the command.
        words: the command that would need the rights: `["up", "plan.yaml"]`.
        real_gpus: whether there are GPUs whose driver asks for rights.
    """
    from migctl.core.views.findings import Finding, Level
    from migctl.host.sudo import sudo_line
    from migctl.host.usable import private_problem, shared_problem

    if real_gpus:
        yield from _instances(session, words)
    for notice in sudo_notices(session):
        yield Finding(id=notice.id, level=Level.WARNING, message=notice.message, hint=notice.hint)
    if session.caller.sudo:
        yield Finding(
            id="acting-for",
            level=Level.OK,
            message=f"sudo: runs, files and jobs are those of {session.caller.name} (uid {session.caller.uid})",
        )
    for name, folder, problem in (
        ("state-dir", session.paths.state, private_problem(session.paths.state, session.caller)),
        ("run-dir", session.paths.run, shared_problem(session.paths.run)),
    ):
        if problem is None:
            yield Finding(id=name, level=Level.OK, message=str(folder))
        else:
            hint = f"{problem.hint}; or {sudo_line(session.environ, words)}" if os.geteuid() else problem.hint
            yield Finding(id=problem.id, level=Level.FAILURE, message=problem.message, hint=hint)


def _instances(session: Session, words: Sequence[str]) -> Iterator[Finding]:
    from migctl.core.views.findings import Finding, Level
    from migctl.host.rights import rights
    from migctl.host.sudo import sudo_line

    found = rights()
    if found.administrator:
        yield Finding(id="rights", level=Level.OK, message="GPU instances may be made, and MIG modes changed")
        return
    if found.delegated:
        yield Finding(
            id="rights",
            level=Level.OK,
            message=f"GPU instances may be made, by read access to {found.capability}; changing a MIG mode takes root",
        )
        return
    yield Finding(
        id="no-permission",
        level=Level.FAILURE,
        message=f"{session.caller.name} may not make GPU instances: that takes root, or read access to {found.capability}",
        hint=sudo_line(session.environ, words),
    )
    yield Finding(
        id="delegation",
        level=Level.WARNING,
        message="an administrator can let a group make GPU instances without root, here for the group `gpu`, until the next "
        f"boot; a line `z {found.capability} 0440 root gpu` in /etc/tmpfiles.d repeats it then",
        hint=f"sudo chgrp gpu {found.capability} && sudo chmod 0440 {found.capability}",
    )
