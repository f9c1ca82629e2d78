"""What `migctl run` tells to type next stands before the warnings, which would hide it."""

from __future__ import annotations

from migctl.core.runs.run import Run
from migctl.core.views.up import UpView
from migctl.errors import Notice
from migctl.render.console import Style
from migctl.render.up_text import up_text

RUN = Run(name="one", plan_path="", owner_uid=0, runtime="process", strategy="mig")
WARNING = Notice("cpus-shared", "jobs share CPUs", hint="fewer jobs")


def text(*, quiet: bool) -> str:
    view = UpView(run=RUN, started=("one",), notices=(WARNING,))
    return up_text(view, Style(), simulated="", quiet=quiet, next_steps=("migctl down one",))


def test_the_next_step_comes_before_the_warnings() -> None:
    told = text(quiet=False)

    assert told.splitlines()[:2] == ["one: 1 job started", "migctl down one"]
    assert told.index("migctl down one") < told.index("warning: jobs share CPUs")


def test_quiet_is_one_line() -> None:
    assert text(quiet=True) == "one: 1 job started\n"
