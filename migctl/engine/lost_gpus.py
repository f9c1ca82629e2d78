"""Running jobs whose container does not reach its GPU any more: only the container itself knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from migctl.core.choices import RuntimeName
from migctl.core.runs.record import JobState, Record
from migctl.engine.session import Session
from migctl.errors import MigctlError


def lost_gpus(session: Session, records: Iterable[Record]) -> Mapping[str, str]:
    """`run/job` → why, in words; an engine that does not answer has been told of where its containers were looked for."""
    running = [
        r for r in records if r.state is JobState.RUNNING and r.container_id is not None and r.gpu_uuid is not None
    ]
    found: dict[str, str] = {}
    for kind, group in groupby(sorted(running, key=lambda r: r.runtime), key=lambda r: r.runtime):
        own = {str(record.container_id): record for record in group}
        try:
            symptoms = session.runtime(RuntimeName(kind)).lost_gpus(list(own))
        except MigctlError:
            continue
        for handle, symptom in symptoms.items():
            found[f"{own[handle].run}/{own[handle].job}"] = f"lost its GPU: {symptom}"
    return found


def told(lost: Mapping[str, str]) -> Iterator[str]:
    """Each as a difference between the machine and the records, with what to do: a container never gets its GPU back."""
    for name, why in lost.items():
        yield (
            f"{name}: {why} (a systemctl daemon-reload or docker update does that); only a new container reaches it: "
            f"`migctl restart {name}`; `migctl check` tells how to prevent it"
        )
