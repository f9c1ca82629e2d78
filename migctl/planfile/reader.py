"""A plan file, a text or keyword values to the core's plan, or to all their mistakes at once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from migctl.core import names
from migctl.core.choices import CpuShare, CpuSplit, Finish, Numa, Reboot, RuntimeName, Strategy
from migctl.core.cluster.clusters import EngineName, KubernetesSettings, SlurmSettings
from migctl.core.plan import Plan
from migctl.errors import PlanError, Problems, Where
from migctl.planfile.assemble import Setting, job, places
from migctl.planfile.checks import check
from migctl.planfile.environment import Environments
from migctl.planfile.expand import drafts
from migctl.planfile.interpolation import Scope, fill
from migctl.planfile.models import JOB_KEYS, PLAN_KEYS, PlanModel
from migctl.planfile.mounts import Mounts
from migctl.planfile.needs import resolved
from migctl.planfile.nodes import Mapping as MappingNode
from migctl.planfile.nodes import Node, Scalar, Sequence, compose, from_value
from migctl.planfile.problems import Report
from migctl.planfile.scalars import is_null, kind
from migctl.planfile.source import LARGEST_BYTES, Source, checked, decode, read
from migctl.planfile.turns import notice_plan
from migctl.planfile.validate import known_entries, validated

STANDARD = ("plan.yaml", "migctl.yaml")
"""File names that need not be given."""

_TOLD_LATER = ("gpu", "strategy", "reserve_cores", "max_parallel", "on_reboot", "notify")
"""Keys whose values only the machine can refuse."""

Value = str | int | bool | None | list["Value"] | tuple["Value", ...] | dict[str, "Value"]
"""A value of the command line; text may stand for a number."""


def find(folder: Path) -> Path:
    """The plan of a folder: plan.yaml, else migctl.yaml.

    Raises:
        PlanError: neither is there.
    """
    for name in STANDARD:
        if (folder / name).exists():
            return folder / name
    near = next((name for name in ("plan.yml", "migctl.yml") if (folder / name).exists()), None)
    raise PlanError(
        "no-plan",
        f"there is neither {STANDARD[0]} nor {STANDARD[1]} in {folder.absolute()}",
        hint=f"name the file: -f {near}" if near else "go to the plan's folder, or name the file: -f FILE",
    )


def load(
    path: Path,
    environ: Mapping[str, str],
    **overrides: Value,
) -> Plan:
    """Read a plan file.

    Args:
        path: the file; relative paths in it start at its folder.
        environ: the caller's environment, for `${NAME}` and variables without value.
        overrides: plan keys from the command line (`runtime="process"`), which replace the file's;
            `None` replaces nothing.

    Raises:
        Problems: every mistake of the file, each a PlanError with its place.
    """
    whole = Path(os.path.abspath(path))  # noqa: PTH100 -- links in the path stay as the user named them
    try:
        source = read(path, str(path))
    except PlanError as error:
        raise Problems([error]) from None
    return _plan(source, str(whole), str(whole.parent), environ, overrides, whole)


def load_stream(stream: BinaryIO, folder: Path, environ: Mapping[str, str], **overrides: Value) -> Plan:
    """Read a plan from standard input; relative paths start at `folder`, which also names the run.

    Raises:
        Problems: every mistake of the text.
    """
    try:
        source = decode(stream.read(LARGEST_BYTES + 1), "standard input")
    except PlanError as error:
        raise Problems([error]) from None
    where = Path(os.path.abspath(folder))  # noqa: PTH100 -- as in load
    return _plan(source, "", str(where), environ, overrides, where / STANDARD[0])


def loads(
    text: str,
    name: str,
    folder: Path,
    environ: Mapping[str, str],
    **overrides: Value,
) -> Plan:
    """Read a plan from text; `name` stands in messages, and gives the run's name where the text has none.

    Raises:
        Problems: every mistake of the text.
    """
    try:
        source = checked(text, name)
    except PlanError as error:
        raise Problems([error]) from None
    where = Path(os.path.abspath(folder))  # noqa: PTH100 -- as in load
    return _plan(source, "", str(where), environ, overrides, where / (Path(name).name or "plan"))


def one_job(
    *,
    folder: Path,
    environ: Mapping[str, str],
    name: str | None = None,
    plan: Mapping[str, Value] | None = None,
    **keys: Value,
) -> Plan:
    """A plan of one job from keyword values, through the same models.

    Nothing in them is interpolated but `${MIGCTL_…}` at the start: the caller's shell has done the rest.

    Args:
        folder: where relative paths start.
        environ: the caller's environment.
        name: of the run and its job; by default from the command (`python train.py` is `train`).
        plan: plan keys (`{"runtime": "process", "gpu": "0"}`).
        keys: job keys.

    Raises:
        Problems: every mistake, without places.
    """
    report = Report(Source("", "command line"))
    chosen = name if name is not None else _name_of(keys.get("command"))
    root = from_value({**(plan or {}), "jobs": {chosen: keys}})
    where = str(Path(os.path.abspath(folder)))  # noqa: PTH100 -- as in load
    assert isinstance(root, MappingNode)
    return _build(root, report, "", where, environ, chosen, literal=True)


def _name_of(command: Value) -> str:
    words: list[str] = []
    if isinstance(command, (str, list, tuple)):
        words = command.split() if isinstance(command, str) else [str(word) for word in command]
    script = next(
        (word for word in words if re.search(r"\.\w+$", word) and not word.startswith("-")),
        words[0] if words else "run",
    )
    return names.sanitised(Path(script).stem, "run")


def _plan(
    source: Source,
    path: str,
    folder: str,
    environ: Mapping[str, str],
    overrides: Mapping[str, Value],
    whole: Path,
) -> Plan:
    report = Report(source)
    root = compose(report)
    if (root is None and not report.failed) or (root is not None and is_null(root)):
        hint = "a plan needs at least jobs: {NAME: {image: …, command: …}}"
        report.add(PlanError("empty-plan", "the plan file is empty", where=Where(source.name), hint=hint))
    elif root is not None and not isinstance(root, MappingNode):
        report.error(
            "not-a-plan",
            f"a plan is a mapping with jobs, here is {kind(root)}",
            root.start,
            "begin with jobs:",
        )
    if not isinstance(root, MappingNode):
        report.finish()
        raise AssertionError("a report without error")
    more = from_value({key: value for key, value in overrides.items() if value is not None})
    assert isinstance(more, MappingNode)
    root = MappingNode({**root.entries, **more.entries}, {**root.keys, **more.keys}, root.start, root.end, root.dollar)
    stem = whole.stem if whole.name not in STANDARD and whole.stem not in ("plan", "migctl") else whole.parent.name
    return _build(root, report, path, folder, environ, names.sanitised(stem, "plan"), literal=False)


def _build(
    root: MappingNode,
    report: Report,
    path: str,
    folder: str,
    environ: Mapping[str, str],
    name: str,
    *,
    literal: bool,
) -> Plan:
    environments = Environments(folder, environ, report)
    scope = Scope(environ, {} if literal else environments.dotenv(), literal=literal)
    entries = known_entries(root, report, PLAN_KEYS, in_job=False, elsewhere=JOB_KEYS)
    jobs = _jobs(root, entries.pop("jobs", None), report)
    defaults = entries.pop("defaults", None)
    if defaults is not None and not isinstance(defaults, MappingNode):
        report.error("bad-value", f"defaults must be a mapping of job keys, got {kind(defaults)}", defaults.start)
        defaults = None
    filled: dict[str, Node] = {}
    for key, value in entries.items():
        if key == "name":
            filled[key] = value
        elif (done := fill(value, scope, report, at_start=False)) is not None:
            filled[key] = done
    model, wrong = validated(PlanModel, filled, report)
    if model.name is not None:
        name = model.name
        if why := names.problem(name):
            hint = "names take no ${…}" if "${" in name else f"write {names.sanitised(name, 'plan')}"
            report.error("bad-name", f"the name {name[:80]!r} {why}", filled["name"].start, hint)
    strategy = Strategy(model.strategy) if model.strategy and "strategy" not in wrong else None
    runtime = RuntimeName(model.runtime) if model.runtime else RuntimeName.DOCKER
    elsewhere = model.engine not in (None, EngineName.LOCAL)
    setting = Setting(
        folder=folder,
        environ=environ,
        strategy=strategy,
        runtime=runtime,
        environments=environments,
        mounts=Mounts(folder, environ, elsewhere=elsewhere),
        elsewhere=elsewhere,
        report=report,
    )
    found = drafts(jobs, defaults, scope, report) if jobs is not None else []
    needs = resolved(found, jobs.entries if jobs is not None else (), report)
    made = tuple(job(draft, before, setting) for draft, before in zip(found, needs, strict=True))
    check(found, made, setting)
    notice_plan(model, filled, strategy, report)
    report.finish()
    return Plan(
        name=name,
        path=path,
        folder=folder,
        jobs=made,
        gpus=model.gpu or (),
        strategy=strategy,
        runtime=runtime,
        enable_mig=bool(model.enable_mig),
        reserve_cores=model.reserve_cores,
        cpu_share=CpuShare(model.cpu_share or CpuShare.FAIR),
        cpu_split=CpuSplit(model.cpu_split or CpuSplit.SLICES),
        numa=Numa(model.numa or Numa.PREFER),
        oversubscribe=bool(model.oversubscribe),
        allow_overlap=model.allow_overlap or (),
        threads_per_core=model.threads_per_core,
        max_parallel=model.max_parallel,
        fail_fast=bool(model.fail_fast),
        stagger_s=model.stagger or 0.0,
        on_finish=Finish(model.on_finish or Finish.KEEP),
        on_reboot=Reboot(model.on_reboot or Reboot.HOLD),
        notify=tuple(told.notify for told in model.notify or ()),
        engine=EngineName(model.engine or EngineName.LOCAL),
        slurm=model.slurm or SlurmSettings(),
        kubernetes=model.kubernetes or KubernetesSettings(),
        notices=report.notices,
        places=places(filled, _TOLD_LATER, report),
        keys=frozenset(filled),
    )


def _jobs(root: MappingNode, node: Node | None, report: Report) -> MappingNode | None:
    if node is None and "services" in root.entries:
        return None  # a Compose file: that is said already
    if node is None:
        offset = root.keys["jobs"].start if "jobs" in root.keys else root.start
        what = "jobs is empty" if "jobs" in root.keys else "the plan has no jobs"
        report.error("no-jobs", what, offset, "write jobs: {NAME: {image: …, command: …}}")
        return None
    if isinstance(node, Sequence):
        report.error(
            "bad-value",
            "jobs must be a mapping from name to keys, got a list",
            node.start,
            "write NAME: instead of - name: NAME",
        )
        return _from_list(node)
    if not isinstance(node, MappingNode):
        report.error("bad-value", f"jobs must be a mapping from name to keys, got {kind(node)}", node.start)
        return None
    named = any(not key.startswith("x-") for key in node.entries)
    if not named and not any(error.id == "bad-key" for error in report.errors):
        report.error("no-jobs", "jobs is empty", node.start, "write jobs: {NAME: {image: …, command: …}}")
    return node


def _from_list(node: Sequence) -> MappingNode:
    """Jobs written as a list, so that their other mistakes are told too."""
    entries: dict[str, Node] = {}
    keys: dict[str, Scalar] = {}
    for number, item in enumerate(node.items):
        if not isinstance(item, MappingNode):
            continue
        named = item.entries.get("name")
        key = named if isinstance(named, Scalar) else Scalar(f"job-{number + 1}", start=item.start)
        below = {name: value for name, value in item.entries.items() if name != "name"}
        entries[key.text] = MappingNode(below, item.keys, item.start, item.end, item.dollar)
        keys[key.text] = key
    return MappingNode(entries, keys, node.start, node.end, node.dollar)
