"""What a running training waits for: its cores, its disk or its GPU; said only where figures decide it."""

from __future__ import annotations

from collections.abc import Mapping

from migctl.core.seeing.verdicts import Kind, Verdict
from migctl.core.seeing.windows import Window
from migctl.core.words import are, counted

BUSY = 0.85
"""Part of the cores at work from which they are the limit; the rest is what a kernel needs to hand over (as in `tuning`)."""
READY = 0.05
"""Part of the time waiting for data up to which data are always there in time (as in `tuning`)."""
SHORT = 0.20
"""Part of the time waiting for data from which more of them would make the training plainly faster."""
GPU_BUSY = 0.85
GPU_IDLE = 0.60
"""Activity of a GPU instance above which it is the limit, and below which it waits for something; between, neither is certain."""
CROWD = 0.25
"""Part of the job's logical CPUs at work for others from which they are in its way."""
DEVICE = 0.10
"""Cores idle for a device, as a part of the cores, from which the device is the limit (as in `tuning`)."""
_STALLED = 0.40
"""Part of the time in which tasks were stalled by I/O (PSI) from which the device is the limit."""
_STUCK = 0.30
"""Part of the processes that load in uninterruptible sleep, from which the device is the limit."""
_ALL_STUCK = 0.80
"""The same, from which nothing else can be."""
_THROTTLED = 0.20
_DELAYED = 0.15
"""Threads ready without a CPU, or part of the time with one, from which a job is held up by others on its cores."""


def bottleneck(window: Window) -> Verdict | None:
    """The one thing that limits the job; `None` where others on its cores blur every figure, or another verdict says it."""
    if crowded(window):
        return None
    match data_short(window):
        case False:
            return _step(window)
        case True:
            return _loading(window)
        case None:
            return _undecided(window)


def crowded(window: Window) -> bool:
    """Whether others work on the job's CPUs so much that it lacks them: it is kept waiting, as far as that is known."""
    other, busy, width = window.other_cpus, window.busy_cpus, len(window.cpus)
    if other is None or busy is None or width == 0 or other < CROWD * width or busy < BUSY * width:
        return False
    known = [share for share in (window.queued_threads, window.pressure_cpu_share) if share is not None]
    return not known or max(known) >= _DELAYED


def data_short(window: Window) -> bool | None:
    """Whether the training waits for data; `None` = not known, or neither clearly.

    What its engines did decides before what the training tells: it may wait for data while work is still queued on the GPU.
    """
    activity, wait = window.activity_share, window.last.wait_share
    if activity is not None and activity >= GPU_BUSY:
        return False
    if wait is not None:
        return False if wait <= READY else True if wait >= SHORT else None
    return True if activity is not None and activity <= GPU_IDLE and (window.own_cpus or 0) > DEVICE else None


def waits_for_disk(window: Window) -> bool:
    """Whether its loaders are held up by block devices."""
    iowait, stalled = window.iowait_cpus, window.pressure_io_share
    stuck = window.blocked_processes
    return (
        (iowait is not None and iowait >= DEVICE * window.cores)
        or (stalled is not None and stalled >= _STALLED)
        or (stuck is not None and stuck >= _STUCK * max(1, window.workers))
    )


def _step(window: Window) -> Verdict:
    """Data are ready in time."""
    numbers = _numbers(window)
    activity, main = window.activity_share, window.main_cpus
    if activity is not None and activity <= GPU_IDLE:
        if main is not None and main >= BUSY:
            return Verdict(
                kind=Kind.ONE_PROCESS,
                title="one process does all the work",
                message=f"{_words(window)}: data are ready; the GPU waits for its main process, which uses {main:.0%} of a core",
                hint="the training step itself is the limit: larger batches, torch.compile or CUDA graphs, fewer .item() calls",
                keys=("batch_size",),
                numbers=numbers,
            )
        return _unknown(
            window, "data are ready, and yet the GPU is not busy: a lock, a network or its own logging may hold it"
        )
    return Verdict(
        kind=Kind.GPU_BOUND,
        title="GPU-bound",
        message=f"{_words(window)}: data are ready in time, the training step is the limit",
        hint="as it should be; a larger profile would be faster",
        keys=("profile",),
        numbers=numbers,
    )


def _loading(window: Window) -> Verdict | None:
    """It waits for data: for whom do the loaders wait?"""
    own, workers, cores = window.own_cpus, window.workers, window.cores
    left = cores - min(window.other_cpus or 0.0, CROWD * cores)  # what others take a little of, the job cannot have
    if window.throttled_share is not None and window.throttled_share >= _THROTTLED:
        return _cpu(window, "a CPU quota holds it", "raise the quota that its cgroup sets; migctl sets none", ())
    if own is not None and own >= BUSY * left:
        crowd = workers > cores
        lower = f"lower num_workers from {workers} to {cores}, " if crowd else ""
        return _cpu(
            window,
            f"{own:.1f} of {counted(cores, 'core')} at work",
            f"{lower}raise cpus, or lower batch_size; what each sample costs in the loader counts most",
            ("num_workers", "cpus", "batch_size") if crowd else ("cpus", "num_workers", "batch_size"),
        )
    if waits_for_disk(window):
        return _disk(window)
    each = window.worker_cpus / workers if window.worker_cpus is not None and workers else None
    if each is not None and each >= BUSY:
        return _cpu(
            window,
            f"{counted(workers, 'worker')} {are(workers)} busy all the time, and of {counted(cores, 'core')} "
            f"{own or 0:.1f} {are(1)} at work",
            f"raise num_workers to {cores}",
            ("num_workers",),
        )
    if window.main_cpus is not None and window.main_cpus >= BUSY and not workers:
        return None  # one process does all the work, which is said by itself
    return _unknown(
        window,
        "it waits for data, and neither its cores nor a disk are busy: a network file system or a lock may be the limit",
    )


def _undecided(window: Window) -> Verdict:
    wait = window.last.wait_share
    if wait is not None:
        return _unknown(window, "loading and training take turns at being the limit", title="balanced")
    stuck, own = window.blocked_processes, window.own_cpus
    if stuck is not None and stuck >= _ALL_STUCK * max(1, window.workers) and (own or 0) < BUSY * window.cores / 2:
        return _disk(window)
    why = window.last.unknown.get("activity_share", "")
    instance = window.last.instance
    if not why and instance is not None:
        why = instance.unknown.get("activity_share", "")
    return _unknown(
        window,
        "whether it waits for data or for the GPU cannot be told: the training does not report its waiting "
        "(migctl: samples=N wait=SECONDS)" + (f", and the GPU's activity is n/a ({why})" if why else ""),
        hint="print such a line after each batch: compose/train/throughput.py",
    )


def _cpu(window: Window, what: str, hint: str, keys: tuple[str, ...]) -> Verdict:
    return Verdict(
        kind=Kind.CPU_BOUND,
        title="waits for data: CPU-bound",
        message=f"{_words(window)}: {what}",
        hint=hint,
        keys=keys,
        numbers=_numbers(window),
    )


def _disk(window: Window) -> Verdict:
    stuck, iowait = window.blocked_processes, window.iowait_cpus
    facts = [f"{iowait:.1f} of its cores idle for a block device"] if iowait is not None else []
    facts += [f"{stuck:.1f} of its processes on average stuck in I/O"] if stuck else []
    rate = window.read_mib_s
    facts += [f"reading {rate:.1f} MiB/s"] if rate is not None else []
    return Verdict(
        kind=Kind.DISK_BOUND,
        title="waits for the disk",
        message=f"{_words(window)}: {', '.join(facts)}",
        hint="put the data on a faster disk or in RAM, in fewer and larger files; storage: hdd halves the workers",
        keys=("storage", "num_workers", "volumes"),
        numbers=_numbers(window),
    )


def _unknown(window: Window, why: str, *, title: str = "bottleneck unknown", hint: str = "") -> Verdict:
    return Verdict(
        kind=Kind.UNKNOWN,
        title=title,
        message=f"{_words(window)}: {why}" if _words(window) else why,
        hint=hint,
        numbers=_numbers(window),
    )


def _words(window: Window) -> str:
    """The figures that decided, as far as they are known."""
    wait, activity = window.last.wait_share, window.activity_share
    words = [f"{wait:.0%} of the time waiting for data"] if wait is not None else []
    source = window.last.instance.activity_source if window.last.instance is not None else ""
    words += [f"GPU active {activity:.0%} of it ({source})"] if activity is not None else []
    return ", ".join(words)


def _numbers(window: Window) -> Mapping[str, float]:
    found = {
        "wait_share": window.last.wait_share,
        "activity_share": window.activity_share,
        "own_cpus": window.own_cpus,
        "other_cpus": window.other_cpus,
        "iowait_cpus": window.iowait_cpus,
        "blocked_processes": window.blocked_processes,
        "worker_cpus": window.worker_cpus,
        "cores": float(window.cores),
    }
    return {name: round(value, 3) for name, value in found.items() if value is not None}
