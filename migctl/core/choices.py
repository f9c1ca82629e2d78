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
