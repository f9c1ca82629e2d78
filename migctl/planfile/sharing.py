"""Jobs that share a GPU or an instance: which of `mps`, `per_instance`, size, user and IPC go together.

The rules are those of NVIDIA's "Multi-Process Service" (docs.nvidia.com/deploy/mps): one server serves the processes of one user;
they and the server share their IPC namespace; limits of threads and memory are each client's own and may add up to more than all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from migctl.core.choices import RuntimeName, Strategy
from migctl.core.plan import ByInstance, ByProfile, GpuRequest, GpuSelector, Job
from migctl.planfile.expand import Draft
from migctl.planfile.problems import Report

_MEMORY = re.compile(r"\.([0-9]+)gb")
_OWN_IPC = ("none", "private", "shareable")


def check(
    drafts: Sequence[Draft], jobs: Sequence[Job], strategy: Strategy | None, runtime: RuntimeName, report: Report
) -> None:
    """Mistakes and notices go to the report."""
    users: dict[tuple[tuple[GpuSelector, ...], GpuRequest | None, int], tuple[str | None, str]] = {}
    for draft, job in zip(drafts, jobs, strict=True):
        _check_instance(draft, job, strategy, report)
        if job.mps is None:
            continue
        _check_strategy(draft, job, strategy, report)
        _check_memory(draft, job, strategy, report)
        if runtime is RuntimeName.PROCESS:
            continue  # which is always the caller's, in the machine's own IPC namespace
        _check_ipc(draft, report)
        place = None if strategy is Strategy.SHARED else job.request
        user, other = users.setdefault((job.gpus, place, job.per_instance), (job.user, draft.origin))
        if user != job.user:
            report.error(
                "mps-of-two-users",
                f"jobs {other} and {draft.origin} share MPS and run as different users; one server serves one user",
                draft.nodes["user" if "user" in draft.nodes else "mps"].start,
                "give both the same user, or leave user away for your own",
            )


def _check_instance(draft: Draft, job: Job, strategy: Strategy | None, report: Report) -> None:
    if job.per_instance > 1 and strategy not in (None, Strategy.MIG):
        report.error(
            "size-without-mig",
            f"per_instance says how many jobs share a GPU instance, and strategy: {strategy} uses none",
            draft.nodes["per_instance"].start,
            "delete it, or write strategy: mig",
        )
    if job.per_instance > 1 and isinstance(job.request, ByInstance):
        report.error(
            "per-instance-of-administrators",
            f"job {draft.origin} names an administrator's instance, which one job has to itself",
            draft.nodes["per_instance"].start,
            "delete per_instance, or ask for a profile: migctl makes that instance for the jobs that share it",
        )


def _check_strategy(draft: Draft, job: Job, strategy: Strategy | None, report: Report) -> None:
    if strategy is Strategy.SEQUENTIAL:
        report.error(
            "mps-without-sharing",
            "mps shares a GPU between jobs, and strategy: sequential runs one at a time",
            draft.nodes["mps"].start,
            "delete it, or write strategy: shared",
        )
    elif strategy is Strategy.MIG and job.per_instance == 1:
        report.notice(
            "mps-alone",
            f"job {draft.origin} has its GPU instance to itself: MPS has nobody to share it with",
            draft.nodes["mps"].start,
            "add per_instance: 2, or delete mps",
        )


def _check_memory(draft: Draft, job: Job, strategy: Strategy | None, report: Report) -> None:
    limit = job.mps.memory_mib if job.mps is not None else None
    if limit is None:
        return
    place = draft.nodes["mps"].start
    if strategy is Strategy.SHARED and job.memory_mib is not None and limit < job.memory_mib:
        report.error(
            "mps-memory",
            f"job {draft.origin} declares {job.memory_mib} MiB of GPU memory, and mps lets it have {limit} MiB",
            place,
            "give mps at least as much memory as the job",
        )
    if not isinstance(job.request, ByProfile) or (match := _MEMORY.search(job.request.name)) is None:
        return
    whole = int(match[1]) << 10  # of the name; the instance itself has somewhat less
    if limit > whole:
        report.error(
            "mps-memory",
            f"mps lets job {draft.origin} have {limit} MiB, more than a whole {job.request.name}",
            place,
            "give less, or a larger profile",
        )
    elif limit * job.per_instance > whole:
        report.notice(
            "mps-memory",
            f"{job.per_instance} jobs like {draft.origin} may take {limit * job.per_instance} MiB of a {job.request.name} "
            "together: the limit does not keep memory for each",
            place,
            f"write memory: {max(1, whole // job.per_instance)}m or less in mps",
        )


def _check_ipc(draft: Draft, report: Report) -> None:
    ipc = draft.model.ipc
    if ipc is not None and (ipc in _OWN_IPC or ipc.startswith("container:")):
        report.error(
            "mps-ipc",
            f"ipc: {ipc} parts job {draft.origin} from the MPS server, which is reached in one IPC namespace",
            draft.nodes["ipc"].start,
            "delete it: jobs that share MPS get the same one",
        )
