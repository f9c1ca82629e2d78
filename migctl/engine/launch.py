"""From a record and its job to what a runtime starts: name, labels, environment, command, with every `${MIGCTL_…}` resolved."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from migctl.core.choices import RuntimeName
from migctl.core.code import Code
from migctl.core.gpu.mig import Gpu
from migctl.core.gpu.mps import client_environment, in_one_namespace
from migctl.core.handover import environment, resolve, shm_size_bytes, writable_places
from migctl.core.memory import with_memory_limit
from migctl.core.plan import Job, Plan
from migctl.core.runs.labels import LABEL
from migctl.core.runs.record import Record
from migctl.core.sourcecopy import moved_folder, on_copy
from migctl.engine.mpsdaemons import pipes_of
from migctl.engine.session import Session
from migctl.host.caller import Caller
from migctl.host.claims import store_name
from migctl.host.procfs import memory_total_mib
from migctl.runtimes.gpu_device import GpuDevice
from migctl.runtimes.launch import Launch

if TYPE_CHECKING:
    from migctl.core.allocation import Allocation


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPad:
    """What all launches of one `up` have in common."""

    plan: Plan
    caller: Caller
    environ: Mapping[str, str]
    images: Mapping[str, str]
    """Job → image id, as the runtime prepared them."""
    batch_sizes: Mapping[str, int | None]
    threads: Mapping[str, int]
    simulated: bool
    memory_total_mib: int | None
    store: str = ""
    """Short name of the state directory that records these jobs."""
    minors: Mapping[str, int | None] = field(default_factory=dict)
    """GPU UUID → minor number of its device node."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Job → the copy of the plan's folder that it runs on."""
    mps: Callable[[Record], str | None] = lambda _: None
    """Tells the pipe directory of the MPS control daemon whose client a job is."""
    codes: Mapping[str, Code] = field(default_factory=dict)
    """Copy → what git said of the folder when it was copied."""

    def launch(self, record: Record, folder: Path) -> Launch:
        """All that the runtime needs for one record.

        Raises:
            PlanError: the command or environment names a `${MIGCTL_…}` that does not exist.
        """
        job = next(job for job in self.plan.jobs if job.name == record.job)
        in_container = self.plan.runtime is RuntimeName.DOCKER
        mig_uuid = record.instance.mig_uuid if record.instance is not None else None
        handed = environment(
            run=record.run,
            job=record.job,
            attempt=record.attempt,
            cpus=record.cpus,
            num_workers=record.num_workers,
            threads=self.threads[record.job],
            profile=record.profile,
            memory_mib=record.memory_mib,
            mig_uuid=mig_uuid,
            gpu_uuid=record.gpu_uuid,
            batch_size=self.batch_sizes.get(record.job),
            user=dict(job.environment),
            container=in_container,
        )
        values = dict(handed)
        own = tuple((name, resolve(value, values)) for name, value in job.environment)
        device = self._device(record)
        copy = self.copies.get(record.job)
        folder_here = job.working_dir or (None if in_container else self.plan.folder)
        if copy is not None and folder_here is not None and not in_container:
            folder_here = moved_folder(folder_here, self.plan.folder, copy)
        places = writable_places(self.caller.name) if in_container and job.user is None else {}
        merged = {**places, **values, **dict(own)}
        if not in_container:
            merged = {**self.environ, **merged}
        pipes = self.mps(record)
        if pipes is not None:
            merged |= client_environment(job, pipes)
        return Launch(
            run=record.run,
            job=record.job,
            attempt=record.attempt,
            token=record.token,
            name=unit_name(record),
            folder=str(folder),
            spec=self._spec(job, record, copy, pipes),
            image_id=self.images.get(record.job),
            command=_resolved(job.command, values),
            entrypoint=_resolved(job.entrypoint, values),
            environment=tuple(merged.items()),
            working_dir=folder_here,
            user=_user(job, self.caller),
            cpus=record.cpus,
            mems=record.mems,
            mig_uuid=mig_uuid or record.gpu_uuid,
            simulated=self.simulated,
            shm_size_bytes=job.shm_size_bytes or shm_size_bytes(record.num_workers, self.memory_total_mib),
            labels=labels(record, job, self.caller, device, plan_path=self.plan.path, store=self.store),
            device=device,
        )

    def _spec(self, job: Job, record: Record, copy: str | None, pipes: str | None) -> Job:
        """The job with its limit in bytes, and with what is mounted in place of, and beside, what it says."""
        job = with_memory_limit(job, len(record.cpus), os.cpu_count() or 1, self.memory_total_mib)
        if copy is not None:
            job = on_copy(job, self.plan.folder, copy, os.path.lexists)
        if pipes is not None and self.plan.runtime is RuntimeName.DOCKER:
            job = in_one_namespace(job, pipes)
        return job

    def _device(self, record: Record) -> GpuDevice | None:
        """Nothing for a simulated GPU: it has no device nodes."""
        if self.simulated or record.gpu_uuid is None:
            return None
        owned = record.instance
        return GpuDevice(
            uuid=(owned.mig_uuid if owned is not None else None) or record.gpu_uuid,
            minor=self.minors.get(record.gpu_uuid),
            gi_id=owned.gi_id if owned is not None else None,
            ci_id=owned.ci_id if owned is not None else None,
        )


def launch_pad(
    session: Session,
    plan: Plan,
    images: Mapping[str, str],
    allocation: Allocation,
    gpus: Sequence[Gpu],
    *,
    copies: Mapping[str, str],
    codes: Mapping[str, Code],
) -> LaunchPad:
    """What the launches of these jobs have in common."""
    return LaunchPad(
        plan=plan,
        caller=session.caller,
        environ=session.environ,
        images=images,
        batch_sizes={a.job.name: a.batch_size for a in allocation.assignments},
        threads={a.job.name: a.cpu.threads for a in allocation.assignments},
        simulated=session.simulated,
        memory_total_mib=memory_total_mib(session.root),
        minors={gpu.uuid: gpu.minor for gpu in gpus},
        store=store_name(session.paths.state),
        mps=pipes_of(session, plan, allocation.strategy),
        copies=copies,
        codes=codes,
    )


def unit_name(record: Record) -> str:
    """What the container of a record is called."""
    return f"migctl-{record.run}-{record.job}-{record.token[:8]}"


def labels(
    record: Record,
    job: Job,
    caller: Caller,
    device: GpuDevice | None = None,
    *,
    plan_path: str = "",
    store: str = "",
) -> tuple[tuple[str, str], ...]:
    """The truth about a container that outlives the store: whose it is, which job, on what."""
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
        "profile-id": str(record.profile_id) if record.profile_id is not None else "",
        "placement": str(record.placement) if record.placement else "",
        "gi": str(owned.gi_id) if owned else "",
        "ci": str(owned.ci_id) if owned and owned.ci_id is not None else "",
        "mig-uuid": (owned.mig_uuid if owned else None) or "",
        "boot": record.boot_id,
        "cpus": str(record.cpus),
        "workers": str(record.num_workers),
        "memory": str(record.memory_mib) if record.memory_mib is not None else "",
        "cores": str(record.cores),
        "grace": str(record.grace_s),
        "lent": "yes" if owned is not None and owned.foreign else "",
        "plan": plan_path,
        "store": store,
        **(device.labels() if device is not None else {}),
    }
    return (*job.labels, *((LABEL + key, value) for key, value in own.items()))


def _user(job: Job, caller: Caller) -> str | None:
    if job.user == "image":
        return None
    return job.user or f"{caller.uid}:{caller.gid}"


def _resolved(words: tuple[str, ...] | None, values: Mapping[str, str]) -> tuple[str, ...] | None:
    return None if words is None else tuple(resolve(word, values) for word in words)
