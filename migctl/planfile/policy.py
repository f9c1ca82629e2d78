"""The administrator's policy file: text to rules, with every mistake at its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from migctl.core.policy import RULES, MountRule, Policy, Rule, Rules
from migctl.errors import HostError, MigctlError, Problems
from migctl.planfile.gpu_fields import Gpus, Natural, listed
from migctl.planfile.nodes import Mapping as MappingNode
from migctl.planfile.nodes import Node, Scalar, compose
from migctl.planfile.plain_fields import Flag, SizeMib, Text, Texts, filled
from migctl.planfile.problems import Refusal, Report, did_you_mean
from migctl.planfile.scalars import is_null, kind
from migctl.planfile.source import decode
from migctl.planfile.validate import validated

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,63}\$?"
"""A user or group of the system (useradd(8)), or of a directory service."""
FOR_ALL = ("contact", "users", "groups")


def mounts(node: object) -> tuple[MountRule, ...]:
    """Absolute paths, or `~` for the user's own home; `:ro` behind one allows only read-only mounts below it."""
    return tuple(_mount(item) for item in listed(node))


def _mount(item: Node) -> MountRule:
    # `~` alone is nothing for YAML; here it can only mean the home.
    spelt = "~" if isinstance(item, Scalar) and item.text == "~" else filled(item)
    path, colon, mode = spelt.partition(":")
    if colon and mode not in ("ro", "rw"):
        raise Refusal(f"takes :ro or :rw behind a path, got {spelt!r}", offset=item.start)
    if not path.startswith("/") and path != "~" and not path.startswith("~/"):
        raise Refusal(f"must be absolute paths, or ~ for the user's home, got {spelt!r}", offset=item.start)
    return MountRule(path, mode == "ro")


Mounts = Annotated[
    tuple[MountRule, ...],
    PlainValidator(mounts),
    # An unquoted ~ is nothing for YAML, and here the home.
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": ["string", "null"], "pattern": "^(/|~(/|:|$))", "examples": ["/data:ro", "~"]},
        }
    ),
]


class PolicyModel(BaseModel):
    """What the users of a machine may do with migctl."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    contact: Text | None = Field(None, description="Whom users ask; stands in every refusal.")
    gpu: Gpus | None = Field(None, description="GPUs that may be used: as a plan's gpu.")
    reserve_cores: Natural | None = Field(None, description="Physical cores that no job gets; the lowest ones.")
    reserve_memory: SizeMib | None = Field(
        None, description="RAM that stays free; every container then needs a mem_limit."
    )
    max_slices: Natural | None = Field(None, description="Compute slices that a user holds at once, in all runs.")
    max_cores: Natural | None = Field(None, description="Physical cores that a user holds at once, in all runs.")
    enable_mig: Flag | None = Field(None, description="Whether the MIG mode may be changed.")
    mounts: Mounts | None = Field(
        None, description="Folders below which jobs may mount; :ro for read-only, ~ for home."
    )
    images: Texts | None = Field(None, description="Images that may run: patterns with *; without a tag, any tag.")


def parse(data: bytes, file: str, owner: str) -> Policy:
    """The rules of a policy file.

    Args:
        data: the file's bytes.
        file: its name in messages.
        owner: the user to whom it belongs.

    Raises:
        Problems: every mistake of the file, each a HostError with its place: nothing may be started until it is mended.
    """
    try:
        source = decode(data, file, kind="policy file")
        report = Report(source)
        root = compose(report)
        policy = Policy(file=file, owner=owner)
        if isinstance(root, MappingNode):
            policy = _policy(root, report, file, owner)
        elif root is not None and not is_null(root):
            report.error("bad-value", f"a policy is a mapping of rules, here is {kind(root)}", root.start)
        report.finish()
    except MigctlError as error:
        raise Problems([_host(one, owner) for one in error.all]) from None
    return policy


def _host(error: MigctlError, owner: str) -> HostError:
    """The mistake is not in the caller's plan, and it is not his to mend."""
    return HostError(
        "policy-invalid",
        f"the policy of this machine cannot be read: {error.message}",
        where=error.where,
        hint=f"{error.hint}; the file is {owner}'s" if error.hint else f"the file is {owner}'s to mend",
    )


def _policy(root: MappingNode, report: Report, file: str, owner: str) -> Policy:
    entries = _known(root, report, (*RULES, *FOR_ALL), "a policy")
    contact = entries.get("contact")
    users, groups = (_overrides(entries.pop(key, None), report, key) for key in ("users", "groups"))
    everybody = _rules(root, entries, report, "")
    text = validated(PolicyModel, {"contact": contact}, report)[0].contact if contact else None
    return Policy(file=file, owner=owner, contact=text, everybody=everybody, users=users, groups=groups)


def _overrides(node: Node | None, report: Report, key: str) -> Mapping[str, Rules]:
    if node is None:
        return {}
    if not isinstance(node, MappingNode):
        report.error("bad-value", f"{key} must be a mapping from a name to rules, got {kind(node)}", node.start)
        return {}
    found: dict[str, Rules] = {}
    for name, below in node.entries.items():
        if not re.fullmatch(NAME, name):
            report.error("bad-name", f"{name[:60]!r} cannot be the name of a {key[:-1]}", node.keys[name].start)
        elif isinstance(below, MappingNode):
            entries = _known(below, report, RULES, f"{key}.{name}")
            found[name] = _rules(below, entries, report, f"{key}.{name}.")
        elif not is_null(below):
            report.error("bad-value", f"{key}.{name} must be a mapping of rules, got {kind(below)}", below.start)
    return found


def _known(node: MappingNode, report: Report, known: tuple[str, ...], place: str) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for key, value in node.entries.items():
        if key in known:
            if not is_null(value):
                found[key] = value
        elif not key.startswith("x-"):
            shown = key if key.isprintable() and 0 < len(key) <= 60 else repr(key[:60])
            hint = did_you_mean(key, known) or f"there are {', '.join(known)}"
            report.error("unknown-key", f"{shown} is no rule of {place}", node.keys[key].start, hint)
    return found


def _rules(node: MappingNode, entries: Mapping[str, Node], report: Report, prefix: str) -> Rules:
    wanted = {key: value for key, value in entries.items() if key in RULES}
    model, wrong = validated(PolicyModel, wanted, report)
    found = Rules()
    for key in wanted:
        if key not in wrong:
            rule = Rule(prefix + key, getattr(model, key), report.source.where(node.keys[key].start))
            found = replace(found, **{key: rule})
    return found
