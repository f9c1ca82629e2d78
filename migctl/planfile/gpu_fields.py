"""Field types of the GPU and CPU side: profile, instance, GPU selector, cpuset."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.plan import GpuSelector
from migctl.planfile.nodes import Mapping, Node, Scalar, Sequence
from migctl.planfile.problems import Refusal, did_you_mean
from migctl.planfile.scalars import kind, old_reading, shown, text, verbatim, whole

_PROFILE = re.compile(r"(?:mig\s+)?(?:(\d{1,2})c\.)?(\d{1,2})g\.(\d{1,4})gb((?:[+.-][a-z0-9][a-z0-9.]*)*)")
_LOOSE = re.compile(r"(?:mig)?[\s_-]*(\d{1,2})\s*g?[\s._-]*(\d{1,4})\s*g?i?b?", re.IGNORECASE)

_MIG_UUID = re.compile(r"MIG-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_OLD_MIG_UUID = re.compile(r"MIG-GPU-[0-9a-fA-F-]+/\d+/\d+")
_GPU_UUID = re.compile(r"GPU-[0-9A-Za-z][0-9A-Za-z-]{0,79}")
_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")

INTERPOLATED = {"type": "string", "pattern": r"\$\{"}
"""JSON Schema of a value that is known after interpolation."""


def profile(node: object) -> str:
    """A profile's name as the driver spells it: `3g.40gb`, `1g.5gb+me`.

    Kubernetes' `1g.5gb.me` and NVML's `MIG 1g.5gb` are understood.
    """
    if not isinstance(node, Scalar) or (node.plain and kind(node) != "text"):
        what = shown(node)
        raise Refusal(
            f"must be like 1g.10gb, got {what}",
            "profile ids differ between GPUs: `migctl profiles` lists the names",
            id="bad-profile",
        )
    spelt = " ".join(node.text.lower().split())
    if "," in spelt:
        raise Refusal(
            f"must be one profile like 1g.10gb, got {node.text!r}: one job gets one GPU instance",
            "a job for each, or replicas: 3 for three of a kind",
            id="bad-profile",
        )
    match = _PROFILE.fullmatch(spelt)
    if match is None:
        raise Refusal(f"must be like 1g.10gb, got {node.text!r}", _meant(spelt), id="bad-profile")
    of_compute, compute, memory, attribute = match.groups()
    if of_compute is not None and of_compute != compute:
        raise Refusal(
            f"{node.text} asks for a part of a GPU instance; a job gets a whole one, "
            "since compute instances of one share their memory",
            f"write {compute}g.{memory}gb{attribute}, or a smaller profile",
            id="bad-profile",
            whole=True,
        )
    if int(compute) == 0 or int(memory) == 0:
        raise Refusal(f"must be like 1g.10gb, got {node.text!r}", id="bad-profile")
    return f"{int(compute)}g.{int(memory)}gb{_attribute(attribute)}"


def _attribute(spelt: str) -> str:
    """Kubernetes' labels have no plus sign: `.me` is `+me`."""
    return "+" + spelt[1:] if spelt.startswith(".") else spelt


def is_label_form(spelt: str) -> bool:
    """Whether a valid profile is written as Kubernetes and mig-parted label it (`1g.5gb.me`)."""
    match = _PROFILE.fullmatch(" ".join(spelt.lower().split()))
    return match is not None and match[4].startswith(".")


def _meant(spelt: str) -> str:
    if spelt.isdecimal():
        return "profile ids differ between GPUs: `migctl profiles` lists the names"
    if of_slices := re.fullmatch(r"(\d)g", spelt):
        return f"slices: {of_slices[1]} asks for a number of compute slices; `migctl profiles` lists the names"
    match = _LOOSE.fullmatch(spelt.removeprefix("all-"))
    if match and int(match[1]) and int(match[2]):
        return f"did you mean {int(match[1])}g.{int(match[2])}gb?"
    return "`migctl profiles` lists the names"


def instance(node: object) -> str:
    """The UUID of a MIG device that an administrator made."""
    if isinstance(node, Sequence):
        raise Refusal(
            "one job gets one GPU instance: CUDA uses a single MIG device in a process, whatever it sees",
            "write one UUID, and a job for each further instance",
            id="two-instances",
            whole=True,
        )
    spelt = text(node)
    if "," in spelt:
        return instance(Sequence(()))
    # The form before driver 470 is the right one with such a driver; with others the machine tells which is meant.
    if not _MIG_UUID.fullmatch(spelt) and not _OLD_MIG_UUID.fullmatch(spelt):
        raise Refusal(
            f"must be a MIG UUID like MIG-8-4-4-4-12 hex digits, got {spelt!r}",
            "`nvidia-smi -L` and `migctl status` print them",
        )
    return spelt


def gpus(node: object) -> tuple[GpuSelector, ...]:
    """Index, UUID, PCI id, `{model: A100}`, `all`, or a list of these."""
    if isinstance(node, Sequence):
        if not node.items:
            raise Refusal("is an empty list", "name a GPU, or leave the key away")
        return tuple(dict.fromkeys(_gpu(item) for item in node.items))
    return (_gpu(node),)


def _gpu(node: object) -> GpuSelector:
    if isinstance(node, Mapping):
        return _model(node)
    if not isinstance(node, Scalar):
        raise Refusal(f"must be an index, a UUID, a PCI id, {{model: …}}, all, or a list of these, got {kind(node)}")
    spelt = node.text.strip()
    offset = node.start
    if re.fullmatch(r"\d{1,4}", spelt):
        if node.plain and (other := old_reading(spelt)):
            raise Refusal(
                f"must be an index, and {spelt} is {other} for many YAML readers",
                f"write {int(spelt)}",
                id="yaml-number",
                offset=offset,
            )
        return GpuSelector(index=int(spelt))
    if spelt == "all":
        return GpuSelector(all=True)
    if _GPU_UUID.fullmatch(spelt):
        return GpuSelector(uuid=spelt)
    if match := _PCI.fullmatch(spelt):
        domain = int(match[1] or "0", 16)
        return GpuSelector(pci=f"{domain:04x}:{match[2]}:{match[3]}.{match[4]}".lower())
    raise Refusal(
        f"must be an index, a UUID, a PCI id, {{model: …}}, all, or a list of these, got {shown(node)}",
        _gpu_hint(spelt),
        offset=offset,
    )


def _gpu_hint(spelt: str) -> str | None:
    if spelt.startswith("MIG-"):
        return "a MIG device is not a GPU: name its GPU here"
    if re.fullmatch(r"\d+(\s*,\s*\d+)+", spelt):
        return f"write [{spelt}]"
    if of_index := re.fullmatch(r"(\d+):\d+", spelt):
        return f"write {of_index[1]}; the number behind it is of a MIG device, and shifts as others come and go (instance: MIG-…)"
    if spelt == "any":
        return "leave the key away, or write all"
    if re.fullmatch(r"[A-Za-z][\w .-]*", spelt):
        return f"write {{model: {spelt}}}"
    return None


def _model(node: Mapping) -> GpuSelector:
    for key, mark in node.keys.items():
        if key != "model":
            raise Refusal(
                f"takes only model, got {key!r}",
                did_you_mean(key, ["model"]),
                id="unknown-key",
                offset=mark.start,
            )
    if "model" not in node.entries:
        raise Refusal("is an empty mapping", "write {model: A100}")
    name = verbatim(node.entries["model"]).strip()
    if not name:
        raise Refusal("needs a part of the product name", "write {model: A100}")
    return GpuSelector(model=name)


def cpuset(node: object) -> CpuSet:
    """Logical CPUs: `4`, `0-3,8`, or a list of such."""
    parts = node.items if isinstance(node, Sequence) else (node,)
    cpus = CpuSet()
    for part in parts:
        if not isinstance(part, Scalar):
            raise Refusal(f"must be CPUs like 0-3,8, got {kind(part)}")
        spelt = part.text.strip()
        if part.plain and re.fullmatch(r"[-+]?0\d+", spelt):
            raise Refusal(
                f"must be CPUs like 0-3,8, and {spelt} is an octal number for many YAML readers",
                f"write {int(spelt)}",
                id="yaml-number",
                offset=part.start,
            )
        try:
            cpus |= CpuSet.parse(spelt)
        except ValueError as error:
            raise Refusal(f"must be CPUs like 0-3,8: {error}", offset=part.start) from None
    if not cpus:
        raise Refusal("names no CPU", "write CPUs like 0-3,8, or leave the key away")
    return cpus


def positive(node: object) -> int:
    """A whole number from 1 on."""
    value = whole(node)
    if value < 1:
        raise Refusal(f"must be at least 1, got {value}")
    return value


def natural(node: object) -> int:
    """A whole number from 0 on."""
    value = whole(node)
    if value < 0:
        raise Refusal(f"must be at least 0, got {value}")
    return value


def cores(node: object) -> int:
    """A number of physical cores."""
    if (
        isinstance(node, Scalar)
        and (node.plain or node.free)
        and re.fullmatch(r"\d{0,6}\.\d{1,6}", node.text)
        and float(node.text) % 1
    ):
        raise Refusal(
            f"must be whole physical cores, got {shown(node)}",
            f"write {max(1, round(float(node.text)))}: a cpuset has no fractions",
        )
    return positive(node)


def workers(node: object) -> int | None:
    """`auto`, or a number from 0 on."""
    if isinstance(node, Scalar) and node.text == "auto":
        return None
    if isinstance(node, Scalar) and kind(node) == "text" and not node.free and not node.text.isdigit():
        raise Refusal(f"must be auto or a whole number, got {node.text!r}", did_you_mean(node.text, ["auto"]))
    return natural(node)


def listed(node: object) -> tuple[Node, ...]:
    """The items of a list."""
    if isinstance(node, Sequence):
        return node.items
    raise Refusal(f"must be a list, got {kind(node)}", "write [a, b]")


_INT = {"type": "integer"}
_GPU = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string"},
        {
            "type": "object",
            "properties": {"model": {"type": ["string", "number"]}},
            "required": ["model"],
            "additionalProperties": False,
        },
    ]
}
_CPUS = {"type": ["integer", "string"]}

Profile = Annotated[
    str,
    PlainValidator(profile),
    WithJsonSchema({"type": "string", "examples": ["1g.10gb", "3g.40gb", "1g.5gb+me"]}),
]
Instance = Annotated[str, PlainValidator(instance), WithJsonSchema({"type": "string", "examples": ["MIG-8ff2e3a4-…"]})]
Gpus = Annotated[
    tuple[GpuSelector, ...],
    PlainValidator(gpus),
    WithJsonSchema({"anyOf": [*_GPU["anyOf"], {"type": "array", "items": _GPU, "minItems": 1}]}),
]
Cpus = Annotated[
    CpuSet,
    PlainValidator(cpuset),
    WithJsonSchema({"anyOf": [_CPUS, {"type": "array", "items": _CPUS, "minItems": 1}]}),
]
Cores = Annotated[int, PlainValidator(cores), WithJsonSchema({"anyOf": [{**_INT, "minimum": 1}, INTERPOLATED]})]
Positive = Annotated[int, PlainValidator(positive), WithJsonSchema({"anyOf": [{**_INT, "minimum": 1}, INTERPOLATED]})]
Natural = Annotated[int, PlainValidator(natural), WithJsonSchema({"anyOf": [{**_INT, "minimum": 0}, INTERPOLATED]})]
Workers = Annotated[
    int | None,
    PlainValidator(workers),
    WithJsonSchema({"anyOf": [{**_INT, "minimum": 0}, {"const": "auto"}, INTERPOLATED]}),
]
Listed = BeforeValidator(listed)
