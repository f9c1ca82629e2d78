"""The one place that turns NVML return codes into migctl's errors."""

from __future__ import annotations

from typing import Final

from migctl.core.gpu.mig import Instance, MigMode
from migctl.errors import Busy, HostError, MigctlError
from migctl.nvml.codes import Code, code_name

_SIMULATE: Final = "without a GPU, try it on a simulated one: --nvml sim:a100-40gb"
_KINDS: Final[dict[int, tuple[type[HostError | Busy], str, str, str | None]]] = {
    # code: (class, id, what NVML means by it, what to do)
    Code.LIBRARY_NOT_FOUND: (
        HostError,
        "no-driver",
        "libnvidia-ml.so.1 was not found, so no NVIDIA driver is installed",
        _SIMULATE,
    ),
    Code.DRIVER_NOT_LOADED: (
        HostError,
        "no-driver",
        "the NVIDIA kernel module is not loaded or no GPU is visible",
        _SIMULATE,
    ),
    Code.LIB_RM_VERSION_MISMATCH: (
        HostError,
        "driver-mismatch",
        "the NVIDIA library and the loaded kernel module are of different versions",
        "reboot, so that the kernel loads the module of the installed driver",
    ),
    Code.FUNCTION_NOT_FOUND: (
        HostError,
        "driver-too-old",
        "the installed NVIDIA driver lacks this function",
        "update the NVIDIA driver",
    ),
    Code.ARGUMENT_VERSION_MISMATCH: (
        HostError,
        "driver-too-old",
        "the installed NVIDIA driver does not know this version of the function",
        "update the NVIDIA driver",
    ),
    Code.NO_PERMISSION: (
        HostError,
        "no-permission",
        "this user may not; it takes root, or read access to the mig/config capability (/dev/nvidia-caps/nvidia-cap1)",
        "ask an administrator for the mig/config capability (migctl check says how)",
    ),
    Code.IN_USE: (
        Busy,
        "gpu-in-use",
        "something still uses it (a process, a container, or a monitoring service)",
        "migctl check names who holds the GPU; stop that and repeat the command",
    ),
    Code.INSUFFICIENT_RESOURCES: (
        Busy,
        "no-room",
        "the driver has no room for it beside what exists",
        "migctl status shows what is there",
    ),
    Code.NOT_SUPPORTED: (
        HostError,
        "not-supported",
        "this GPU or driver does not support it now: no MIG, MIG mode is off, or a vGPU guest",
        "migctl check",
    ),
    Code.NOT_FOUND: (HostError, "not-found", "it is not there any more", "migctl status shows what is there"),
    Code.INVALID_ARGUMENT: (
        HostError,
        "nvml-refused",
        "the driver does not know what was named: it was removed or the GPU was reset meanwhile",
        "migctl status shows what is there",
    ),
    Code.GPU_IS_LOST: (
        HostError,
        "gpu-lost",
        "the GPU does not answer on its bus any more",
        "look for Xid messages in the kernel log (dmesg), then reboot",
    ),
    Code.RESET_REQUIRED: (
        HostError,
        "reset-required",
        "the GPU must be reset first",
        "migctl mode enable (or disable) with --reset, or reboot",
    ),
    Code.NOT_READY: (HostError, "gpu-not-ready", "the GPU is not ready yet", "repeat the command in a moment"),
    Code.UNKNOWN: (
        HostError,
        "nvml-unknown",
        "the driver gave no reason; in a container this is what a lost access to the GPU's device files looks like",
        "migctl check; in a container, restart the container",
    ),
}


class WrongPlacement(HostError):  # noqa: N818 -- reads as the sentence it is
    """The driver reported success and made a GPU instance elsewhere than asked.

    Args:
        doing: what was wanted.
        made: what is there instead.
        removed: whether it could be removed again.
    """

    def __init__(self, doing: str, made: Instance, *, removed: bool) -> None:
        end = "it is removed again" if removed else "it could not be removed again yet"
        super().__init__(
            "wrong-placement",
            f"{doing} made profile id {made.profile_id} at {made.placement} instead; {end}",
            where=gpu_word(made.gpu_uuid),
            hint="update the NVIDIA driver",
        )
        self.left = None if removed else made
        """What has still to be removed."""


def still_there(doing: str, gpu: str) -> Busy:
    """The driver reported success for a removal, and what was to be removed is listed all the same."""
    return Busy(
        "still-there",
        f"{doing}: the driver reported success, but it is still there",
        where=gpu_word(gpu),
        hint="repeat the command; if it stays, migctl check tells who holds the GPU",
    )


def nvml_error(code: int, *, call: str, doing: str, gpu: str | None = None) -> MigctlError:
    """The error for a return code.

    Args:
        code: what NVML returned.
        call: the NVML function.
        doing: what was wanted, as the beginning of a sentence: `creating 1g.5gb at 0:1`.
        gpu: UUID or index of the GPU meant.
    """
    kind, name, meaning, hint = _KINDS.get(code, (HostError, "nvml-error", "the driver refused", "migctl check"))
    return kind(
        name,
        f"{doing} failed: {meaning} (NVML: {code_name(code)} from {call})",
        where=gpu_word(gpu) if gpu is not None else None,
        hint=hint,
        data={"nvml_code": code, "nvml_call": call, "gpu": gpu, "needs_root": code == Code.NO_PERMISSION},
    )


def strange_answer(what: Exception, *, doing: str, gpu: str | None = None) -> HostError:
    """The driver answered what cannot be: nothing is concluded from it."""
    return HostError(
        "driver-answer",
        f"{doing}: the NVIDIA driver's answer makes no sense: {what}",
        where=gpu_word(gpu) if gpu is not None else None,
        hint="nvidia-smi; dmesg | grep NVRM; update the NVIDIA driver",
        data={"gpu": gpu} if gpu is not None else None,
    )


def no_mig(gpu: str, product: str) -> HostError:
    """MIG was asked of a GPU whose driver says that it has none."""
    display = "RTX PRO" in product
    return HostError(
        "no-mig",
        f"{product} has no MIG, says its driver"
        + (": an RTX PRO offers it only in display mode `compute` and from a minimum vBIOS on" if display else ""),
        where=gpu_word(gpu),
        hint="NVIDIA's DisplayModeSelector changes the mode (it can turn a screen black); the MIG User Guide names the vBIOS"
        if display
        else "strategy: shared or sequential runs jobs without MIG",
        data={"gpu": gpu},
    )


def mode_pending(gpu: str, *, wanted: bool, mode: MigMode, activation: int) -> HostError:
    """NVML accepted a mode change that is not in force; the activation status tells why and decides the advice."""
    word = "enable" if wanted else "disable"
    match activation:
        case Code.IN_USE:
            why = "something holds the GPU (In use by another client)"
            hint = (
                "stop what uses it (migctl check names it; often dcgm, nvsm or nvidia-persistenced), "
                f"then: migctl mode {word} --gpu {gpu}"
            )
        case Code.NOT_SUPPORTED:
            why = "this machine does not allow a GPU reset (Not Supported), as virtual machines often do not"
            hint = "reboot the machine; the change takes effect then"
        case Code.RESET_REQUIRED:
            why = "the GPU must be reset first"
            hint = f"migctl mode {word} --gpu {gpu} --reset, or reboot the machine"
        case Code.SUCCESS:
            why = "the driver reported success, but reading back shows otherwise"
            hint = f"migctl mode {word} --gpu {gpu} --reset, or reboot the machine"
        case _:
            why = f"the driver answered {code_name(activation)}"
            hint = "reboot the machine"
    return HostError(
        "mig-mode-pending",
        f"MIG mode is not {word}d yet: {why}; it is {_on(mode.current)} now and {_on(mode.pending)} after a reset",
        where=gpu_word(gpu),
        hint=hint,
        data={"gpu": gpu, "activation": code_name(activation), "current": mode.current, "pending": mode.pending},
    )


def no_answer(gpu: str, seconds: float) -> HostError:
    """A GPU whose driver call does not return."""
    return HostError(
        "gpu-no-answer",
        f"{gpu_word(gpu)} does not answer: the driver has said nothing for {seconds:g} s",
        where=gpu_word(gpu),
        hint="look for Xid messages in the kernel log (dmesg); the other GPUs are not concerned",
        data={"gpu": gpu},
    )


def no_such_gpu(gpu: str) -> HostError:
    """A UUID that this machine does not have."""
    return HostError(
        "no-such-gpu",
        "this machine has no such GPU",
        where=gpu_word(gpu),
        hint="migctl status lists the GPUs",
        data={"gpu": gpu},
    )


def gpu_word(gpu: str) -> str:
    """What a GPU is called in an error: `GPU 0` by its index; a UUID (`GPU-5e…`) says itself what it is of."""
    return gpu if gpu.startswith("GPU-") else f"GPU {gpu}"


def _on(on: bool) -> str:
    return "enabled" if on else "disabled"
