"""Field types of the settings for clusters: the mappings `slurm:` and `kubernetes:`."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Table
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import PlainValidator, WithJsonSchema

from migctl.core.cluster.clusters import KubernetesSettings, MigStrategy, SlurmContainer, SlurmSettings
from migctl.planfile.gpu_fields import listed, profile
from migctl.planfile.mount_fields import only
from migctl.planfile.nodes import Mapping, Node, Scalar
from migctl.planfile.plain_fields import choice, filled
from migctl.planfile.problems import Refusal
from migctl.planfile.scalars import flag, is_null, kind, verbatim

Word = TypeVar("Word", bound=StrEnum)

# Values of an #SBATCH line; a line break would begin another one.
_ONE_LINE = re.compile(r"[^\x00-\x1f\x7f]+")
_GRES = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_OPTION = re.compile(r"--?[A-Za-z][^\x00-\x1f\x7f]*")
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
_DNS = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


def slurm(node: object) -> SlurmSettings:
    """`{partition: gpu, gres: {1g.5gb: a100_1g.5gb}, container: apptainer}`."""
    read: dict[str, Callable[[Node], Any]] = {
        **dict.fromkeys(("partition", "account", "qos", "constraint", "reservation"), _line),
        "gres": _gres,
        "container": _word(SlurmContainer),
        "options": _options,
    }
    return SlurmSettings(**_settings(node, read, "{partition: gpu}"))


def kubernetes(node: object) -> KubernetesSettings:
    """`{namespace: lab, mig_strategy: mixed, queue: gpus}`."""
    read: dict[str, Callable[[Node], Any]] = {
        **dict.fromkeys(("namespace", "queue", "priority_class", "service_account", "runtime_class"), _dns),
        "context": filled,
        "mig_strategy": _word(MigStrategy),
        "image_pull_secrets": lambda value: tuple(_dns(item) for item in listed(value)),
        "node_selector": _selector,
        "dra": flag,
    }
    return KubernetesSettings(**_settings(node, read, "{namespace: NAME}"))


def _settings(node: object, read: Table[str, Callable[[Node], Any]], example: str) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        raise Refusal(f"must be a mapping of settings, got {kind(node)}", f"write {example}")
    only(node, tuple(read))
    found: dict[str, Any] = {}
    for key, value in node.entries.items():
        if is_null(value):
            continue
        try:
            found[key] = read[key](value)
        except Refusal as refused:
            offset = value.start if refused.offset is None else refused.offset
            message = refused.message if refused.whole else f"has {key}, which {refused.message}"
            raise Refusal(message, refused.hint, id=refused.id, offset=offset, whole=refused.whole) from None
    return found


def _line(node: Node) -> str:
    text = verbatim(node).strip()
    if not _ONE_LINE.fullmatch(text):
        raise Refusal("must be text in one line")
    return text


def _word(words: type[Word]) -> Callable[[Node], Word]:
    chosen = choice(*words)
    return lambda node: words(chosen(node))


def _gres(node: Node) -> tuple[tuple[str, str], ...]:
    if not isinstance(node, Mapping):
        raise Refusal(f"must be a mapping from profile to the site's type, got {kind(node)}", "{1g.5gb: a100_1g.5gb}")
    found: list[tuple[str, str]] = []
    for key, value in node.entries.items():
        spelt = _line(value).removeprefix("gpu:")
        if not _GRES.fullmatch(spelt):
            raise Refusal(
                f"must be the type of a GRES, got {spelt!r}", "sinfo -N -h -o '%N %G' lists them", offset=value.start
            )
        found.append((profile(Scalar(key)), spelt))
    return tuple(found)


def _options(node: Node) -> tuple[str, ...]:
    found = tuple(_line(item) for item in listed(node))
    if wrong := next((option for option in found if not _OPTION.fullmatch(option)), None):
        raise Refusal(f"must be options of sbatch, got {wrong!r}", "write [--mail-type=END]")
    return found


def _dns(node: Node) -> str:
    text = verbatim(node).strip()
    if not _DNS.fullmatch(text):
        raise Refusal(f"must be a name of small letters, digits, '-' and '.', got {text!r}")
    return text


def _selector(node: Node) -> tuple[tuple[str, str], ...]:
    if not isinstance(node, Mapping):
        raise Refusal(f"must be a mapping of the nodes' labels, got {kind(node)}", "{nvidia.com/gpu.product: NAME}")
    return tuple((key, verbatim(value)) for key, value in node.entries.items())


_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}
_MAP = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def _object(properties: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"type": "object", "properties": properties, "additionalProperties": False})


Slurm = Annotated[
    SlurmSettings,
    PlainValidator(slurm),
    _object(
        {
            **dict.fromkeys(("partition", "account", "qos", "constraint", "reservation"), _STRING),
            "gres": _MAP,
            "container": {"type": "string", "enum": list(SlurmContainer)},
            "options": _STRINGS,
        }
    ),
]
Kubernetes = Annotated[
    KubernetesSettings,
    PlainValidator(kubernetes),
    _object(
        {
            **dict.fromkeys(
                ("namespace", "context", "queue", "priority_class", "service_account", "runtime_class"), _STRING
            ),
            "mig_strategy": {"type": "string", "enum": list(MigStrategy)},
            "image_pull_secrets": _STRINGS,
            "node_selector": _MAP,
            "dra": {"type": "boolean"},
        }
    ),
]
