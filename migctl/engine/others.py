"""Other controllers and other users of migctl on this machine, for `check` and `up`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from migctl.core.others.controllers import Controller
from migctl.core.views.findings import Finding, Level
from migctl.core.words import counted
from migctl.engine.session import Session
from migctl.errors import Notice
from migctl.host.claims import read_claims
from migctl.host.controllers import find_controllers


def controllers(session: Session) -> tuple[Controller, ...]:
    """Those of this machine; none has a hand in simulated GPUs, unless another machine's tree is read."""
    if session.simulated and session.root == Path("/"):
        return ()
    return find_controllers(session.root)


def controller_notices(session: Session) -> tuple[Notice, ...]:
    """For `up`: what may take away what it has just made."""
    return tuple(Notice(one.id, one.message, hint=one.hint) for one in controllers(session))


def other_findings(session: Session, boot_id: str) -> Iterator[Finding]:
    """For `check`: each controller with its next step, and what other users' runs hold."""
    for one in controllers(session):
        yield Finding(id=one.id, level=Level.WARNING, message=one.message, hint=one.hint)
    for claim in read_claims(session.paths.run, boot_id):
        if claim.uid != session.caller.uid:
            places = sum(len(places) for places in claim.gpus.values())
            what = counted(places, "GPU instance") if places else "GPUs as a whole"
            yield Finding(
                id="other-user",
                level=Level.OK,
                message=f"{claim.user} runs {claim.run} here: {what}, CPUs {claim.cpus or 'none'}; migctl keeps clear of them",
            )
