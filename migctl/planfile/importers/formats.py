"""What another tool's file is, and the plan of it or the reason why there is none."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NoReturn

from migctl.errors import PlanError
from migctl.planfile.importers import (
    compose,
    docker_sdk,
    env_file,
    kubernetes,
    listings,
    mig_parted,
    sbatch,
    shell_script,
)
from migctl.planfile.importers.sketch import Sketch, entries, plain
from migctl.planfile.nodes import Mapping as MappingNode
from migctl.planfile.nodes import Node
from migctl.planfile.nodes import compose as read_yaml
from migctl.planfile.problems import Report
from migctl.planfile.source import Source

_PYTHON = re.compile(r"^\s*(?:import|from) \w|^\s*def \w+\(", re.MULTILINE)
_ENV_LINE = re.compile(r"(?:export )?[A-Za-z_][A-Za-z0-9_.]*=")
_INSTANCES = re.compile(r"^\|\s+\d+\s+MIG \S+\s+\d+\s+\d+\s+\d+:\d+\s+\|", re.MULTILINE)
_MARKDOWN = re.compile(r"^(?:#{1,6} \w|```|\|[^|\n]+\|[^|\n]+\||<!--)", re.MULTILINE)


class Format(StrEnum):
    """What can be imported by name."""

    MIG_PARTED = "mig-parted"
    COMPOSE = "compose"
    SBATCH = "sbatch"
    SHELL = "shell"
    ENV = "env"
    KUBERNETES = "kubernetes"
    NVIDIA_SMI = "nvidia-smi"
    CDI = "cdi"
    DOCKER_SDK = "docker-sdk"


def imported(source: Source, format: Format | None, *, config: str | None = None, gpus: int = 1) -> Sketch:  # noqa: A002 -- the option's word
    """The plan of a file.

    Args:
        source: the file.
        format: what it is; `None`: found out.
        config: mig-parted: which configuration.
        gpus: mig-parted: how many GPUs `devices: all` means.

    Raises:
        PlanError: it is nothing that a plan can be made of; the message says what it is.
        Problems: it is YAML with mistakes.
    """
    found = format or _text_format(source)
    match found:
        case Format.SBATCH:
            return sbatch.plan_of(source)
        case Format.SHELL:
            return shell_script.plan_of(source)
        case Format.ENV:
            return env_file.plan_of(source, Report(source))
        case Format.NVIDIA_SMI:
            return listings.plan_of_listing(source)
        case Format.DOCKER_SDK:
            return docker_sdk.plan_of(source) or _refuse_python(source)
    documents = _documents(source)
    report = documents[0][1]
    root = documents[0][0]
    match found or _yaml_format(source, [node for node, _ in documents]):
        case Format.MIG_PARTED:
            inner = _inner(root)
            if inner is not None:
                nested = Source(inner, f"{source.name} (the text inside it)")
                return imported(nested, Format.MIG_PARTED, config=config, gpus=gpus)
            return mig_parted.plan_of(root, report, config, gpus)
        case Format.COMPOSE:
            return compose.plan_of(root, report)
        case Format.CDI:
            return listings.plan_of_cdi(root, report)
        case _:
            return kubernetes.plan_of([node for node, _ in documents], report)


def _text_format(source: Source) -> Format | None:
    """What the text is if it is no YAML; `None`: it can be YAML."""
    text, name = source.text, source.name
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if re.search(r"^#SBATCH\b", text, re.MULTILINE):
        return Format.SBATCH
    if listings.GPU_LINE.search(text):
        return Format.NVIDIA_SMI
    if _PYTHON.search(text) and docker_sdk.plan_of(source) is not None:
        return Format.DOCKER_SDK
    _refuse(source)
    shell = text.startswith("#!") and re.match(r"#!.*\b(?:ba|da|z|k)?sh\b", text)
    words = re.search(r"^\s*(?:sudo )?(?:docker run|podman run|ts -|tsp |nvidia-smi )", text, re.MULTILINE)
    if shell or name.endswith((".sh", ".bash")) or words:
        return Format.SHELL
    if lines and all(_ENV_LINE.match(line) for line in lines):
        return Format.ENV
    return None


def _refuse(source: Source) -> None:
    """Texts that say something about GPUs and are no list of trainings.

    Raises:
        PlanError: what it is, and what to do.
    """
    text, name = source.text, source.name
    if re.search(r"^\[Service\]", text, re.MULTILINE):
        raise PlanError(
            "systemd-unit",
            f"{name} is a systemd unit: it partitions GPUs at boot and starts no training",
            where=name,
            hint="write a job with its profile for each training; `migctl up` makes the instances, and on_reboot: resume makes "
            "them again. Two controllers of one GPU undo each other: systemctl disable --now that unit first",
        )
    if _INSTANCES.search(text):
        raise PlanError(
            "instance-list",
            f"{name} is the table of `nvidia-smi mig -lgi`, which tells no UUIDs",
            where=name,
            hint="nvidia-smi -L > devices.txt; migctl import devices.txt makes a plan for these devices; `migctl status` draws "
            "what is on the GPU and what still fits",
        )
    if _PYTHON.search(text):
        _refuse_python(source)
    if name.endswith((".md", ".markdown")) or (text.lstrip().startswith("<!--") and _MARKDOWN.search(text)):
        raise PlanError(
            "prose",
            f"{name} is a text for people",
            where=name,
            hint="write a job with its profile for each training in it; stage: 1, 2 … runs groups one after another, and "
            "`migctl profiles --on BOARD` has the profiles' names and ids",
        )


def _refuse_python(source: Source) -> NoReturn:
    raise PlanError(
        "python-program",
        f"{source.name} is a Python program: what it starts is known only when it runs",
        where=source.name,
        hint="write a job with the image, command and profile that it uses; `migctl status --json` tells programs what runs",
    )


def _documents(source: Source) -> list[tuple[Node, Report]]:
    """The documents of a YAML file; several are usual in Kubernetes alone."""
    found: list[tuple[Node, Report]] = []
    here = 0
    for part in re.split(r"^---[ \t]*(?:#.*)?$", source.text, flags=re.MULTILINE):
        if part.strip():
            # Blank lines before it keep the places right.
            text = "\n" * source.text.count("\n", 0, source.text.find(part, here)) + part
            report = Report(Source(text, source.name))
            node = read_yaml(report)
            report.finish()
            if node is not None:
                found.append((node, report))
        here += len(part)
    if not found:
        raise PlanError("nothing-to-import", f"{source.name} is empty", where=source.name)
    return found


def _yaml_format(source: Source, documents: list[Node]) -> Format:
    root = entries(documents[0])
    if "mig-configs" in root or _inner(documents[0]) is not None:
        return Format.MIG_PARTED
    if "services" in root:
        return Format.COMPOSE
    if "cdiVersion" in root:
        return Format.CDI
    if any("kind" in entries(document) and "apiVersion" in entries(document) for document in documents):
        return Format.KUBERNETES
    if "jobs" in root:
        raise PlanError(
            "is-a-plan",
            f"{source.name} is a plan already, or meant to be one: it has jobs",
            where=source.name,
            hint=f"migctl plan {source.name} tells its mistakes",
        )
    raise PlanError(
        "unknown-format",
        f"{source.name} is nothing that migctl can read",
        where=source.name,
        hint=f"name what it is: migctl import {Format.COMPOSE} FILE (or {', '.join(f for f in Format if f != Format.COMPOSE)})",
    )


def _inner(node: Node) -> str | None:
    """A mig-parted configuration as text inside of another file: Helm values and ConfigMaps hold it so."""
    if isinstance(node, MappingNode):
        for value in node.entries.values():
            if (found := _inner(value)) is not None:
                return found
    text = plain(node)
    return text if isinstance(text, str) and re.search(r"^mig-configs:", text, re.MULTILINE) else None
