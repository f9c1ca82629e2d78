"""Resetting one GPU: NVML has no call for it, so it is nvidia-smi's work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from migctl.errors import HostError
from migctl.programs import Answer, ask, find_program

_TIMEOUT_S: Final = 180.0
"""A reset takes some seconds; of GPUs joined by NVLink more."""


class ResetAnswer(StrEnum):
    """How nvidia-smi answered; its words decide, since its exit codes do not tell these apart."""

    DONE = "done"
    IN_USE = "in use"
    NOT_SUPPORTED = "not supported"
    NO_PERMISSION = "no permission"
    FAILED = "failed"


def reset_command(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What does it on a real machine.

    Raises:
        HostError: nvidia-smi is not installed.
    """
    program = find_program("nvidia-smi", environ)
    if program is None:
        raise HostError(
            "no-nvidia-smi",
            "nvidia-smi is not on PATH, and nothing else can reset a GPU",
            hint="install the NVIDIA driver's utilities, or reboot the machine: the change takes effect then",
        )
    return (program,)


def reset_words(command: Sequence[str], pci_bus_id: str) -> tuple[str, ...]:
    """The whole command line; the PCI address names exactly one GPU, without an address nvidia-smi resets all of them."""
    return (*command, "--gpu-reset", "-i", pci_bus_id)


def reset_gpu(command: Sequence[str], pci_bus_id: str, environ: Mapping[str, str]) -> tuple[ResetAnswer, Answer]:
    """Reset one GPU, which nobody may have open, this process included."""
    answer = ask(reset_words(command, pci_bus_id), environ, _TIMEOUT_S)
    return _meaning(answer), answer


def _meaning(answer: Answer) -> ResetAnswer:
    text = answer.text.lower()
    if "in use by another client" in text or "currently being used" in text:
        return ResetAnswer.IN_USE
    if "not supported" in text:
        return ResetAnswer.NOT_SUPPORTED
    if "insufficient permissions" in text or "permission denied" in text:
        return ResetAnswer.NO_PERMISSION
    return ResetAnswer.DONE if answer.code == 0 else ResetAnswer.FAILED
