"""GPUs that the driver could not read: said as warnings, and as the error where one of them was meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from migctl.core.plan import Plan
from migctl.errors import MigctlError, Notice, Problems


def failure_notices(failures: Sequence[MigctlError]) -> tuple[Notice, ...]:
    """One warning for each GPU that is left out."""
    return tuple(
        Notice(error.id, f"{error.message}; this GPU is left out", hint=error.hint, where=error.where)
        for error in failures
    )


@contextmanager
def real_failure(failures: Sequence[MigctlError], plan: Plan) -> Iterator[None]:
    """Where no GPU is found, or not the one that the plan names, tell what the driver said instead.

    Raises:
        MigctlError: the failure of the GPU that was meant.
    """
    try:
        yield
    except MigctlError as error:
        meant = failures if error.id == "no-gpu" else [f for f in failures if _named(f, plan)]
        if not meant or error.id not in ("no-gpu", "no-such-gpu"):
            raise
        raise (meant[0] if len(meant) == 1 else Problems(meant)) from error


def _named(failure: MigctlError, plan: Plan) -> bool:
    """Whether the plan names this GPU, by index or UUID, as the failure does."""
    selectors = [*plan.gpus, *(selector for job in plan.jobs for selector in job.gpus)]
    gpu = str(failure.data.get("gpu"))
    return any(gpu in (str(s.index), s.uuid) for s in selectors if s.index is not None or s.uuid is not None)
