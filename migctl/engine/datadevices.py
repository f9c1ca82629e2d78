"""Finds the devices behind the data of jobs that say `storage: auto`."""

from __future__ import annotations

from collections.abc import Mapping

from migctl.core.choices import Storage
from migctl.core.plan import Plan
from migctl.core.storage import DataDevice, data_paths, together
from migctl.host.storage import device_behind
from migctl.runtimes.api import Runtime


def data_devices(plan: Plan, runtime: Runtime) -> Mapping[str, DataDevice]:
    """Job → its device; only of jobs that ask, so that no other plan waits for a network file system that hangs."""
    asking = [job for job in plan.jobs if job.storage is Storage.AUTO]
    if not asking:
        return {}
    if not runtime.facts().local:
        away = DataDevice(path="", kind=None, what="the container engine is on another machine")
        return {job.name: away for job in asking}
    paths = {job.name: data_paths(job, plan.folder) for job in asking}
    devices = {path: device_behind(path) for path in dict.fromkeys(one for some in paths.values() for one in some)}
    return {name: together([devices[path] for path in some]) for name, some in paths.items()}
