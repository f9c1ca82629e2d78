"""Launches for the runtime tests: everything has a value, a test names only what it is about."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.plan import Job
from migctl.runtimes.launch import Launch


def job(**changes: Any) -> Job:
    """A job that sleeps."""
    return Job(**{"name": "a", "origin": "a", "command": ("sleep", "60"), "network_mode": "none"} | changes)


def launch(spec: Job, folder: Path | str = "/nowhere", **changes: Any) -> Launch:
    """A launch of the job with a fresh token."""
    token = changes.pop("token", secrets.token_hex(8))
    run = changes.pop("run", f"run{token[:6]}")
    cpus = changes.pop("cpus", CpuSet({0}))
    labels = (
        ("io.migctl.run", run),
        ("io.migctl.job", spec.name),
        ("io.migctl.token", token),
        ("io.migctl.owner", str(changes.pop("owner", 0))),
        ("io.migctl.cpus", str(cpus)),
    )
    values: dict[str, Any] = {
        "run": run,
        "job": spec.name,
        "attempt": 1,
        "token": token,
        "name": f"migctl-{run}-{spec.name}-{token[:8]}",
        "folder": str(folder),
        "spec": spec,
        "image_id": None,
        "command": spec.command,
        "entrypoint": spec.entrypoint,
        "environment": (("PATH", "/usr/bin:/bin"), ("MIGCTL_JOB", spec.name)),
        "working_dir": spec.working_dir,
        "user": None,
        "cpus": cpus,
        "mems": None,
        "mig_uuid": "MIG-11111111-2222-3333-4444-555555555555",
        "simulated": True,
        "shm_size_bytes": 1 << 28,
        "labels": (*spec.labels, *labels),
    }
    return Launch(**values | changes)
