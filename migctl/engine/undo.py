"""What becomes of an `up` that cannot be finished: it is taken back, or what stays is named with the command that recovers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

from migctl.core.runs.record import JobState
from migctl.core.runs.run import Run
from migctl.engine.apply import Workshop
from migctl.engine.claiming import claim
from migctl.engine.gpumode.mode import StaysOn, put_back
from migctl.errors import Interrupted, MigctlError, PartlyApplied, Problems

_DOING = "undoing this `up`"


@contextmanager
def taken_back(shop: Workshop, name: str) -> Iterator[None]:
    """Where what is done in here fails, no MIG mode stays on that was turned on for it, and no run is kept that has nothing left.

    Entered with the `machine` lock held.

    Raises:
        PartlyApplied: a mode could not be put back; the run is kept, and with it the note of who turned it on.
        Interrupted: the same, and a signal was the reason.
    """
    before = shop.ledger.run(name)
    noted = before.mig_enabled if before is not None else ()
    earlier = bool(shop.ledger.history(name) or shop.ledger.records(name))
    try:
        yield
    except MigctlError as error:
        try:
            stays = _without_mode(shop, name, noted, earlier=earlier)
        except MigctlError as again:
            raise partly(name, [*error.all, again], _DOING) from error
        if stays:
            raise _left_on(name, stays, error) from error
        raise
    except Exception as bug:
        try:
            for left in _without_mode(shop, name, noted, earlier=earlier):
                bug.add_note(f"{left.name} stays in MIG mode ({left.why}); {left.command}")
        except MigctlError as again:
            bug.add_note(f"{again.message}; migctl down {name} removes what is left")
        raise


def _without_mode(shop: Workshop, name: str, noted: Collection[str], *, earlier: bool) -> Sequence[StaysOn]:
    """Put back what was turned on, and close the run where nothing is left of it.

    Args:
        noted: GPUs that an earlier call turned on; theirs is put back only with the end of the run.
        earlier: whether the run, or one of its name before it, had jobs before this call, whose logs are kept.

    Returns:
        The GPUs that this call turned on and that stay so.
    """
    run = shop.ledger.run(name)
    if run is None:
        return ()
    records = shop.ledger.records(name)
    used = {record.gpu_uuid for record in records}
    over = [uuid for uuid in run.mig_enabled if not records or (uuid not in noted and uuid not in used)]
    run, stays = put_back(shop, run, over)
    if not records and not stays:
        if earlier:
            shop.ledger.end_run(name)
        else:
            shop.ledger.forget_run(name)
    return [left for left in stays if left.uuid not in noted]


def _left_on(name: str, stays: Sequence[StaysOn], error: MigctlError) -> MigctlError:
    """The error, with what it leaves behind."""
    left = " and ".join(f"{one.name} stays in MIG mode ({one.why})" for one in stays)
    commands = " and ".join(one.command for one in stays)
    more = isinstance(error, PartlyApplied)
    return _partly_or_interrupted(error)(
        _id(error, "mig-mode-left"),
        f"{_text(error)}. {'And' if more else 'Everything else is undone, but'} {left}",
        where=f"run {name}",
        hint=f"{error.hint}; then {commands}" if more else f"{commands}, then migctl down {name}",
        data={**error.data, "gpus": [one.uuid for one in stays]},
    )


def undo(shop: Workshop, run: Run, jobs: Collection[str], problems: Mapping[str, MigctlError]) -> NoReturn:
    """Take back what this call made for these jobs, and raise what was wrong; the run itself is closed by `taken_back`.

    Raises:
        PartlyApplied: not all of it could be taken back.
        Interrupted: a signal came, and nothing was wrong.
        MigctlError: the problems themselves; nothing is left.
    """
    try:
        unfinished = _take_back(shop, run, jobs)
    except MigctlError as error:
        raise partly(run.name, [*problems.values(), error], _DOING, interrupted=shop.cancel.is_set()) from error
    if unfinished:
        raise partly(run.name, [*problems.values(), *unfinished], _DOING, interrupted=shop.cancel.is_set())
    if shop.cancel.is_set() and not problems:
        raise Interrupted("interrupted", "interrupted; everything that this command had made is undone")
    raise Problems(list(problems.values())) if len(problems) > 1 else next(iter(problems.values()))


def _take_back(shop: Workshop, run: Run, jobs: Collection[str]) -> Sequence[MigctlError]:
    """Undo what was made for these jobs; returns why something is left."""
    now = shop.look(run.name)
    made = {name: record for name, record in now.records.items() if name in jobs}
    if shop.ledger.submissions.queue(run.name) is not None:
        # Of a queue the rest goes on without this call: what has succeeded meanwhile must not run again.
        made = {name: record for name, record in made.items() if record.state is not JobState.SUCCEEDED}
    gone = shop.take_down(made, now, grace_s=0.0)
    claim(shop.session, run, shop.ledger.records(run.name), now.observed.boot_id)
    return list(gone.errors.values())


def partly(run: str, errors: Iterable[MigctlError], doing: str, *, interrupted: bool = False) -> MigctlError:
    """Something of this call stays; `down` removes it. A signal stays the reason of an end."""
    texts = "; ".join(dict.fromkeys(error.message for error in errors))
    return (Interrupted if interrupted else PartlyApplied)(
        "partly-applied", f"{doing} could not be finished: {texts}", where=f"run {run}", hint=f"migctl down {run}"
    )


def without_the_old(run: str, removed: Sequence[str], error: MigctlError) -> MigctlError:
    """The old jobs are gone, and the new ones did not come: whatever the reason is, something has been changed."""
    return _partly_or_interrupted(error)(
        _id(error, "partly-applied"),
        f"{_text(error)}. Removed already, to be replaced: {', '.join(removed)}",
        where=f"run {run}",
        hint=f"{error.hint}; then migctl up" if error.hint else "migctl up",
        data={**error.data, "removed": list(removed)},
    )


def _partly_or_interrupted(error: MigctlError) -> type[MigctlError]:
    """A signal stays the reason of an end, also of one that leaves something."""
    return Interrupted if isinstance(error, Interrupted) else PartlyApplied


def _id(error: MigctlError, name: str) -> str:
    return error.id if isinstance(error, Interrupted) else name


def _text(error: MigctlError) -> str:
    return "; ".join(dict.fromkeys(one.message for one in error.all))
