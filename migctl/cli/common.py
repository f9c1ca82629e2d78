"""What every command shares: its options, its session, and how it prints."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from migctl.core.plan import RuntimeName

if TYPE_CHECKING:
    from migctl.engine.session import Session
    from migctl.render.console import Style


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The options every command has."""

    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for programs.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Results and errors only.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say every step.")] = False
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour (also: NO_COLOR=1).")] = False
    nvml: Annotated[
        str | None,
        typer.Option("--nvml", metavar="SIM", help="Simulated GPUs, e.g. sim:a100-40gb (also: MIGCTL_NVML)."),
    ] = None
    runtime: Annotated[
        RuntimeName | None, typer.Option("--runtime", help="What runs the jobs; overrides the plan.")
    ] = None
    state_dir: Annotated[
        Path | None,
        typer.Option("--state-dir", metavar="DIR", help="Where records and logs lie (also: MIGCTL_STATE_DIR)."),
    ] = None

    def session(self) -> Session:
        """The connection to this machine, as the options and the environment say."""
        from migctl.engine.session import Session

        environ = dict(os.environ)
        if self.state_dir is not None:
            environ["MIGCTL_STATE_DIR"] = str(self.state_dir.absolute())
        nvml = self.nvml if self.nvml is not None else environ.get("MIGCTL_NVML", "")
        return Session(environ=environ, nvml=nvml, root=Path(environ.get("MIGCTL_ROOT") or "/"))

    def style(self) -> Style:
        """How to write on this terminal."""
        from migctl.cli.terminal import style

        return style(sys.stdout, no_color=self.no_color)


_NAMES = tuple(Common.__dataclass_fields__)


def with_common(command: Callable[..., None]) -> Callable[..., None]:
    """Add the common options to a command whose first parameter is a `Common`."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    hints = get_type_hints(Common, include_extras=True)
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=Common.__dataclass_fields__[name].default,
            annotation=hints[name],
        )
        for name in _NAMES
    ]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:  # noqa: ANN401 -- typer has checked them against the signature
        common = Common(**{name: values.pop(name) for name in _NAMES})
        command(common, **values)

    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    wrapper.__signature__ = inspect.Signature([*keyword, *added])  # type: ignore[attr-defined]  # read by typer
    wrapper.__annotations__ = {p.name: p.annotation for p in [*keyword, *added]}
    return wrapper
