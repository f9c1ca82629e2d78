"""`up`: what it asks of the engine and what it prints."""

from __future__ import annotations

import json
import sys

from migctl.cli.common import Common
from migctl.cli.progress import Progress
from migctl.cli.signals import cancelling, detaching
from migctl.core.plan import Plan
from migctl.engine.converge import UpOptions, UpResult, converge, preview
from migctl.engine.session import Session


def bring_up(
    common: Common, session: Session, plan: Plan, options: UpOptions, *, dry_run: bool, wait: bool, attach: bool
) -> None:
    """Converge, say what came of it, and wait or attach where asked."""
    if dry_run:
        _show_steps(common, session, plan, options)
        return
    again = f"`migctl down {plan.name}` removes what was made, `migctl up` goes on."
    with Progress(common) as progress, cancelling("undoing what was made; Ctrl-C again stops at once", again) as cancel:
        result = converge(session, plan, options, progress.event, cancel)
    _show(common, session, plan, result, brief=wait or attach)
    if wait or attach:
        _stay(common, session, plan, attach=attach)


def _show(common: Common, session: Session, plan: Plan, result: UpResult, *, brief: bool) -> None:
    from migctl.render.up_text import up_json, up_text

    if common.json:
        if not brief:
            sys.stdout.write(json.dumps(up_json(plan, result.decision, result.records), ensure_ascii=False, indent=2) + "\n")
        return
    sys.stdout.write(up_text(plan, result, common.style()))
