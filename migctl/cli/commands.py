"""Every command by its name."""

from __future__ import annotations

from collections.abc import Mapping

from migctl.cli import (
    handover_commands,
    history_commands,
    init_commands,
    inspect_commands,
    job_commands,
    mode_commands,
    queue_commands,
    recovery_commands,
    report_commands,
    run_commands,
    service_commands,
    table_commands,
    tune_commands,
)
from migctl.cli.parameters import CommandBody

COMMANDS: Mapping[str, CommandBody] = {
    **run_commands.COMMANDS,
    **inspect_commands.COMMANDS,
    **job_commands.COMMANDS,
    **recovery_commands.COMMANDS,
    **table_commands.COMMANDS,
    **mode_commands.COMMANDS,
    **queue_commands.COMMANDS,
    **service_commands.COMMANDS,
    **tune_commands.COMMANDS,
    **history_commands.COMMANDS,
    **report_commands.COMMANDS,
    **init_commands.COMMANDS,
    **handover_commands.COMMANDS,
}
HIDDEN = frozenset({"ps"})
"""Other names of commands, for the fingers of those who use `docker`."""
