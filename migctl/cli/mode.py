"""`mode`: what it asks of the engine and what it prints."""

from __future__ import annotations

from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.cli.progress import Progress
from migctl.cli.signals import cancelling
from migctl.core.plan import GpuSelector
from migctl.errors import PlanError


def switch_mode(
    common: Common,
    gpu: str | None,
    *,
    enabled: bool,
    reset: bool,
    stop_services: bool,
    dry_run: bool,
    wait_for_s: float,
) -> None:
    """Change the mode, or say what that would take."""
    from migctl.engine.gpumode.modechange import ModeRequest, change_mode, preview_mode
    from migctl.render.mode_text import mode_json, mode_steps_text, mode_text

    session = common.session()
    if session.root != Path("/") and not dry_run:
        raise PlanError(
            "other-root",
            "MIGCTL_ROOT points to another machine's tree: nothing can be changed there",
            hint="--dry-run, or unset MIGCTL_ROOT",
        )
    request = ModeRequest(
        enabled=enabled, gpu=_selector(gpu), reset=reset, stop_services=stop_services, wait_for_s=wait_for_s
    )
    if dry_run:
        result = preview_mode(session, request)
    else:
        again = (
            f"`migctl mode {request.word}` again goes on; services that were stopped are started by the next migctl."
        )
        with Progress(common) as progress, cancelling("finishing the present step; waiting ends", again) as cancel:
            result = change_mode(session, request, progress.event, cancel)
    if common.json:
        write_json(
            mode_json(
                result.gpu,
                result.mode,
                wanted=enabled,
                changed=result.changed,
                reset=result.reset,
                restarted=result.stopped,
                steps=result.steps if dry_run else None,
                simulated=session.simulated,
            )
        )
    elif dry_run:
        write(mode_steps_text(result.steps))
    else:
        write(
            mode_text(
                result.gpu,
                result.mode,
                common.style(),
                changed=result.changed,
                reset=result.reset,
                restarted=result.stopped,
                simulated=session.nvml,
            )
        )


def _selector(text: str | None) -> GpuSelector | None:
    """An index, a UUID or a PCI id, as `gpu:` of a plan has them."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 4:
        return GpuSelector(index=int(text))
    if text == "all":
        return GpuSelector(all=True)
    if ":" in text and not text.lower().startswith(("gpu-", "mig-")):
        return GpuSelector(pci=text)
    return GpuSelector(uuid=text)
