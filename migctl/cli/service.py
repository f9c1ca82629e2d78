"""`service`: what it asks of the engine and what it prints."""

from __future__ import annotations

from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.engine.service import ServiceState, install, state, uninstall
from migctl.errors import PlanError


def install_service(common: Common, *, user: bool, system: bool, reload: bool) -> None:
    """Install it, and say what there is now."""
    if user == system:
        raise PlanError(
            "usage",
            "a service is the user's own (--user) or the machine's (--system)",
            hint="migctl service install --user; --system where runs are brought up with sudo",
        )
    _show(common, install(common.session(), system=system, reload=reload))


def uninstall_service(common: Common, *, user: bool, system: bool) -> None:
    """Remove it; without a word the one that is there."""
    session = common.session()
    if user == system:
        user = state(session).kind != "system"
    removed = uninstall(session, system=not user)
    if common.json:
        write_json({"version": 1, "removed": removed})
    elif not common.quiet:
        write(
            "removed; a supervisor that runs goes on\n" if removed else "no service is installed: nothing to remove\n"
        )


def show_service(common: Common) -> None:
    """Say what is installed."""
    _show(common, state(common.session()))


def run_service(common: Common) -> None:
    """Supervise in this process until nothing is left."""
    from migctl.engine.queueing.supervision import oversee

    oversee(common.session())


def _show(common: Common, found: ServiceState) -> None:
    if common.json:
        from migctl.render.json_values import notice_json

        write_json(
            {
                "version": 1,
                "installed": found.kind,
                "unit": found.unit or None,
                "path": found.path or None,
                "enabled": found.enabled or None,
                "active": found.active or None,
                "starts_without_login": found.starts_without_login,
                "supervised": found.supervised,
                "warnings": [notice_json(notice) for notice in found.notices],
            }
        )
        return
    if common.quiet:
        return
    from migctl.render.errors_text import notice_lines

    now = "a supervisor is at work" if found.supervised else "nothing is supervised now"
    if found.kind is None:
        write(f"no service is installed; {now}\n")
        return
    write(f"{found.unit}: installed ({found.kind}), {found.enabled}, {found.active}; {now}\n  {found.path}\n")
    for line in notice_lines(found.notices, common.style()):
        write(f"{line}\n")
