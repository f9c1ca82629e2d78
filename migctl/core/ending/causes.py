"""What an end is called whose reason is known."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """Why a job ended; names are part of the JSON contract."""

    SLICE_MEMORY = "slice-memory"
    CGROUP_MEMORY = "cgroup-memory"
    HOST_MEMORY = "host-memory"
    MEMORY_NODES = "memory-nodes"
    SHM = "shm"
    GPU_FAULT = "gpu-fault"
    DEVICE_LOST = "device-lost"
    NO_GPU = "no-gpu"
    DRIVER_TOO_OLD = "driver-too-old"
    WRONG_GPU_CODE = "wrong-gpu-code"
    DISK_FULL = "disk-full"
    OTHER_ARCHITECTURE = "other-architecture"
    WORKER_KILLED = "worker-killed"
    KILLED_FROM_OUTSIDE = "killed-from-outside"
    STOPPED_FROM_OUTSIDE = "stopped-from-outside"
    CRASHED = "crashed"
    CANNOT_RUN = "cannot-run"
    EXCEPTION = "exception"
