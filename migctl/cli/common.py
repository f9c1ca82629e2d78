"""What every command shares: its options, its session, and how it prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from migctl.cli.parameters import Option
from migctl.core.choices import RuntimeName

if TYPE_CHECKING:
    from migctl.engine.session import Session
    from migctl.render.console import Style


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The options every command has."""

    json: Annotated[bool, Option("--json", help="One JSON object on stdout, for programs.")] = False
    quiet: Annotated[bool, Option("--quiet", "-q", help="Results and errors only.")] = False
    verbose: Annotated[bool, Option("--verbose", "-v", help="Say every step.")] = False
    no_color: Annotated[bool, Option("--no-color", help="No colour (also: NO_COLOR=1).")] = False
    nvml: Annotated[
        str | None,
        Option("--nvml", metavar="SIM", help="Simulated GPUs, e.g. sim:a100-40gb (also: MIGCTL_NVML)."),
    ] = None
    runtime: Annotated[RuntimeName | None, Option("--runtime", help="What runs the jobs; overrides the plan.")] = None
    state_dir: Annotated[
        Path | None,
        Option("--state-dir", metavar="DIR", help="Where records and logs lie (also: MIGCTL_STATE_DIR)."),
    ] = None

    def environ(self) -> Mapping[str, str]:
        """The caller's environment, with what the options put in place of it."""
        environ = dict(os.environ)
        if self.state_dir is not None:
            environ["MIGCTL_STATE_DIR"] = str(self.state_dir.absolute())
        return environ

    def session(self) -> Session:
        """The connection to this machine, as the options and the environment say."""
        from migctl.engine.session import Session

        environ = self.environ()
        nvml = self.nvml if self.nvml is not None else environ.get("MIGCTL_NVML", "")
        return Session(environ=environ, nvml=nvml, root=Path(environ.get("MIGCTL_ROOT") or "/"))

    def style(self) -> Style:
        """How to write on this terminal."""
        from migctl.cli.terminal import style

        return style(sys.stdout, no_color=self.no_color)
