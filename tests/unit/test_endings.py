"""Why a job ended: what the driver, the kernel, the engine and the program's own last lines say, and who is believed first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from migctl.core.ending.causes import Cause
from migctl.core.ending.endings import Ending, Facts, ending
from migctl.core.ending.kernel_events import KernelEvent, OomKill, Xid, kernel_events
from migctl.core.ending.log_signs import SIGNS, last_words

ID = "4f2a" * 16
PCI = "0000:3b:00.0"


def oom(constraint: str, pid: int = 4711, cgroup: str = "/") -> OomKill:
    return OomKill(at_s=9.0, constraint=constraint, limit_cgroup="/", cgroup=cgroup, pid=pid, process="python")


def xid(number: int, pid: int | None = None, pci: str = "0000:3b:00") -> Xid:
    return Xid(at_s=9.0, pci=pci, number=number, pid=pid)


# As programs print them, gathered from public reports; the cause.
TEXTS: Mapping[str, tuple[str, Cause]] = {
    "PyTorch, whole GPU": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 4.75 GiB",
        Cause.SLICE_MEMORY,
    ),
    "PyTorch on MIG (pytorch#112377)": (
        'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1154, please report',
        Cause.SLICE_MEMORY,
    ),
    "PyTorch on MIG (pytorch#197312)": (
        "RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp",
        Cause.SLICE_MEMORY,
    ),
    "JAX": (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
        Cause.SLICE_MEMORY,
    ),
    "TensorFlow": ("ResourceExhaustedError: OOM when allocating tensor with shape[4096,4096]", Cause.SLICE_MEMORY),
    "cuBLAS": (
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        Cause.SLICE_MEMORY,
    ),
    "shm, worker's handler": (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        Cause.SHM,
    ),
    "shm, main process (pytorch#5040)": (
        "RuntimeError: DataLoader worker (pid 81) is killed by signal: Bus error. It is possible that dataloader's workers",
        Cause.SHM,
    ),
    "worker killed (L6)": (
        "RuntimeError: DataLoader worker (pid 81) is killed by signal: Killed.",
        Cause.WORKER_KILLED,
    ),
    "daemon-reload": ("Failed to initialize NVML: Unknown Error", Cause.DEVICE_LOST),
    "off the bus": ("Unable to determine the device handle: GPU is lost.  Reboot the system", Cause.GPU_FAULT),
    "no GPU": ("RuntimeError: No CUDA GPUs are available", Cause.NO_GPU),
    "no driver": ("RuntimeError: Found no NVIDIA driver on your system. Please check that you have", Cause.NO_GPU),
    "old driver, PyTorch": (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        Cause.DRIVER_TOO_OLD,
    ),
    "old driver, runtime": (
        "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
        Cause.DRIVER_TOO_OLD,
    ),
    "old driver, image's demand": (
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver",
        Cause.DRIVER_TOO_OLD,
    ),
    "built for other GPUs": (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        Cause.WRONG_GPU_CODE,
    ),
    "RAM, numpy": (
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB\nMemoryError",
        Cause.HOST_MEMORY,
    ),
    "RAM, C++": ("terminate called after throwing an instance of 'std::bad_alloc'", Cause.HOST_MEMORY),
    "disk": ("OSError: [Errno 28] No space left on device: 'checkpoint.pt'", Cause.DISK_FULL),
    "shm named": ("OSError: [Errno 28] No space left on device: '/dev/shm/torch_1_2'", Cause.SHM),
    "other processor": ("exec /usr/bin/python3: exec format error", Cause.OTHER_ARCHITECTURE),
}


def said(**facts: Any) -> Ending | None:
    return ending(Facts(**{"exit_code": 1, "pids": frozenset({4711}), "container_id": ID, "pci": PCI, **facts}))


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_has_its_cause(name: str) -> None:
    text, cause = TEXTS[name]

    found = said(tail=f"epoch 1\nloss 0.3\n{text}\n")

    assert found is not None
    assert found.cause is cause
    assert found.hint


def test_every_sign_is_an_expression_and_says_where_it_comes_from() -> None:
    for sign in SIGNS:
        assert re.compile(sign.pattern).search("epoch 3, loss 0.25, 120 samples/s") is None
        assert len(sign.source) > 4


# Who killed it (L6: 137 is not always memory, memory is not always flagged), by facts.
KILLED: Mapping[str, tuple[dict[str, Any], Cause]] = {
    "the engine's flag": ({"exit_code": 137, "oom_flag": True}, Cause.CGROUP_MEMORY),
    "memory.events, seen while it ran": ({"exit_code": 137, "oom_kills": 1}, Cause.CGROUP_MEMORY),
    "a child was killed, which the engine did not flag": (
        {"exit_code": 1, "kernel": [oom("MEMCG", 99, f"/docker/{ID}")]},
        Cause.CGROUP_MEMORY,
    ),
    "the machine had no memory": ({"exit_code": 137, "kernel": [oom("NONE")]}, Cause.HOST_MEMORY),
    "its nodes had no memory": ({"exit_code": 137, "kernel": [oom("CPUSET")]}, Cause.MEMORY_NODES),
    "killed by signal: Killed in the log": ({"tail": TEXTS["worker killed (L6)"][0]}, Cause.WORKER_KILLED),
    "somebody else's process was killed": ({"exit_code": 137, "kernel": [oom("NONE", 12)]}, Cause.KILLED_FROM_OUTSIDE),
    "nothing tells of memory": ({"exit_code": 137}, Cause.KILLED_FROM_OUTSIDE),
    "docker stop by somebody": ({"exit_code": 143}, Cause.STOPPED_FROM_OUTSIDE),
    "a bus error without a word": ({"exit_code": 135, "shm_mib": 64}, Cause.SHM),
    "segmentation fault": ({"exit_code": 139}, Cause.CRASHED),
    "no such program": ({"exit_code": 127}, Cause.CANNOT_RUN),
    "no execute bit": ({"exit_code": 126}, Cause.CANNOT_RUN),
}


@pytest.mark.parametrize("name", KILLED)
def test_who_ended_it_is_told_by(name: str) -> None:
    facts, cause = KILLED[name]

    found = said(**facts)

    assert found is not None
    assert found.cause is cause


# Xids of the time in which the job ran; the cause, and a word of the reason.
XIDS: Mapping[str, tuple[list[KernelEvent], Cause | None, str]] = {
    "off the bus: every job of the GPU": ([xid(79)], Cause.GPU_FAULT, "Xid 79"),
    "its system processor": ([xid(119)], Cause.GPU_FAULT, "every job of this GPU"),
    "contained, ours": ([xid(94, 4711)], Cause.GPU_FAULT, "contained to this job"),
    "contained, a neighbour's": ([xid(94, 12)], None, ""),
    "a neighbour's program": ([xid(31, 12)], None, ""),
    "its own program": ([xid(31, 4711)], Cause.CRASHED, "not its own"),
    "another GPU": ([xid(79, pci="0000:5e:00")], None, ""),
}


@pytest.mark.parametrize("name", XIDS)
def test_an_xid_is_believed_for(name: str) -> None:
    events, cause, word = XIDS[name]

    found = said(kernel=events)

    assert (found.cause if found is not None else None) is cause
    assert word in (found.reason if found is not None else "")


def test_the_reason_names_sizes_where_they_are_known() -> None:
    slice_full = said(tail=TEXTS["PyTorch on MIG (pytorch#112377)"][0], profile="1g.5gb", memory_mib=4864)
    limited = said(exit_code=137, oom_flag=True, memory_limit_mib=2048)
    shm = said(tail=TEXTS["shm, worker's handler"][0], shm_mib=64)

    assert slice_full is not None
    assert slice_full.reason.startswith("out of GPU memory in its slice (1g.5gb, 4864 MiB)")
    assert not slice_full.sure
    assert limited is not None
    assert "mem_limit of 2048 MiB" in limited.reason
    assert shm is not None
    assert shm.reason.startswith("/dev/shm too small (64 MiB)")


def test_without_the_kernels_log_a_kill_stays_doubtful() -> None:
    found = said(exit_code=137, kernel=None)

    assert found is not None
    assert not found.sure
    assert "only the kernel's log tells" in found.reason


def test_unknown_stays_unknown() -> None:
    assert said(exit_code=3, tail="done 7 of 9\n") is None
    assert said(exit_code=0, tail="CUDA out of memory. Tried to allocate") is None


TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
SURVIVED = TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB\nhalving the batch\n"


def test_an_error_that_was_survived_is_not_the_reason() -> None:
    log = SURVIVED + "epoch\n" * 20 + TRACEBACK + "ValueError: 7 classes expected\n"

    found = said(tail=log)

    assert found == Ending(Cause.EXCEPTION, "ValueError: 7 classes expected")


def test_what_an_exception_was_raised_from_counts() -> None:
    log = (
        SURVIVED
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + TRACEBACK
        + "RuntimeError: training failed\n"
    )

    found = said(tail=log)

    assert found is not None
    assert found.cause is Cause.SLICE_MEMORY


def test_progress_bars_and_colours_hide_nothing() -> None:
    log = "10%|#   |\r20%|##  |\r\x1b[31mRuntimeError: No CUDA GPUs are available\x1b[0m\n"

    assert last_words(log) == ("RuntimeError: No CUDA GPUs are available",)


KMSG = (
    (
        "6,1023,9000000,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,mems_allowed=0,"
        f"oom_memcg=/docker/{ID},task_memcg=/docker/{ID},task=pt_data_worker,pid=81,uid=1000"
    ),
    "6,1024,9100000,-;Memory cgroup out of memory: Killed process 81 (python)",
    "4,1025,12500000,-;NVRM: Xid (PCI:0000:3b:00): 94, pid=4711, name=python, Ch 00000008",
    "4,1026,13000000,-;NVRM: Xid (PCI:00000000:5E:00): 79, GPU has fallen off the bus.",
    "4,1027,13000000,-;NVRM: Xid (PCI:0000:3b:00): 119, pid='<unknown>', name=<unknown>, Timeout after 45s of waiting for RPC",
    "6,1028,14000000,-;usb 1-1: new high-speed USB device",
)


def test_the_kernels_records_are_read_as_it_writes_them() -> None:
    found = list(kernel_events(KMSG))

    assert found == [
        OomKill(
            at_s=9.0,
            constraint="MEMCG",
            limit_cgroup=f"/docker/{ID}",
            cgroup=f"/docker/{ID}",
            pid=81,
            process="pt_data_worker",
        ),
        Xid(at_s=12.5, pci="0000:3b:00", number=94, pid=4711),
        Xid(at_s=13.0, pci="0000:5e:00", number=79, pid=None),
        Xid(at_s=13.0, pci="0000:3b:00", number=119, pid=None),
    ]
