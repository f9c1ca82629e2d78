"""`init`: what it asks, what it writes, and what it says to type next."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.cli.plans import STANDARD_INPUT
from migctl.core.choices import RuntimeName, Strategy
from migctl.core.proposing.firstplan import first_plan
from migctl.core.proposing.proposal import STAND_IN, Proposal, Seen, Wishes, propose
from migctl.core.proposing.questions import Question, Unanswered, answered, open_questions, wording
from migctl.core.words import counted
from migctl.engine.firstlook import FirstLook, first_look
from migctl.engine.planning import Elsewhere, view
from migctl.engine.session import Session
from migctl.errors import Busy, HostError, MigctlError, Notice, PlanError
from migctl.host.newfile import make_file
from migctl.host.replace import replace_file
from migctl.planfile import STANDARD, loads

_STANDARD_OUTPUT = STANDARD_INPUT
_NOT_ON_THIS_GPU = frozenset({"no-mig", "gpu-in-mig-mode", "mig-mode-off", "mig-mode-pending", "no-profiles"})
"""Errors of planning that mean that the strategy is not to be had, however long one waits."""


def write_first_plan(
    common: Common, wishes: Wishes, output: Path | None, *, on: str | None, asking: bool, replacing: bool
) -> None:
    """Look, ask, and write the plan once it is known that it can be planned.

    Raises:
        PlanError: there is nobody to ask, or a wish cannot be had.
        HostError: there is no GPU, no engine that was wished for, or a file in the way.
    """
    path = _path(output, replacing=replacing)
    session = common.session()
    look = first_look(session, Path.cwd(), on=on)
    _check(wishes, look, on)
    if asking:
        wishes = _ask(common, look.seen, wishes)
    proposal = propose(look.seen, wishes)
    _check_strategy(proposal)
    text = first_plan(proposal, look.seen, on=on or "")
    notices = [*_tried(session, text, path, on), *_about(proposal)]
    following = _next(common, path, on)
    if path != _STANDARD_OUTPUT:
        _write(path, text, session)
    if common.json:
        warnings = [{"id": notice.id, "message": notice.message, "hint": notice.hint} for notice in notices]
        jobs = [job.name for job in proposal.jobs]
        answer = {"version": 1, "plan": str(path), "text": text, "jobs": jobs, "next": following, "warnings": warnings}
        write_json(answer)
        return
    write(text if path == _STANDARD_OUTPUT else f"{path}: {_summary(proposal)}\nNext: {following}\n")
    _tell(common, notices)


def _write(path: Path, text: str, session: Session) -> None:
    if os.path.lexists(path):
        replace_file(path, path.read_bytes(), text.encode())
    else:
        make_file(path, text, session.caller)


def _path(output: Path | None, *, replacing: bool) -> Path:
    """Where the plan goes; without a name where a plan of this folder is looked for."""
    there = [Path(name) for name in STANDARD if os.path.lexists(name)]
    path = output if output is not None else next(iter(there), Path(STANDARD[0]))
    if path != _STANDARD_OUTPUT and os.path.lexists(path) and not replacing:
        raise HostError(
            "exists",
            f"{path} is there already, and is not overwritten",
            where=str(path),
            hint=f"migctl plan {path} shows it; migctl init --force replaces it, -o NAME writes another file",
        )
    return path


def _check(wishes: Wishes, look: FirstLook, on: str | None) -> None:
    if wishes.image is not None and wishes.runtime is RuntimeName.PROCESS:
        raise PlanError("usage", "processes have no image", hint="either --image NAME or --runtime process")
    wants_engine = wishes.image is not None or wishes.runtime is RuntimeName.DOCKER
    if wants_engine and on is None and look.no_engine is not None:
        raise look.no_engine


def _check_strategy(proposal: Proposal) -> None:
    """A plan would give such a GPU whole to one job, which is another strategy than the one wished for."""
    gpu = proposal.gpu
    if proposal.strategy is Strategy.MIG and gpu.mig is None:
        raise HostError(
            "no-mig",
            f"GPU {gpu.index} ({gpu.name}) has no MIG",
            where=f"GPU {gpu.index}",
            hint="migctl init --strategy sequential, or --strategy shared",
        )


def _ask(common: Common, seen: Seen, wishes: Wishes) -> Wishes:
    """Put what is open, at a terminal."""
    left = open_questions(seen, wishes)
    if left and (common.json or not sys.stdin.isatty()):
        raise PlanError(
            "nobody-to-ask",
            f"init has {counted(len(left), 'question')}, and there is no terminal to ask at",
            hint=f"migctl init --yes takes what is proposed; answered beforehand they are by {', '.join(left)}",
        )
    for question in left:
        wishes = _put(question, seen, wishes)
    return wishes


def _put(question: Question, seen: Seen, wishes: Wishes) -> Wishes:
    """Until there is an answer; the end of the input is Ctrl-C."""
    put = wording(question, seen, wishes)
    sys.stderr.write("".join(f"{line}\n" for line in put.told))
    while True:
        sys.stderr.write(f"{put.text} [{put.proposed}]: ".lstrip())
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise KeyboardInterrupt
        try:
            return answered(question, line, seen, wishes)
        except Unanswered as wrong:
            sys.stderr.write(f"{wrong}\n")


def _tried(session: Session, text: str, path: Path, on: str | None) -> list[Notice]:
    """The plan is read and planned before it is written; what only this machine's present state hinders is no fault of the plan.

    Raises:
        Problems: a wish makes no plan.
        DoesNotFit: it can never run there.
        HostError: no GPU can do what is wished for as it is.
    """
    plan = loads(text, path.name if path != _STANDARD_OUTPUT else STANDARD[0], Path.cwd(), session.environ)
    try:
        view(session, plan, Elsewhere(boards=on))
    except (HostError, Busy) as error:
        if error.id in _NOT_ON_THIS_GPU:
            raise
        return [_notice(one) for one in error.all]
    return []


def _notice(error: MigctlError) -> Notice:
    return Notice(error.id, error.message, hint=error.hint, where=error.where if isinstance(error.where, str) else None)


def _about(proposal: Proposal) -> list[Notice]:
    if all(job.command != STAND_IN for job in proposal.jobs):
        return []
    message = "no training was found in this folder: the plan runs a stand-in that shows what a job gets"
    return [
        Notice(
            "stand-in",
            message,
            hint="put your command in its place, or: migctl init --force --command 'python train.py'",
        )
    ]


def _summary(proposal: Proposal) -> str:
    place = f"in containers of {proposal.image}" if proposal.image is not None else "without containers"
    gpu = f"GPU {proposal.gpu.index} ({proposal.gpu.name})"
    return f"{counted(proposal.runs, 'job')}, {proposal.strategy.value} on {gpu}, {place}"


def _next(common: Common, path: Path, on: str | None) -> str:
    words = ["migctl", "plan", *([] if str(path) in STANDARD else [str(path)])]
    words += ["--on", on] if on is not None else []
    words += ["--nvml", common.nvml] if common.nvml is not None and on is None else []
    return shlex.join(words)


def _tell(common: Common, notices: list[Notice]) -> None:
    if not notices:
        return
    from migctl.cli.terminal import style
    from migctl.render.errors_text import notice_lines

    told = style(sys.stderr, no_color=common.no_color)
    sys.stderr.write("".join(f"{line}\n" for line in notice_lines(notices, told)))
