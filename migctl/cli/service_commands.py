"""The command for the systemd service that goes on with runs after a restart of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import Argument, CommandBody, Option


class Deed(StrEnum):
    """What to do with the service."""

    INSTALL = "install"
    UNINSTALL = "uninstall"
    STATUS = "status"
    RUN = "run"


def service(
    common: Common,
    deed: Annotated[
        Deed, Argument(metavar="install|uninstall|status|run", help="run: supervise here until nothing is left.")
    ],
    user: Annotated[bool, Option("--user", help="The user's own service.")] = False,
    system: Annotated[
        bool, Option("--system", help="A service of the machine, as root, for the calling user.")
    ] = False,
    no_reload: Annotated[
        bool, Option("--no-reload", help="Leave systemd as it is: the unit counts from the next start on.")
    ] = False,
) -> None:
    """Go on with your runs after a restart of the machine, by a systemd service."""
    from migctl.cli.service import install_service, run_service, show_service, uninstall_service

    match deed:
        case Deed.INSTALL:
            install_service(common, user=user, system=system, reload=not no_reload)
        case Deed.UNINSTALL:
            uninstall_service(common, user=user, system=system)
        case Deed.STATUS:
            show_service(common)
        case Deed.RUN:
            run_service(common)


COMMANDS: Mapping[str, CommandBody] = {"service": service}
