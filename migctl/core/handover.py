"""What a job is told about its share: environment variables, `${MIGCTL_…}` in its texts, and its shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from migctl.core.cpu.cpuset import CpuSet
from migctl.errors import PlanError, Where

THREAD_VARIABLES: tuple[str, ...] = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "OPENCV_FOR_THREADS_NUM",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
"""Libraries that otherwise start one thread for each CPU of the machine in every process."""

HANDED: Mapping[str, str] = {
    "MIGCTL_RUN": "name of the run",
    "MIGCTL_JOB": "name of the job",
    "MIGCTL_ATTEMPT": "1 at the first start",
    "MIGCTL_NUM_WORKERS": "loader workers",
    "MIGCTL_CPUS": "number of logical CPUs",
    "MIGCTL_CPUSET": "the logical CPUs in Linux' list format",
    "MIGCTL_GPU_MEMORY_MIB": "GPU memory of the job",
    "MIGCTL_PROFILE": "MIG profile, empty under shared",
    "MIGCTL_MIG_UUID": "MIG device, empty under shared",
    "MIGCTL_BATCH_SIZE": "batch size, only where the job gives batch_size",
}
"""All names that `${MIGCTL_…}` may use, with their meaning."""

GIB = 1 << 30
_PREFIX = "MIGCTL_"
_SMALLEST_SHM = 64 << 20  # Docker's own default
_REFERENCE = re.compile(r"\$\{(MIGCTL_[A-Za-z0-9_]*)(?::([-?])([^}]*))?\}")


def environment(
    *,
    run: str,
    job: str,
    attempt: int,
    cpus: CpuSet,
    num_workers: int,
    threads: int,
    profile: str | None,
    memory_mib: int | None,
    mig_uuid: str | None,
    gpu_uuid: str | None,
    batch_size: int | None,
    user: Mapping[str, str],
    container: bool,
) -> tuple[tuple[str, str], ...]:
    """The variables that migctl adds to the job's own, in order.

    Args:
        run: name of the run.
        job: name of the job.
        attempt: 1 at the first start.
        cpus: logical CPUs of the job.
        num_workers: loader workers.
        threads: threads for each process, see `core.cpu.workers.threads`.
        profile: MIG profile, `None` under `shared`.
        memory_mib: GPU memory of the job, `None` = unknown and not told.
        mig_uuid: MIG device, `None` under `shared`.
        gpu_uuid: the GPU, for a process under `shared`.
        batch_size: scaled batch size, `None` = not asked for.
        user: the job's own environment; a thread variable in it wins.
        container: a container's device is injected, so CUDA_VISIBLE_DEVICES stays unset there (frameworks crash on
            `int("MIG-…")`); a process needs it.
    """
    told: list[tuple[str, str]] = [
        ("MIGCTL_RUN", run),
        ("MIGCTL_JOB", job),
        ("MIGCTL_ATTEMPT", str(attempt)),
        ("MIGCTL_NUM_WORKERS", str(num_workers)),
        ("MIGCTL_CPUS", str(len(cpus))),
        ("MIGCTL_CPUSET", str(cpus)),
    ]
    if memory_mib is not None:
        told.append(("MIGCTL_GPU_MEMORY_MIB", str(memory_mib)))
    told += [("MIGCTL_PROFILE", profile or ""), ("MIGCTL_MIG_UUID", mig_uuid or "")]
    if batch_size is not None:
        told.append(("MIGCTL_BATCH_SIZE", str(batch_size)))
    told += [(name, str(threads)) for name in THREAD_VARIABLES if name not in user]
    # Python 3.13 and later: what os.cpu_count() answers, which otherwise is the machine's number.
    if "PYTHON_CPU_COUNT" not in user:
        told.append(("PYTHON_CPU_COUNT", str(len(cpus))))
    device = mig_uuid or gpu_uuid
    if not container and device is not None:
        told.append(("CUDA_VISIBLE_DEVICES", device))
    return tuple(told)


def writable_places(user: str) -> dict[str, str]:
    """For a uid that the image does not know: HOME is `/` there, and getpwuid fails (torch inductor)."""
    return {
        "HOME": "/tmp",
        "USER": user,
        "LOGNAME": user,
        "XDG_CACHE_HOME": "/tmp/.cache",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/.cache/torchinductor",
    }


def resolve(text: str, values: Mapping[str, str], *, where: Where | str | None = None) -> str:
    """Replace `${MIGCTL_NAME}`, also with `:-default` and `:?message`; every other text stays as it is.

    Raises:
        PlanError: no such name, or one that this job has no value for.
    """

    def value(match: re.Match[str]) -> str:
        name, sign, rest = match[1], match[2], match[3]
        if name not in HANDED:
            raise _unknown(name, where)
        found = values.get(name, "")
        if found or (name in values and sign is None):
            return found
        if sign == "-":
            return rest
        raise PlanError(
            "no-value",
            rest or f"${{{name}}} has no value for this job: {HANDED[name]}",
            where=where,
            hint=f"give one, as in ${{{name}:-default}}, or leave it out",
            data={"name": name},
        )

    return _REFERENCE.sub(value, text)


@dataclass(frozen=True, slots=True)
class Reference:
    """A `${MIGCTL_NAME}` inside a text, for whoever writes it in another language's way."""

    name: str
    sign: str = ""
    """`-` with a default in `word`, `?` with a message there, else nothing."""
    word: str = ""


def parts(text: str) -> Iterator[str | Reference]:
    """The text in pieces: literal ones, and the references between them."""
    here = 0
    for match in _REFERENCE.finditer(text):
        if match.start() > here:
            yield text[here : match.start()]
        yield Reference(match[1], match[2] or "", match[3] or "")
        here = match.end()
    if here < len(text):
        yield text[here:]


def shm_size_bytes(num_workers: int, memory_total_mib: int | None) -> int:
    """Default size of /dev/shm: 1 GiB for each loader worker and the main process, at most half of RAM.

    Docker's 64 MiB end in "Bus error" as soon as PyTorch's workers pass a large batch (pytorch#5040).
    """
    wanted = GIB * (num_workers + 1)
    if memory_total_mib is None:
        return wanted
    return max(_SMALLEST_SHM, min(wanted, memory_total_mib * (1 << 20) // 2))


def _unknown(name: str, where: Where | str | None) -> PlanError:
    # The common beginning would make every name look near.
    from difflib import get_close_matches  # only a mistake needs it

    near = get_close_matches(name.removeprefix(_PREFIX), [known.removeprefix(_PREFIX) for known in HANDED], n=1)
    return PlanError(
        "unknown-name",
        f"${{{name}}} is nothing that migctl hands over",
        where=where,
        hint=f"did you mean ${{{_PREFIX}{near[0]}}}?" if near else f"there are {', '.join(HANDED)}",
        data={"name": name, "known": list(HANDED)},
    )
