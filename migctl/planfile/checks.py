"""What holds between the jobs of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.choices import RuntimeName
from migctl.core.names import clashes
from migctl.core.plan import Job
from migctl.planfile import sharing, turns
from migctl.planfile.assemble import CONTAINER_ONLY, Setting
from migctl.planfile.expand import Draft
from migctl.planfile.problems import Report

_EVERY_ADDRESS = ("", "0.0.0.0", "::")


def check(drafts: Sequence[Draft], jobs: Sequence[Job], setting: Setting) -> None:
    """Names, host ports, sharing, and what a user should know; mistakes and notices go to the report."""
    report = setting.report
    _check_names(drafts, report)
    sharing.check(drafts, jobs, setting.strategy, setting.runtime, report)
    for draft, job in zip(drafts, jobs, strict=True):
        turns.notice(draft, job, setting.runtime, setting.folder, report)
    if setting.runtime is RuntimeName.DOCKER:
        _check_ports(drafts, jobs, report)
        _notice_ipc(drafts, report)
    else:
        _notice_container_keys(drafts, report)


def _check_names(drafts: Sequence[Draft], report: Report) -> None:
    twice = clashes(draft.name for draft in drafts)
    same: dict[str, list[Draft]] = {name: [] for name in twice}
    for draft in drafts if twice else ():
        if draft.name in same:
            same[draft.name].append(draft)
    for name, (first, second, *_) in same.items():
        whose = (
            f"{first.origin} and {second.origin}"
            if first.origin != second.origin
            else f"values of the matrix of {first.origin}"
        )
        report.error(
            "name-clash",
            f"two jobs have the name {name}: {whose}",
            second.start,
            "rename one, or change the values",
        )


def _check_ports(drafts: Sequence[Draft], jobs: Sequence[Job], report: Report) -> None:
    taken: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for draft, job in zip(drafts, jobs, strict=True):
        node = draft.nodes.get("ports")
        for port in job.ports:
            if not port.host:
                continue
            others = taken.setdefault((port.host, port.protocol), [])
            for ip, owner in others:
                if ip == port.host_ip or ip in _EVERY_ADDRESS or port.host_ip in _EVERY_ADDRESS:
                    whose = f"jobs {owner} and {job.name}" if owner != job.name else f"job {job.name} twice"
                    report.error(
                        "port-clash",
                        f"host port {port.host}/{port.protocol} is published by {whose}",
                        draft.start if node is None else node.start,
                        f'leave the host port to the engine: "{port.container}"',
                    )
                    break
            others.append((port.host_ip, job.name))


def _notice_ipc(drafts: Sequence[Draft], report: Report) -> None:
    for draft in drafts:
        if draft.model.ipc == "host":
            report.notice(
                "ipc-host",
                f"ipc: host lets job {draft.origin} and everybody else on the machine reach each other's shared memory",
                draft.nodes["ipc"].start,
                "delete it: /dev/shm is large enough for the workers by default, and shm_size makes it larger",
            )


def _notice_container_keys(drafts: Sequence[Draft], report: Report) -> None:
    used = [key for key in CONTAINER_ONLY if any(key in draft.nodes for draft in drafts)]
    if used:
        report.notice(
            "container-only-keys",
            f"the process runtime has no container, and leaves these keys out: {', '.join(used)}",
            min(draft.nodes[key].start for draft in drafts for key in used if key in draft.nodes),
            "delete them, or use runtime: docker",
        )
