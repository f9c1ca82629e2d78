"""What becomes of an `up` that cannot be finished: it is taken back, or what stays is named with the command that recovers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NoReturn

from migctl.core.run import Run
from migctl.engine.apply import Workshop
from migctl.engine.claiming import claim
from migctl.errors import Interrupted, MigctlError, PartlyApplied, Problems


def undo(shop: Workshop, run: Run, jobs: Collection[str], problems: Mapping[str, MigctlError]) -> NoReturn:
    """Take back what this call made for these jobs, and raise what was wrong.

    Raises:
        PartlyApplied: not all of it could be taken back.
        Interrupted: a signal came, and nothing was wrong.
        MigctlError: the problems themselves; nothing is left.
    """
    try:
        unfinished = _take_back(shop, run, jobs)
    except MigctlError as error:
        raise partly(run.name, [*problems.values(), error], "undoing this `up`") from error
    if unfinished:
        raise partly(run.name, [*problems.values(), *unfinished], "undoing this `up`")
    if shop.cancel.is_set() and not problems:
        raise Interrupted("interrupted", "interrupted; everything that this command had made is undone")
    raise Problems(list(problems.values())) if len(problems) > 1 else next(iter(problems.values()))


def _take_back(shop: Workshop, run: Run, jobs: Collection[str]) -> Sequence[MigctlError]:
    """Undo what was made for these jobs; returns why something is left."""
    now = shop.look(run.name)
    made = {name: record for name, record in now.records.items() if name in jobs}
    gone = shop.take_down(made, now, grace_s=0.0)
    left = shop.ledger.records(run.name)
    claim(shop.session, run, left, now.observed.boot_id)
    if not left:
        mine = {record.token for record in made.values()}
        if all(past.token in mine for past in shop.ledger.history(run.name)):
            shop.ledger.forget_run(run.name)
        else:
            shop.ledger.end_run(run.name)  # an earlier run of this name has its logs here
    return list(gone.errors.values())


def partly(run: str, errors: Iterable[MigctlError], doing: str) -> PartlyApplied:
    """Something of this call stays; `down` removes it."""
    texts = "; ".join(dict.fromkeys(error.message for error in errors))
    return PartlyApplied(
        "partly-applied", f"{doing} could not be finished: {texts}", where=f"run {run}", hint=f"migctl down {run}"
    )
