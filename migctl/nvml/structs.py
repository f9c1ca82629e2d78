# ruff: noqa: N801, N816 -- names are pynvml's
"""The ctypes structs of nvml.h that cross the NVML seam, so that a simulated command need not load pynvml.

Names, fields and layouts are pynvml's; a contract test compares them.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    Structure,
    Union,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_longlong,
    c_uint,
    c_uint32,
    c_ulong,
    c_ulonglong,
    c_ushort,
)


class _TextStructure(Structure):
    """A struct whose char arrays read as text, as pynvml's do."""

    def __getattribute__(self, name: str) -> object:
        value = super().__getattribute__(name)
        return value.decode() if isinstance(value, bytes) else value


class struct_c_nvmlDevice_t(Structure):
    """What a device handle points to; opaque."""


class struct_c_nvmlGpuInstance_t(Structure):
    """What a GPU instance handle points to; opaque."""


class struct_c_nvmlComputeInstance_t(Structure):
    """What a compute instance handle points to; opaque."""


c_nvmlDevice_t = POINTER(struct_c_nvmlDevice_t)
c_nvmlGpuInstance_t = POINTER(struct_c_nvmlGpuInstance_t)
c_nvmlComputeInstance_t = POINTER(struct_c_nvmlComputeInstance_t)


class c_nvmlGpuInstancePlacement_t(Structure):
    """Start and size in memory slices."""

    _fields_ = (("start", c_uint), ("size", c_uint))


class c_nvmlComputeInstancePlacement_t(Structure):
    """Start and size in compute slices."""

    _fields_ = (("start", c_uint), ("size", c_uint))


_PROFILE = (
    ("id", c_uint),
    ("isP2pSupported", c_uint),
    ("sliceCount", c_uint),
    ("instanceCount", c_uint),
    ("multiprocessorCount", c_uint),
    ("copyEngineCount", c_uint),
    ("decoderCount", c_uint),
    ("encoderCount", c_uint),
    ("jpegCount", c_uint),
    ("ofaCount", c_uint),
    ("memorySizeMB", c_ulonglong),
)


class c_nvmlGpuInstanceProfileInfo_t(_TextStructure):
    """A GPU instance profile as drivers before R510 tell it: without its name."""

    _fields_ = _PROFILE


class c_nvmlGpuInstanceProfileInfo_v2_t(_TextStructure):
    """A GPU instance profile with its name."""

    _fields_ = (("version", c_uint), *_PROFILE, ("name", c_char * 96))

    def __init__(self) -> None:
        super().__init__(version=0x02000098)


class c_nvmlGpuInstanceInfo_t(Structure):
    """A living GPU instance."""

    _fields_ = (
        ("device", c_nvmlDevice_t),
        ("id", c_uint),
        ("profileId", c_uint),
        ("placement", c_nvmlGpuInstancePlacement_t),
    )


_COMPUTE_PROFILE = (
    ("id", c_uint),
    ("sliceCount", c_uint),
    ("instanceCount", c_uint),
    ("multiprocessorCount", c_uint),
    ("sharedCopyEngineCount", c_uint),
    ("sharedDecoderCount", c_uint),
    ("sharedEncoderCount", c_uint),
    ("sharedJpegCount", c_uint),
    ("sharedOfaCount", c_uint),
)


class c_nvmlComputeInstanceProfileInfo_t(Structure):
    """A compute instance profile as drivers before R510 tell it: without its name."""

    _fields_ = _COMPUTE_PROFILE


class c_nvmlComputeInstanceProfileInfo_v2_t(_TextStructure):
    """A compute instance profile of one GPU instance."""

    _fields_ = (("version", c_uint), *_COMPUTE_PROFILE, ("name", c_char * 96))

    def __init__(self) -> None:
        super().__init__(version=0x02000088)


class c_nvmlComputeInstanceInfo_t(Structure):
    """A living compute instance; `device` is its MIG device."""

    _fields_ = (
        ("device", c_nvmlDevice_t),
        ("gpuInstance", c_nvmlGpuInstance_t),
        ("id", c_uint),
        ("profileId", c_uint),
        ("placement", c_nvmlComputeInstancePlacement_t),
    )


class nvmlPciInfo_t(_TextStructure):
    """Where a GPU sits on the PCI bus; `busId` has an eight-digit domain."""

    _fields_ = (
        ("busIdLegacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pciDeviceId", c_uint),
        ("pciSubSystemId", c_uint),
        ("busId", c_char * 32),
    )


class c_nvmlMemory_t(Structure):
    """Memory in bytes."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class c_nvmlValue_t(Union):
    """The value of a field, in the type that the field has."""

    _fields_ = (
        ("dVal", c_double),
        ("uiVal", c_uint),
        ("ulVal", c_ulong),
        ("ullVal", c_ulonglong),
        ("sllVal", c_longlong),
        ("siVal", c_int),
        ("usVal", c_ushort),
    )


class c_nvmlFieldValue_t(Structure):
    """One answer of a field query; `nvmlReturn` tells whether `value` counts."""

    _fields_ = (
        ("fieldId", c_uint32),
        ("scopeId", c_uint32),
        ("timestamp", c_int64),
        ("latencyUsec", c_int64),
        ("valueType", c_uint),
        ("nvmlReturn", c_uint),
        ("value", c_nvmlValue_t),
    )


class c_nvmlUtilization_t(Structure):
    """How busy a whole GPU was, in percent of the last moment."""

    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class struct_c_nvmlGpmSample_t(Structure):
    """What a sample of the performance counters points to; opaque."""


c_nvmlGpmSample_t = POINTER(struct_c_nvmlGpmSample_t)


class c_metricInfo_t(Structure):
    """Names of a metric."""

    _fields_ = (("shortName", c_char_p), ("longName", c_char_p), ("unit", c_char_p))


class c_nvmlGpmMetric_t(Structure):
    """One metric between two samples; `nvmlReturn` tells whether `value` counts."""

    _fields_ = (("metricId", c_uint), ("nvmlReturn", c_uint), ("value", c_double), ("metricInfo", c_metricInfo_t))


class c_nvmlGpmMetricsGet_t(Structure):
    """A question for metrics, which the answer fills in."""

    _fields_ = (
        ("version", c_uint),
        ("numMetrics", c_uint),
        ("sample1", c_nvmlGpmSample_t),
        ("sample2", c_nvmlGpmSample_t),
        ("metrics", c_nvmlGpmMetric_t * 477),
    )


class c_nvmlGpmSupport_t(Structure):
    """Whether a GPU has performance counters that can be sampled."""

    _fields_ = (("version", c_uint), ("isSupportedDevice", c_uint))


def target(reference: object) -> object:
    """What a `byref(…)` argument refers to; anything else is what it is."""
    return getattr(reference, "_obj", reference)


def address(handle: object) -> int:
    """The number inside an opaque handle, 0 for a null one."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # any of the three pointer types
