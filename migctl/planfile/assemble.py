"""From a validated draft to the job of the core, with everything that needs several keys, the folder or the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from migctl.core.choices import RetryOn, RuntimeName, Storage, Strategy
from migctl.core.command import processes_per_node, shell_operators
from migctl.core.handover import HANDED
from migctl.core.plan import SIZES, Auto, ByInstance, ByMemory, ByProfile, BySlices, GpuRequest, Job, Volume
from migctl.errors import Where
from migctl.planfile.environment import Environments
from migctl.planfile.expand import Draft
from migctl.planfile.gpu_fields import is_label_form
from migctl.planfile.interpolation import references
from migctl.planfile.mounts import Mounts, absolute
from migctl.planfile.nodes import Node, Scalar, Sequence, walk
from migctl.planfile.problems import Refusal, Report, did_you_mean

CONTAINER_ONLY = (
    "image", "pull_policy", "volumes", "ports", "network_mode", "shm_size", "tmpfs", "group_add", "ulimits", "labels",
    "extra_hosts", "cap_add", "security_opt", "ipc", "mem_limit", "user",
)  # fmt: skip
"""Keys that mean nothing to a process."""

_TOLD_LATER = (
    "profile", "memory", "slices", "instance", "gpu", "cpus", "cpuset", "num_workers", "batch_size", "batch_size_memory",
    "storage", "image", "command", "entrypoint", "volumes", "user", "needs", "stage", "snapshot", "mps", "per_instance",
)  # fmt: skip
"""Keys whose values only the machine can refuse."""

_DEFAULT_FIXED_MIB = 1536
_DEFAULT_RETRY_ON = (RetryOn.FAILED, RetryOn.LOST)
_OWN_LABELS = "io.migctl."


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What holds for all jobs of the plan."""

    folder: str
    environ: Mapping[str, str]
    strategy: Strategy | None
    runtime: RuntimeName
    environments: Environments
    mounts: Mounts
    elsewhere: bool
    """The jobs run on a cluster's nodes."""
    report: Report


def job(draft: Draft, needs: tuple[str, ...], setting: Setting) -> Job:
    """The job, with the names of the jobs that it needs; mistakes go to the report, and what is made then is not used."""
    model, report = draft.model, setting.report
    container = setting.runtime is RuntimeName.DOCKER
    _check_cpus(draft, report)
    _check_batch(draft, report)
    command, entrypoint = _argv(draft, setting)
    ports = model.ports or ()
    if container and ports and model.network_mode in ("host", "none"):
        report.error(
            "ports-without-network",
            f"ports are not published with network_mode: {model.network_mode}",
            _start(draft, "ports"),
            "delete one of the two",
        )
    _check_labels(draft, report)
    variables = setting.environments.of(draft)
    return Job(
        name=draft.name,
        origin=draft.origin,
        where=report.place(draft.start),
        places=places(draft.nodes, _TOLD_LATER, report),
        keys=frozenset(draft.nodes),
        request=_request(draft, setting),
        gpus=model.gpu or (),
        cpus=model.cpus,
        cpuset=model.cpuset,
        num_workers=model.num_workers,
        batch_size=model.batch_size,
        batch_size_memory_mib=model.batch_size_memory,
        batch_fixed_memory_mib=_DEFAULT_FIXED_MIB if model.batch_fixed_memory is None else model.batch_fixed_memory,
        storage=Storage(model.storage) if model.storage else None,
        memory_mib=model.memory,
        needs=needs,
        stage=model.stage,
        priority=model.priority or 0,
        retries=model.retries or 0,
        retry_on=tuple(RetryOn(end) for end in dict.fromkeys(model.retry_on)) if model.retry_on else _DEFAULT_RETRY_ON,
        timeout_s=model.timeout,
        expect_s=model.expect,
        resumable=bool(model.resumable),
        snapshot=bool(model.snapshot),
        mps=model.mps,
        per_instance=model.per_instance or 1,
        image=model.image,
        pull_policy="missing" if model.pull_policy in (None, "if_not_present") else model.pull_policy,
        command=command,
        entrypoint=entrypoint,
        environment=variables.values,
        from_files=variables.from_files,
        volumes=_volumes(draft, setting) if container else (),
        ports=ports,
        network_mode=model.network_mode,
        shm_size_bytes=model.shm_size,
        tmpfs=model.tmpfs or (),
        working_dir=_working_dir(draft, setting),
        group_add=model.group_add or (),
        ulimits=model.ulimits or (),
        labels=tuple((model.labels or {}).items()),
        extra_hosts=model.extra_hosts or (),
        cap_add=model.cap_add or (),
        security_opt=model.security_opt or (),
        ipc=model.ipc,
        stop_grace_period_s=60.0 if model.stop_grace_period is None else model.stop_grace_period,
        mem_limit_bytes=model.mem_limit if isinstance(model.mem_limit, int) else None,
        mem_limit_auto=model.mem_limit == "auto",
        user=model.user,
    )


def places(nodes: Mapping[str, Node], keys: Iterable[str], report: Report) -> tuple[tuple[str, Where], ...]:
    """Where the values of these keys stand, as far as they do in the file."""
    found = ((key, report.place(nodes[key].start)) for key in keys if key in nodes)
    return tuple((key, where) for key, where in found if where is not None)


def _start(draft: Draft, key: str) -> int:
    node = draft.nodes.get(key)
    return draft.start if node is None else node.start


def _request(draft: Draft, setting: Setting) -> GpuRequest:
    model, report = draft.model, setting.report
    given = [key for key in SIZES if key in draft.nodes]
    if len(given) > 1:
        last = max(given, key=lambda key: draft.nodes[key].start)
        report.error(
            "two-sizes",
            f"job {draft.origin} gives {' and '.join(given)}; one of them sizes its GPU instance",
            _start(draft, last),
            "keep one",
        )
    if setting.strategy is not None and setting.strategy is not Strategy.MIG:
        for key in ("profile", "slices", "instance"):
            if key in draft.nodes:
                report.error(
                    "size-without-mig",
                    f"{key} {'names' if key == 'instance' else 'sizes'} a GPU instance, and strategy: {setting.strategy} uses none",
                    _start(draft, key),
                    "delete it, or write strategy: mig",
                )
        return Auto()
    if model.profile is not None:
        spelt = draft.nodes["profile"]
        if isinstance(spelt, Scalar) and is_label_form(spelt.text):
            report.notice(
                "label-form",
                f"{spelt.text} is read as {model.profile}: labels cannot hold the plus sign",
                spelt.start,
                f"write {model.profile}",
            )
        return ByProfile(model.profile)
    if model.memory is not None:
        return ByMemory(model.memory)
    if model.instance is not None:
        return ByInstance(model.instance)
    return Auto() if model.slices is None else BySlices(model.slices)


def _check_cpus(draft: Draft, report: Report) -> None:
    if "cpus" in draft.nodes and "cpuset" in draft.nodes:
        last = max(("cpus", "cpuset"), key=lambda key: draft.nodes[key].start)
        report.error(
            "cpus-and-cpuset",
            f"job {draft.origin} gives cpus and cpuset; a number of cores or the CPUs themselves, not both",
            _start(draft, last),
            "keep one",
        )


def _check_batch(draft: Draft, report: Report) -> None:
    model = draft.model
    if "batch_size" not in draft.nodes and "batch_size" not in draft.wrong:
        for key in ("batch_size_memory", "batch_fixed_memory"):
            if key in draft.nodes:
                report.error(
                    "batch-without-size",
                    f"{key} scales batch_size, which job {draft.origin} does not give",
                    _start(draft, key),
                    "add batch_size",
                )
    fixed = _DEFAULT_FIXED_MIB if model.batch_fixed_memory is None else model.batch_fixed_memory
    if model.batch_size_memory is not None and model.batch_size_memory <= fixed:
        report.error(
            "batch-memory",
            f"batch_size_memory must be larger than the {fixed} MiB that do not grow with the batch",
            _start(draft, "batch_size_memory"),
            "give the GPU memory at which batch_size was found to fit",
        )


def _argv(draft: Draft, setting: Setting) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    model, report = draft.model, setting.report
    command = None if model.command is None else model.command.arguments
    entrypoint = None if model.entrypoint is None else model.entrypoint.arguments
    for key, value in (("command", model.command), ("entrypoint", model.entrypoint)):
        if value is not None and value.split and (found := shell_operators(value.arguments)):
            report.notice(
                "no-shell",
                f"{key} of job {draft.origin} is not read by a shell: {' '.join(found)} is handed to the program as it stands",
                _start(draft, key),
                f"write {key}: [sh, -c, '…'] for a shell",
            )
    if setting.runtime is RuntimeName.PROCESS:
        # A process has no image whose entry point could be replaced: the two are one command line, as a container would run it.
        command, entrypoint = (*(entrypoint or ()), *(command or ())), None
        if not command and not draft.wrong & {"command", "entrypoint"}:
            report.error(
                "command-missing",
                f"job {draft.origin} has no command, which the process runtime needs",
                draft.start,
                "add command: [python, train.py]",
            )
    elif model.image is None and "image" not in draft.wrong:
        report.error(
            "image-missing",
            f"job {draft.origin} has no image to run in",
            draft.start,
            "add image, here or under defaults; or run it without containers: `--runtime process`",
        )
    _check_start_values(draft, report)
    words = (*(entrypoint or ()), *(command or ()))
    ranks = processes_per_node(words)
    world = (model.environment or {}).get("WORLD_SIZE")
    if ranks is not None or world not in (None, "1"):
        what = f"starts {ranks} processes for one GPU each" if ranks else f"sets WORLD_SIZE={world}"
        report.notice(
            "several-ranks",
            f"job {draft.origin} {what}, but a job sees one CUDA device; "
            "ranks on one instance compete, and NCCL refuses most such set-ups",
            _start(draft, "command" if ranks else "environment"),
            "use one process a job, or a larger profile",
        )
    return command, entrypoint


def _check_start_values(draft: Draft, report: Report) -> None:
    """Every `${MIGCTL_…}` names something; `${MIGCTL_BATCH_SIZE}` has a value only where a batch size is asked for."""
    asked = draft.model.batch_size is not None or "batch_size" in draft.wrong
    for key in ("command", "entrypoint", "environment"):
        node = draft.nodes.get(key)
        for part in walk(node) if node is not None else ():
            if "${MIGCTL_" not in part.text:
                continue
            # In a file these are found before; on a command line nothing else looks at them.
            if unknown := next((name for name in references(part.text) if name not in HANDED), None):
                report.error(
                    "unknown-variable",
                    f"${{{unknown}}} is nothing that migctl hands to a job",
                    part.start,
                    did_you_mean(unknown, HANDED) or f"there are {', '.join(HANDED)}",
                )
            elif "${MIGCTL_BATCH_SIZE}" in part.text and not asked:
                report.error(
                    "no-batch-size",
                    f"${{MIGCTL_BATCH_SIZE}} has no value: job {draft.origin} gives no batch_size",
                    report.source.find("${MIGCTL_BATCH_SIZE", part.start, part.end) if part.start >= 0 else -1,
                    "add batch_size, or a default: ${MIGCTL_BATCH_SIZE:-32}",
                )


def _check_labels(draft: Draft, report: Report) -> None:
    for name in draft.model.labels or {}:
        if name.startswith(_OWN_LABELS) or not name:
            what = name or "an empty name"
            report.error(
                "reserved-label",
                f"{what} cannot be a label of a job: {_OWN_LABELS}* are migctl's own",
                _start(draft, "labels"),
                "choose another name",
            )


def _volumes(draft: Draft, setting: Setting) -> tuple[Volume, ...]:
    found: dict[str, Volume] = {}
    own = draft.inherited_volumes
    node = draft.nodes.get("volumes")
    for number, volume in enumerate(draft.model.volumes or ()):
        item: Node | None = node.items[number] if isinstance(node, Sequence) else node
        offset = draft.start if item is None else item.start
        try:
            good = setting.mounts.checked(volume)
        except Refusal as refused:
            setting.report.error(
                refused.id,
                f"volume {refused.message}" if not refused.whole else refused.message,
                offset,
                refused.hint,
            )
            continue
        if volume.target in found and number >= own and found[volume.target] not in tuple(found.values())[:own]:
            setting.report.error(
                "duplicate-target",
                f"two volumes of job {draft.origin} have the target {volume.target}",
                offset,
                "keep one",
            )
        found[volume.target] = good
    return tuple(found.values())


def _working_dir(draft: Draft, setting: Setting) -> str | None:
    path = draft.model.working_dir
    if path is None:
        return None
    offset, report = _start(draft, "working_dir"), setting.report
    if setting.runtime is RuntimeName.DOCKER:
        if not path.startswith("/"):
            report.error(
                "bad-value",
                f"working_dir must be an absolute path of the container, got {path!r}",
                offset,
                f"write /{path.lstrip('./')}",
            )
        return path
    try:
        path = absolute(path, setting.folder, setting.environ)
    except Refusal as refused:
        report.error(refused.id, f"working_dir {refused.message}", offset, refused.hint)
        return None
    if not setting.elsewhere and not os.path.isdir(path):  # noqa: PTH112 -- a text path all along
        report.error(
            "missing-source",
            f"working_dir is {path}, which is no folder on this machine",
            offset,
            f"mkdir -p {path}, or correct it",
        )
    return path
