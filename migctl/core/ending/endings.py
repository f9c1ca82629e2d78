"""Why a job has ended, from its exit code, the engine's word, the kernel's log and its last lines; unknown stays unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from migctl.core.ending.causes import Cause
from migctl.core.ending.exit_codes import exit_words
from migctl.core.ending.kernel_events import CONTAINED, GPU_FAULTS, PROGRAM_FAULTS, KernelEvent, OomKill, Xid
from migctl.core.ending.log_signs import exception_in, last_words, sign_in

_MOST: Final = 160
"""Characters of a program's own line that are quoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of an ended job."""

    exit_code: int | None
    """128 + n for signal n, as shells and engines say it (signal(7))."""
    tail: str = ""
    """The end of its log."""
    oom_flag: bool = False
    """The engine says that the kernel killed a process of its cgroup for lack of memory."""
    oom_kills: int = 0
    """The same, as its cgroup counted while it was watched (memory.events)."""
    kernel: Sequence[KernelEvent] | None = ()
    """Of the time in which it ran; `None` = the log cannot be read."""
    pids: frozenset[int] = frozenset()
    """Host pids of it, as far as they are known."""
    container_id: str | None = None
    pci: str | None = None
    """Of its GPU, as sysfs writes it."""
    memory_limit_mib: int | None = None
    shm_mib: int | None = None
    """Size of its /dev/shm; `None` = the host's."""
    profile: str | None = None
    memory_mib: int | None = None
    """Of its GPU instance."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A reason with its name; `sure` is false where it is only the likely one."""

    cause: Cause
    reason: str
    hint: str = ""
    sure: bool = True


def ending(facts: Facts) -> Ending | None:
    """Why the job failed; `None` where nothing tells more than its exit code does.

    The order is that of how sure a source is: the GPU driver, the engine and kernel on memory, the program's own words, and
    last what the signal alone allows to say (moby#15621: 137 is not always memory, and lack of memory is not always flagged).
    """
    if facts.exit_code == 0:
        return None
    lines = last_words(facts.tail)
    return _gpu(facts) or _memory(facts) or _said(facts, lines) or _signal(facts) or _code(facts) or _exception(lines)


def _gpu(facts: Facts) -> Ending | None:
    own = facts.pci.rpartition(".")[0] if facts.pci is not None else None
    found = [event for event in facts.kernel or () if isinstance(event, Xid) and event.pci == own]
    for event in found:
        if event.number in GPU_FAULTS:
            what = GPU_FAULTS[event.number]
            return Ending(
                Cause.GPU_FAULT,
                f"GPU fault, Xid {event.number} ({what}): every job of this GPU is affected",
                "reset the GPU or reboot; nothing runs again there before",
            )
    for event in found:
        if event.number == CONTAINED and (event.pid in facts.pids or event.pid is None):
            return Ending(
                Cause.GPU_FAULT, "GPU fault, Xid 94: a memory error, contained to this job", "migctl up --retry"
            )
        if event.number in PROGRAM_FAULTS and event.pid in facts.pids:
            return Ending(
                Cause.CRASHED,
                f"Xid {event.number}: {PROGRAM_FAULTS[event.number]}",
                "CUDA_LAUNCH_BLOCKING=1 shows where",
            )
    return None


def _memory(facts: Facts) -> Ending | None:
    for event in facts.kernel or ():
        if not isinstance(event, OomKill) or not _is_own(event, facts):
            continue
        who = f"{event.process} (pid {event.pid})"
        match event.constraint:
            case "MEMCG":
                return _cgroup(facts, f"the kernel killed {who}")
            case "CPUSET" | "MEMORY_POLICY":
                return Ending(
                    Cause.MEMORY_NODES,
                    f"out of memory on its NUMA nodes: the kernel killed {who} while other nodes may have had some",
                    "numa: prefer instead of strict",
                )
            case _:
                return Ending(
                    Cause.HOST_MEMORY,
                    f"out of memory of the machine: the kernel killed {who}",
                    "fewer workers or jobs at once, or mem_limit for who takes too much",
                )
    if facts.oom_flag or facts.oom_kills:
        return _cgroup(facts, "the kernel killed a process of it (OOM)")
    return None


def _cgroup(facts: Facts, what: str) -> Ending:
    if facts.memory_limit_mib is None:
        return Ending(
            Cause.CGROUP_MEMORY,
            f"out of memory: {what}, for a limit that is not this job's own",
            "the engine's or session's cgroup has a memory limit; or fewer workers",
        )
    return Ending(
        Cause.CGROUP_MEMORY,
        f"out of memory: over its mem_limit of {facts.memory_limit_mib} MiB, {what}",
        "a larger mem_limit, or fewer workers",
    )


def _is_own(event: OomKill, facts: Facts) -> bool:
    return event.pid in facts.pids or (facts.container_id is not None and facts.container_id in event.cgroup)


def _said(facts: Facts, lines: Sequence[str]) -> Ending | None:
    found = sign_in(lines)
    if found is None:
        return None
    sign, line = found
    quoted = f": {line[:_MOST]}"
    match sign.cause:
        case Cause.SLICE_MEMORY:
            room = f" ({facts.profile or 'whole GPU'}, {facts.memory_mib} MiB)" if facts.memory_mib else ""
            return Ending(
                sign.cause,
                f"out of GPU memory in its slice{room}{quoted}",
                "a smaller batch_size, or a larger profile",
                sure=False,
            )
        case Cause.SHM:
            return _shm(facts, quoted)
        case Cause.GPU_FAULT:
            return Ending(sign.cause, f"GPU lost{quoted}", "dmesg | grep Xid; reset the GPU or reboot")
        case Cause.DEVICE_LOST:
            return Ending(
                sign.cause,
                "its container lost the GPU, as a systemctl daemon-reload takes it away from hook-injected containers"
                + quoted,
                "migctl up --retry; migctl check tells how to keep it",
            )
        case Cause.NO_GPU:
            return Ending(sign.cause, f"no GPU was seen in it{quoted}", "migctl check")
        case Cause.DRIVER_TOO_OLD:
            return Ending(
                sign.cause,
                f"its image is newer than the NVIDIA driver{quoted}",
                "an image for an older CUDA, or a newer driver",
            )
        case Cause.WRONG_GPU_CODE:
            return Ending(
                sign.cause,
                f"its program has no code for this GPU{quoted}",
                "a newer framework, built for this architecture",
            )
        case Cause.HOST_MEMORY:
            return Ending(
                sign.cause,
                f"out of memory (RAM){quoted}",
                "fewer workers, or a larger mem_limit where it has one",
                sure=False,
            )
        case Cause.WORKER_KILLED:
            return Ending(
                sign.cause,
                f"a worker of it was killed (SIGKILL), most likely for lack of memory{quoted}",
                "fewer workers; dmesg | grep -i oom",
                sure=False,
            )
        case Cause.DISK_FULL:
            return Ending(sign.cause, f"no room on a disk{quoted}", "df -h", sure=False)
        case Cause.OTHER_ARCHITECTURE:
            return Ending(
                sign.cause, f"its program is for another processor architecture{quoted}", "an image for this machine"
            )
        case _:
            return None


def _shm(facts: Facts, quoted: str) -> Ending:
    size = f" ({facts.shm_mib} MiB)" if facts.shm_mib is not None else ""
    return Ending(Cause.SHM, f"/dev/shm too small{size}{quoted}", "a larger shm_size, or fewer workers", sure=False)


def _signal(facts: Facts) -> Ending | None:
    code = facts.exit_code
    if code is None:
        return None
    hidden = facts.kernel is None
    match code - 128:
        case 7:
            return _shm(facts, ": it was ended by SIGBUS")
        case 9:
            doubt = "; whether for lack of memory only the kernel's log tells, which root may read" if hidden else ""
            return Ending(
                Cause.KILLED_FROM_OUTSIDE,
                f"killed by SIGKILL from outside migctl (exit code {code}){doubt}",
                "migctl up --retry",
                sure=not hidden,
            )
        case 15:
            return Ending(
                Cause.STOPPED_FROM_OUTSIDE,
                f"ended by SIGTERM from outside migctl (exit code {code}): kill, docker stop, or a shutdown",
                "migctl up --retry",
            )
        case 4 | 6 | 8 | 11:
            return Ending(
                Cause.CRASHED,
                f"crashed: {exit_words(code)}",
                "a fault in native code; faulthandler shows where: PYTHONFAULTHANDLER=1",
            )
        case _:
            return None


def _code(facts: Facts) -> Ending | None:
    match facts.exit_code:
        case 127:
            return Ending(
                Cause.CANNOT_RUN, "its program was not found (exit code 127)", "see command and PATH", sure=False
            )
        case 126:
            return Ending(
                Cause.CANNOT_RUN,
                "its program cannot be executed (exit code 126)",
                "chmod +x, or name its interpreter",
                sure=False,
            )
        case _:
            return None


def _exception(lines: Sequence[str]) -> Ending | None:
    line = exception_in(lines)
    return Ending(Cause.EXCEPTION, line[:_MOST]) if line is not None else None
