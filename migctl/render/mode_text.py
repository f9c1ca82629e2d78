"""What `mode` did, in a few lines or as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.gpu.mig import Gpu, MigMode
from migctl.render.console import Style
from migctl.render.text import clean


def mode_text(
    gpu: Gpu, mode: MigMode, style: Style, *, changed: bool, reset: bool, restarted: Sequence[str], simulated: str
) -> str:
    """The mode as it was read back, and what that took."""
    how = "" if changed else "; nothing to do"
    how += ", after a reset of this GPU" if reset else ""
    tail = f"  (simulated: {simulated})" if simulated else ""
    lines = [f"GPU {gpu.index} ({clean(gpu.name, style)}): MIG mode is {_on(mode.current)}{how}{tail}"]
    if restarted:
        lines.append(f"stopped meanwhile, and running again: {', '.join(restarted)}")
    if changed and mode.current:
        lines.append("no CUDA program can use this GPU until an instance is made: migctl up plan.yaml")
    if changed and gpu.resetless_mig is not None:
        lines.append(_lasts(enabled=mode.current, resetless=gpu.resetless_mig))
    return "\n".join(line for line in lines if line) + "\n"


def mode_steps_text(steps: Sequence[str]) -> str:
    """`mode --dry-run`."""
    return "".join(f"would do  {step}\n" for step in steps) or "nothing to do: the MIG mode is already like that\n"


def mode_json(
    gpu: Gpu,
    mode: MigMode,
    *,
    wanted: bool,
    changed: bool,
    reset: bool,
    restarted: Sequence[str],
    steps: Sequence[str] | None,
    simulated: bool,
) -> dict[str, object]:
    """`mode --json`; `steps` only of a dry run."""
    value: dict[str, object] = {
        "version": 1,
        "simulated": simulated,
        "gpu": {"uuid": gpu.uuid, "index": gpu.index, "name": gpu.name, "pci_bus_id": gpu.pci_bus_id},
        "wanted": wanted,
        "mig": {"current": mode.current, "pending": mode.pending},
        "changed": changed,
        "reset": reset,
        "services_restarted": list(restarted),
    }
    return value if steps is None else {**value, "steps": list(steps)}


def _lasts(*, enabled: bool, resetless: bool) -> str:
    """How long the mode lasts differs by what the driver says of this GPU (NVIDIA MIG User Guide, "GPU Reset on Hopper+")."""
    if not resetless:
        return "the GPU remembers its mode: it stays like that after a reboot, too"
    return "after a reboot or a reload of the driver it is off again" if enabled else ""


def _on(on: bool) -> str:
    return "on" if on else "off"
