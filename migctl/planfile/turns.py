"""What a user should know of the queue's keys: those that have no effect as they stand."""

from __future__ import annotations

from collections.abc import Mapping

from migctl.core.choices import RuntimeName, Strategy
from migctl.core.command import shell_operators
from migctl.core.plan import Job
from migctl.planfile.expand import Draft
from migctl.planfile.models import PlanModel
from migctl.planfile.nodes import Node
from migctl.planfile.problems import Report


def notice_plan(model: PlanModel, nodes: Mapping[str, Node], strategy: Strategy | None, report: Report) -> None:
    """The same of the plan's own keys."""
    if strategy is Strategy.SEQUENTIAL and model.max_parallel is not None and model.max_parallel > 1:
        report.notice(
            "one-at-a-time",
            f"strategy: sequential runs one job at a time, whatever max_parallel: {model.max_parallel} says",
            nodes["max_parallel"].start,
            "delete it, or choose another strategy",
        )
    for told in model.notify or ():
        words = told.notify.command
        if told.split and (found := shell_operators(words)):
            report.notice(
                "no-shell",
                f"notify is not read by a shell: {' '.join(found)} is handed to {words[0]} as it stands",
                told.offset,
                "write notify: [sh, -c, '…'] for a shell",
            )
        elif words and not told.split and len(words) > 1 and " " in words[0]:
            report.notice(
                "one-command",
                f"notify is one command here, whose program is {words[0]!r}",
                told.offset,
                "write a list of lists for several commands",
            )


def notice(draft: Draft, job: Job, runtime: RuntimeName, folder: str, report: Report) -> None:
    """Say what cannot have the effect that its key promises."""
    if "retry_on" in draft.nodes and "retries" not in draft.nodes and "retries" not in draft.wrong:
        report.notice(
            "retry-on-unused",
            f"job {draft.origin} says after what to try again, and gives no retries: it runs once",
            draft.nodes["retry_on"].start,
            "add retries: 2",
        )
    if job.expect_s is not None and job.timeout_s is not None and job.expect_s > job.timeout_s:
        report.notice(
            "expect-beyond-timeout",
            f"job {draft.origin} is expected to run longer than its timeout lets it",
            draft.nodes["expect"].start,
            "give a longer timeout, or a shorter expect",
        )
    if job.snapshot and runtime is RuntimeName.DOCKER and not _binds(job, folder) and "volumes" not in draft.wrong:
        report.notice(
            "nothing-to-copy",
            f"snapshot of job {draft.origin} has nothing to copy: no volume mounts the plan's folder or something in it",
            draft.nodes["snapshot"].start,
            "mount it, as in volumes: [./:/workspace]; or delete snapshot, where the image holds the source",
        )


def _binds(job: Job, folder: str) -> bool:
    inside = folder.rstrip("/") + "/"
    return any(
        volume.kind == "bind" and volume.source is not None and f"{volume.source.rstrip('/')}/".startswith(inside)
        for volume in job.volumes
    )
