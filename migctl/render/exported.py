"""What every exported text begins with, and a job's own words for a container or a process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from migctl.core.allocation import Assignment
from migctl.core.handover import environment, resolve, shm_size_bytes, writable_places
from migctl.core.keytable import Lost
from migctl.core.plan import Job, Plan, Port

_MIG_UUID = "MIGCTL_MIG_UUID"


@dataclass(frozen=True, slots=True)
class Exporter:
    """Who exports: jobs that name no user run as this one."""

    ids: str
    """`uid:gid`"""
    name: str
    version: str
    """migctl's."""


def heading(what: str, version: str, lost: Iterable[Lost]) -> tuple[str, ...]:
    """What this is, who wrote it, and which keys of the plan it cannot say."""
    told = tuple(one.sentence for one in lost)
    return (
        f"{what}. Written by migctl {version}; it needs no migctl.",
        *(("Not as in the plan:", *(f"  - {line}" for line in told)) if told else ()),
    )


def handed(a: Assignment, plan: Plan, *, container: bool, device: str, user: str = "") -> dict[str, str]:
    """The variables that the job is told, without those it sets itself.

    Args:
        a: what it gets.
        plan: its plan.
        container: whether it runs in one.
        device: stands where the MIG UUID belongs.
        user: whose name a container has that runs as the caller.
    """
    places = writable_places(user) if container and a.job.user is None else {}
    told = dict(
        environment(
            run=plan.name,
            job=a.job.name,
            attempt=1,
            cpus=a.cpu.cpus,
            num_workers=a.cpu.num_workers,
            threads=a.cpu.threads,
            profile=a.profile.name if a.profile is not None else None,
            memory_mib=a.memory_mib,
            mig_uuid=device if a.profile is not None or a.instance_uuid else None,
            gpu_uuid=None,
            batch_size=a.batch_size,
            user=dict(a.job.environment),
            container=container,
        )
    )
    told.pop("CUDA_VISIBLE_DEVICES", None)
    return {**places, **told}


def resolved(texts: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The texts with everything that is known already; the MIG UUID stays `${MIGCTL_MIG_UUID}`."""
    known = {**values, _MIG_UUID: values[_MIG_UUID] and f"${{{_MIG_UUID}}}"}
    return tuple(resolve(text, known) for text in texts)


def argv(job: Job) -> tuple[str, ...]:
    """Entry point and command as one command line."""
    return (*(job.entrypoint or ()), *(job.command or ()))


def shm(a: Assignment) -> int:
    """Bytes of /dev/shm."""
    return a.job.shm_size_bytes or shm_size_bytes(a.cpu.num_workers, None)


def published(port: Port) -> str:
    """`[ip:][host:]container/protocol`, as Compose and Docker read it."""
    ip = f"[{port.host_ip}]:" if ":" in port.host_ip else f"{port.host_ip}:" if port.host_ip else ""
    host = f"{port.host}:" if port.host else (":" if ip else "")
    return f"{ip}{host}{port.container}/{port.protocol}"


def size(value: int) -> str:
    """Bytes in the shortest exact unit of Docker and Compose."""
    for unit, shift in (("g", 30), ("m", 20), ("k", 10)):
        if value % (1 << shift) == 0:
            return f"{value >> shift}{unit}"
    return f"{value}b"


def seconds(value: float) -> str:
    """A time as Compose writes it."""
    return f"{value:g}s" if value < 1_000_000 else f"{int(value)}s"


def variable(name: str, taken: Mapping[str, str]) -> str:
    """The name of a variable for a job's MIG device: `MIG_TRAIN_A`; another one where it is taken."""
    plain = "MIG_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in name).upper()
    chosen, number = plain, 1
    while chosen in taken.values():
        number += 1
        chosen = f"{plain}_{number}"
    return chosen


def device_variables(rounds: Iterable[Sequence[Assignment]]) -> dict[str, str]:
    """Job → the variable that holds its MIG device, for jobs whose instance is still to be made; who shares one shares it."""
    found: dict[str, str] = {}
    for round_ in rounds:
        places: dict[tuple[str, object], str] = {}
        for a in round_:
            if a.profile is not None and a.instance_uuid is None:
                place = (a.gpu_uuid, a.placement or a.job.name)
                found[a.job.name] = places.setdefault(place, variable(a.job.name, found))
    return found
