"""From an engine's description of a container to a unit; pure but for the start ticks of its process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.ending.exit_codes import OOM_FLAG, exit_words
from migctl.core.runs.labels import LABEL
from migctl.core.runs.observed import Recorded, Unit
from migctl.core.runs.record import JobState
from migctl.runtimes import proc

if TYPE_CHECKING:
    from migctl.core.runs.adoption import Leftover

_CALLS_AT_ONCE = 16


def is_ours(labels: Mapping[str, str] | None) -> bool:
    """The labels that only migctl's containers have are all there."""
    return labels is not None and all(labels.get(LABEL + key) for key in ("run", "job", "token"))


def is_foreign(labels: Mapping[str, str] | None, known: Recorded | None) -> bool:
    """Whether migctl did not make it, or nobody speaks for it any more.

    Args:
        labels: of the container.
        known: what the caller's records know; for what another user's or state directory's migctl made, its claims speak.
    """
    if labels is None or not is_ours(labels):
        return True
    return (
        known is not None and labels.get(LABEL + "store") == known.store and labels[LABEL + "token"] not in known.tokens
    )


def unit_of(data: Mapping[str, Any], *, local: bool) -> Unit:
    """The unit of an inspected container.

    Args:
        data: answer of `GET /containers/ID/json`.
        local: the engine's pids are this machine's.
    """
    labels = data["Config"]["Labels"]
    state = data["State"]
    what, reason = _state(state)
    pid = state.get("Pid") or None
    return Unit(
        handle=data["Id"],
        run=labels[LABEL + "run"],
        job=labels[LABEL + "job"],
        token=labels[LABEL + "token"],
        state=what,
        pid=pid,
        pid_start=proc.start_ticks(pid) if pid is not None and local else None,
        exit_code=state.get("ExitCode") if what.ended else None,
        reason=reason,
        started_at=unix_seconds(state.get("StartedAt")),
        finished_at=unix_seconds(state.get("FinishedAt")) if what.ended else None,
        cpus=CpuSet.parse(data["HostConfig"].get("CpusetCpus") or ""),
    )


def leftover_of(data: Mapping[str, Any], *, local: bool) -> Leftover:
    """An inspected container with everything its labels say; arguments as for `unit_of`."""
    from migctl.core.runs.adoption import Leftover

    return Leftover(unit_of(data, local=local), str(data["Name"]).lstrip("/"), dict(data["Config"]["Labels"]))


def _state(state: Mapping[str, Any]) -> tuple[JobState, str | None]:
    status = state.get("Status")
    code = int(state.get("ExitCode") or 0)
    trouble = str(state.get("Error") or "") or None
    if status in ("created", "configured", "initialized"):
        if trouble and code:
            return JobState.FAILED, trouble
        return JobState.STARTING, None
    if status in ("running", "paused", "restarting", "stopping"):
        return JobState.RUNNING, "paused" if status == "paused" else None
    if status == "dead":
        return JobState.LOST, trouble or "the engine could not remove its remains"
    if state.get("OOMKilled") and code:
        return JobState.FAILED, OOM_FLAG
    if code == 0:
        return JobState.SUCCEEDED, None
    return JobState.FAILED, trouble or exit_words(code)


def unix_seconds(text: object) -> float | None:
    """An engine's time (RFC 3339, nanoseconds) in seconds since 1970; its year 1 means "never"."""
    if not isinstance(text, str) or not text or text.startswith("0001-"):
        return None
    return datetime.fromisoformat(text).timestamp()


def each(call: Callable[[str], Mapping[str, Any] | None], handles: Sequence[str]) -> list[Mapping[str, Any] | None]:
    """Side by side: an inspect takes the engine milliseconds, of which most are waiting."""
    if len(handles) < 2:
        return [call(handle) for handle in handles]
    with ThreadPoolExecutor(min(len(handles), _CALLS_AT_ONCE)) as pool:
        return list(pool.map(call, handles))
