"""What programs write before they die of something that has a name: the texts, what they mean, and where they come from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from migctl.core.ending.causes import Cause


@dataclass(frozen=True, slots=True)
class Sign:
    """A text and what it means."""

    cause: Cause
    pattern: str
    """A regular expression, compiled when the first failed job is looked at."""
    source: str
    """Who writes it, or a public report that quotes it."""


SIGNS: Final[Sequence[Sign]] = (
    # The instance's memory. On MIG the allocator's own report fails before it can say "out of memory".
    Sign(
        Cause.SLICE_MEMORY,
        r"NVML_SUCCESS == (?:r|DriverAPI::get\(\)->nvml\w+).*INTERNAL ASSERT FAILED.*CUDACachingAllocator",
        "pytorch#112377, pytorch#197312: PyTorch's allocator on MIG devices",
    ),
    Sign(Cause.SLICE_MEMORY, r"CUDA out of memory\. Tried to allocate", "PyTorch c10/cuda/CUDACachingAllocator.cpp"),
    Sign(
        Cause.SLICE_MEMORY,
        r"\btorch(?:\.cuda)?\.OutOfMemoryError\b",
        "PyTorch torch/__init__.py, torch/cuda/__init__.py",
    ),
    Sign(
        Cause.SLICE_MEMORY, r"CUDA error: out of memory", "PyTorch over cudaGetErrorString(cudaErrorMemoryAllocation)"
    ),
    Sign(
        Cause.SLICE_MEMORY,
        r"\bCUDA_ERROR_OUT_OF_MEMORY\b",
        "CUDA driver API; TensorFlow, Numba and CuPy print the name",
    ),
    Sign(Cause.SLICE_MEMORY, r"\bcudaErrorMemoryAllocation\b", "CUDA runtime API; CuPy prints the name"),
    Sign(Cause.SLICE_MEMORY, r"\bCUBLAS_STATUS_ALLOC_FAILED\b", "cuBLAS library, cublasStatus_t"),
    Sign(Cause.SLICE_MEMORY, r"\bCUDNN_STATUS_ALLOC_FAILED\b", "cuDNN library, cudnnStatus_t"),
    Sign(
        Cause.SLICE_MEMORY, r"RESOURCE_EXHAUSTED: .*(?:[Oo]ut of memory|allocat)", "XLA (JAX, TensorFlow), absl status"
    ),
    Sign(
        Cause.SLICE_MEMORY, r"ResourceExhaustedError|OOM when allocating tensor", "TensorFlow core/framework/allocator"
    ),
    Sign(Cause.SLICE_MEMORY, r"cupy\.cuda\.memory\.OutOfMemoryError", "CuPy cupy/cuda/memory.pyx"),
    # /dev/shm: the loader's workers hand batches over in it.
    Sign(
        Cause.SHM,
        r"Unexpected bus error encountered in worker",
        "PyTorch torch/csrc/DataLoader.cpp (handler of SIGBUS)",
    ),
    Sign(
        Cause.SHM, r"killed by signal: Bus error", "PyTorch torch/csrc/DataLoader.cpp over strsignal(3); pytorch#5040"
    ),
    Sign(Cause.SHM, r"insufficient shared memory \(shm\)", "PyTorch torch/csrc/DataLoader.cpp; Protenix#2"),
    Sign(
        Cause.SHM,
        r"unable to (?:write to|allocate shared memory|open shared memory).*(?:/torch_|shm)",
        "PyTorch aten/src/ATen/MapAllocator.cpp",
    ),
    Sign(
        Cause.SHM,
        r"No space left on device: '?/dev/shm|/dev/shm.*No space left on device",
        "CPython multiprocessing.shared_memory over ENOSPC",
    ),
    Sign(Cause.SHM, r"NCCL WARN.*shm.*(?:No space left|posix_fallocate)", "NCCL src/misc/shmutils.cc"),
    # The GPU or the way to it is gone.
    Sign(Cause.GPU_FAULT, r"uncorrectable ECC error encountered", "CUDA runtime API, cudaErrorECCUncorrectable"),
    Sign(Cause.GPU_FAULT, r"GPU has fallen off the bus|GPU is lost", "NVIDIA driver, NVML_ERROR_GPU_IS_LOST"),
    Sign(
        Cause.DEVICE_LOST,
        r"Failed to initialize NVML: Unknown Error",
        "nvidia-smi in a container whose device access systemd took away (NVIDIA/nvidia-container-toolkit#48)",
    ),
    # No GPU at all.
    Sign(
        Cause.DRIVER_TOO_OLD,
        r"NVIDIA driver on your system is too old",
        "PyTorch torch/csrc/cuda/Module.cpp, c10/cuda/CUDAFunctions.cpp",
    ),
    Sign(
        Cause.DRIVER_TOO_OLD,
        r"CUDA driver version is insufficient for CUDA runtime version",
        "CUDA runtime API, cudaErrorInsufficientDriver",
    ),
    Sign(
        Cause.DRIVER_TOO_OLD,
        r"unsatisfied condition: (?:cuda|driver)\s*[><=]",
        "libnvidia-container, requirement of the image",
    ),
    Sign(
        Cause.DRIVER_TOO_OLD,
        r"provided PTX was compiled with an unsupported toolchain",
        "CUDA runtime API, cudaErrorUnsupportedPtxVersion",
    ),
    Sign(
        Cause.DRIVER_TOO_OLD,
        r"forward compatibility was attempted on non supported HW",
        "CUDA runtime API, cudaErrorCompatNotSupportedOnDevice",
    ),
    Sign(Cause.NO_GPU, r"No CUDA GPUs are available", "PyTorch c10/cuda/CUDAFunctions.cpp"),
    Sign(Cause.NO_GPU, r"Found no NVIDIA driver on your system", "PyTorch torch/csrc/cuda/Module.cpp"),
    Sign(Cause.NO_GPU, r"no CUDA-capable device is detected", "CUDA runtime API, cudaErrorNoDevice"),
    Sign(Cause.NO_GPU, r"\bCUDA_ERROR_(?:NO_DEVICE|INVALID_DEVICE)\b", "CUDA driver API"),
    Sign(
        Cause.NO_GPU,
        r"CUDA unknown error - this may be due to an incorrectly set up environment",
        "PyTorch c10/cuda/CUDAFunctions.cpp",
    ),
    Sign(Cause.NO_GPU, r"libcuda\.so\.1: cannot open shared object file", "ld.so(8)"),
    Sign(Cause.NO_GPU, r"Torch not compiled with CUDA enabled", "PyTorch torch/cuda/__init__.py"),
    Sign(
        Cause.WRONG_GPU_CODE,
        r"no kernel image is available for execution on the device",
        "CUDA runtime API, cudaErrorNoKernelImageForDevice",
    ),
    # The machine.
    Sign(
        Cause.HOST_MEMORY,
        r"\bMemoryError\b|DefaultCPUAllocator: can't allocate memory",
        "CPython; PyTorch c10/core/impl/alloc_cpu.cpp",
    ),
    Sign(Cause.HOST_MEMORY, r"std::bad_alloc", "libstdc++"),
    Sign(Cause.HOST_MEMORY, r"Cannot allocate memory", "glibc strerror(ENOMEM)"),
    Sign(Cause.WORKER_KILLED, r"killed by signal: Killed", "PyTorch torch/csrc/DataLoader.cpp over strsignal(3)"),
    Sign(
        Cause.WORKER_KILLED,
        r"A process in the process pool was terminated abruptly",
        "CPython concurrent/futures/process.py",
    ),
    Sign(Cause.DISK_FULL, r"No space left on device|Disk quota exceeded", "glibc strerror(ENOSPC), strerror(EDQUOT)"),
    Sign(Cause.OTHER_ARCHITECTURE, r"exec format error|Exec format error", "runc; glibc strerror(ENOEXEC)"),
)
"""In the order in which they are believed where several match: what is more special stands first."""

_CHAIN: Final = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_TRACEBACK: Final = "Traceback (most recent call last):"
_BEFORE: Final = 12
"""Lines before a traceback that belong to it: workers and libraries write there."""
_LINES: Final = 80
_EXCEPTION: Final = re.compile(
    r"(?P<name>(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Fault))(?:: .*)?"
)
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def last_words(tail: str) -> tuple[str, ...]:
    """The lines in which the end of a program is told: its last traceback with what it was caused by, else its last lines.

    An error that a program reported, survived and went on from lies before these.
    """
    lines = [
        _ESCAPES.sub("", line).rpartition("\r")[2] if not line.endswith("\r") else line for line in tail.split("\n")
    ]
    lines = [line.rstrip() for line in lines[-4 * _LINES :] if line.strip()]
    starts = [n for n, line in enumerate(lines) if _TRACEBACK in line]
    if not starts:
        return tuple(lines[-_LINES:])
    begin = starts.pop()
    while starts and any(phrase in line for line in lines[starts[-1] : begin] for phrase in _CHAIN):
        begin = starts.pop()
    return tuple(lines[max(0, begin - _BEFORE) :])


def sign_in(lines: Sequence[str]) -> tuple[Sign, str] | None:
    """The sign that is believed first, and the line that has it."""
    for sign in SIGNS:
        for line in reversed(lines):
            if re.search(sign.pattern, line):
                return sign, line.strip()
    return None


def exception_in(lines: Sequence[str]) -> str | None:
    """The line that names the exception which a Python program died of."""
    if not any(_TRACEBACK in line for line in lines):
        return None
    return next((line.strip() for line in reversed(lines) if _EXCEPTION.fullmatch(line.strip())), None)
