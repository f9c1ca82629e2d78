"""The closed sets that a plan chooses from."""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """How jobs share a GPU."""

    MIG = "mig"
    SHARED = "shared"
    SEQUENTIAL = "sequential"


class RuntimeName(StrEnum):
    """What runs a job."""

    DOCKER = "docker"
    PROCESS = "process"


class Storage(StrEnum):
    """The kind of device that the job's data lie on."""

    NVME = "nvme"
    SSD = "ssd"
    HDD = "hdd"
    AUTO = "auto"


class CpuShare(StrEnum):
    """How much of the pool a plan takes."""

    FAIR = "fair"
    ALL = "all"


class CpuSplit(StrEnum):
    """How the jobs of a plan share its cores."""

    SLICES = "slices"
    EQUAL = "equal"


class Numa(StrEnum):
    """Whether a job may leave the NUMA node of its GPU."""

    PREFER = "prefer"
    STRICT = "strict"


class Finish(StrEnum):
    """What becomes of ended jobs when the run has ended."""

    KEEP = "keep"
    DOWN = "down"


class Reboot(StrEnum):
    """What becomes of a run when the machine starts again."""

    HOLD = "hold"
    RESUME = "resume"


class RetryOn(StrEnum):
    """How an attempt must have ended for `retries` to count."""

    FAILED = "failed"
    """It ended with an exit code other than 0."""
    OOM = "oom"
    """The memory of the host, of the container or of the GPU instance was not enough."""
    LOST = "lost"
    """It went away: a restart of the engine or the machine, a lost GPU."""
    TIMEOUT = "timeout"
