"""From a record and its job to what a runtime starts: name, labels, environment, command, with every `${MIGCTL_…}` resolved."""

from __future__ import annotations

from pathlib import Path

from migctl.core.handover import environment, resolve, shm_size_bytes
from migctl.core.plan import Job, Plan, RuntimeName
from migctl.core.record import Record
from migctl.host.caller import Caller
from migctl.runtimes.api import Launch

LABEL = "io.migctl."
"""Prefix of all labels on containers."""


def container_name(record: Record) -> str:
    """Unique on the engine: the token tells two attempts of equal names apart."""
    return f"migctl-{record.run}-{record.job}-{record.token[:8]}"


def labels(record: Record, caller: Caller, job: Job) -> tuple[tuple[str, str], ...]:
    """The truth about a container that outlives the store: whose, which job, on what."""
    owned = record.instance
    own = {
        "run": record.run,
        "job": record.job,
        "attempt": str(record.attempt),
        "token": record.token,
        "owner": str(caller.uid),
        "digest": record.digest,
        "spec": record.spec,
        "strategy": record.strategy,
        "gpu": record.gpu_uuid or "",
        "profile": record.profile or "",
        "placement": str(record.placement) if record.placement else "",
        "gi": str(owned.gi_id) if owned else "",
        "ci": str(owned.ci_id) if owned and owned.ci_id is not None else "",
        "mig-uuid": (owned.mig_uuid if owned else None) or "",
        "boot": record.boot_id,
        "cpus": str(record.cpus),
        "workers": str(record.num_workers),
    }
    return (*job.labels, *((LABEL + key, value) for key, value in own.items()))
