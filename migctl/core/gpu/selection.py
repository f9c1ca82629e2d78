"""Which GPUs a plan or a job means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import assert_never

from migctl.core.choices import Strategy
from migctl.core.gpu.mig import Gpu
from migctl.core.plan import GpuSelector, Job, Plan
from migctl.errors import HostError, PlanError

_SHORT_DOMAIN = re.compile(r"^(?:[0-9a-f]{4}|[0-9a-f]{8}):", re.IGNORECASE)

_OLD_INSTANCE = re.compile(r"[0-9]+:[0-9]+")
"""`GPU:instance`, which nvidia-docker and nvidia-smi take and which is as unstable as the order of both."""
_SHORTEST_UUID = 8
"""Characters of a UUID that have to be given: `GPU-` and four digits."""


def select_gpus(
    selectors: Sequence[GpuSelector], gpus: Sequence[Gpu], strategy: Strategy | None = None
) -> tuple[Gpu, ...]:
    """The GPUs that the selectors name together, in the machine's order; without selectors the only one that would do.

    Raises:
        HostError: the machine has no GPU.
        PlanError: a selector matches none, or none is given and several would do.
    """
    if not gpus:
        raise HostError(
            "no-gpu", "this machine has no GPU that the driver knows", hint="nvidia-smi -L; or --nvml sim:a100-40gb"
        )
    if not selectors:
        return _only(gpus, strategy)
    chosen = {gpu.uuid for selector in selectors for gpu in _matches(selector, gpus)}
    return tuple(gpu for gpu in gpus if gpu.uuid in chosen)


def job_gpus(job: Job, plan: Plan, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Where a job may run: on the GPUs that it names itself, else on the plan's.

    Raises:
        MigctlError: as `select_gpus`, at the job where it is its own `gpu`.
    """
    try:
        return select_gpus(job.gpus or plan.gpus, gpus, plan.strategy)
    except PlanError as error:
        where = job.place("gpu") if job.gpus else plan.place("gpu") or error.where
        raise PlanError(error.id, error.message, where=where, hint=error.hint, data=error.data) from None


def plan_gpus(plan: Plan, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """All GPUs on which jobs of the plan may run, in the machine's order.

    Raises:
        MigctlError: as `select_gpus`.
    """
    # Equal jobs by the hundred ask once.
    asking = {job.gpus: job for job in plan.jobs}
    chosen = {gpu.uuid for job in asking.values() for gpu in job_gpus(job, plan, gpus)}
    return tuple(gpu for gpu in gpus if gpu.uuid in chosen)


def _only(gpus: Sequence[Gpu], strategy: Strategy | None = None) -> tuple[Gpu, ...]:
    able = [gpu for gpu in gpus if gpu.mig is not None]
    if len(gpus) == 1:
        return (gpus[0],)
    match strategy:
        case Strategy.MIG | None:
            candidates = able or list(gpus)
        case Strategy.SHARED | Strategy.SEQUENTIAL:
            candidates = list(gpus)
        case _:
            assert_never(strategy)
    if len(candidates) == 1:
        return (candidates[0],)
    raise PlanError(
        "which-gpu",
        f"{len(candidates)} GPUs would do, and none is chosen: {_listed(candidates)}",
        hint=f"gpu: {candidates[0].index}, a list, or gpu: all",
        data={"gpus": [gpu.uuid for gpu in candidates]},
    )


def _matches(selector: GpuSelector, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    if selector.all:
        return tuple(gpus)
    if selector.index is not None:
        found = tuple(gpu for gpu in gpus if gpu.index == selector.index)
        wanted = f"index {selector.index}"
    elif selector.uuid is not None:
        found = _with_uuid(selector.uuid, gpus)
        wanted = selector.uuid
    elif selector.pci is not None:
        found = tuple(gpu for gpu in gpus if gpu.pci_bus_id == _sysfs_form(selector.pci))
        wanted = f"PCI id {selector.pci}"
    else:
        model = (selector.model or "").lower()
        found = tuple(gpu for gpu in gpus if model in gpu.name.lower())
        wanted = f"model {selector.model}"
    if found:
        return found
    names = [name for gpu in gpus for name in (gpu.uuid, gpu.pci_bus_id, gpu.name)]
    near = difflib.get_close_matches(selector.uuid or selector.pci or selector.model or "", names, 1)
    raise PlanError(
        "no-such-gpu",
        f"no GPU has {wanted}; there {'is' if len(gpus) == 1 else 'are'} {_listed(gpus)}",
        hint=f"did you mean {near[0]}?" if near else "migctl status lists them",
    )


def _with_uuid(uuid: str, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPU of this UUID, or of the one that begins so, as nvidia-smi takes it.

    Raises:
        PlanError: it is a MIG device, not a GPU.
    """
    wanted = uuid.lower()
    if wanted.startswith("mig-") or _OLD_INSTANCE.fullmatch(wanted):
        raise PlanError(
            "not-a-gpu",
            f"{uuid} is a part of a GPU, not a GPU; there {'is' if len(gpus) == 1 else 'are'} {_listed(gpus)}",
            hint="name the GPU here; a job that uses an administrator's MIG device says instance: MIG-…",
        )
    exact = tuple(gpu for gpu in gpus if gpu.uuid.lower() == wanted)
    begins = tuple(gpu for gpu in gpus if len(wanted) >= _SHORTEST_UUID and gpu.uuid.lower().startswith(wanted))
    return exact or (begins if len(begins) == 1 else ())


def _sysfs_form(pci: str) -> str:
    """NVML prints an eight-digit domain, nvidia-smi too; sysfs has four digits; people leave it out."""
    text = pci.lower()
    if not _SHORT_DOMAIN.match(text) or text.count(":") == 1:
        return f"0000:{text}"
    domain, _, rest = text.partition(":")
    return f"{domain[-4:]}:{rest}"


def _listed(gpus: Sequence[Gpu]) -> str:
    return ", ".join(f"{gpu.index} ({gpu.name}, {gpu.uuid})" for gpu in gpus)
