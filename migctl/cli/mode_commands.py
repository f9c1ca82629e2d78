"""The command that changes the MIG mode of one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import Argument, CommandBody, Option
from migctl.cli.run_commands import WaitFor


class Switch(StrEnum):
    """What to do with the mode."""

    ENABLE = "enable"
    DISABLE = "disable"


def mode(
    common: Common,
    switch: Annotated[Switch, Argument(metavar="enable|disable", help="What to do with the MIG mode.")],
    gpu: Annotated[
        str | None, Option("--gpu", help="Index, UUID or PCI id; needed where several GPUs have MIG.")
    ] = None,
    reset: Annotated[
        bool, Option("--reset", help="Reset this one GPU where its driver asks for that (Ampere).")
    ] = False,
    stop_services: Annotated[
        bool, Option("--stop-services", help="Stop monitoring services meanwhile (DCGM, nvsm, nvidia-persistenced).")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    wait_for: WaitFor = 0.0,
) -> None:
    """Turn MIG mode on or off on one idle GPU; done only when it is in force."""
    from migctl.cli.mode import switch_mode

    switch_mode(
        common,
        gpu,
        enabled=switch is Switch.ENABLE,
        reset=reset,
        stop_services=stop_services,
        dry_run=dry_run,
        wait_for_s=wait_for,
    )


COMMANDS: Mapping[str, CommandBody] = {"mode": mode}
