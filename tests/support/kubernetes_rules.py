"""What an API server (seen: 1.36.2) refuses of Jobs beyond their schema, as checks of our own, and how it reads `$(NAME)`.

kubernetes-validate knows the schemas; every rule here is a refusal that passes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DNS_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_QUALIFIED = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_LONGEST_WORD = 1 << 17
"""Of one argument, MAX_ARG_STRLEN: no refusal of the server, but no container starts with a longer one."""
_MOST_NOTES = 1 << 18
"""Characters of an object's annotations together."""


def refusals(one: Mapping[str, Any]) -> list[str]:
    """Everything that the server would say of this object."""
    return list(_refusals(one))


def _refusals(one: Mapping[str, Any]) -> Iterator[str]:
    metadata = one["metadata"]
    if not _DNS_NAME.fullmatch(metadata["name"]):
        yield f"name {metadata['name']!r}"
    yield from _labels(metadata)
    if one["kind"] == "ResourceClaimTemplate":
        return
    spec = one["spec"]
    pod = spec["template"]["spec"]
    if spec.get("completionMode") == "Indexed" and len(f"{metadata['name']}-{spec['completions']}") > 63:
        yield "the pods' host names are too long"
    if "backoffLimitPerIndex" in spec and spec.get("completionMode") != "Indexed":
        yield "backoffLimitPerIndex without Indexed"
    yield from _labels(spec["template"].get("metadata", {}))
    if pod.get("restartPolicy") not in ("OnFailure", "Never"):
        yield 'restartPolicy: valid values: "OnFailure", "Never"'
    volumes = [volume["name"] for volume in pod.get("volumes", [])]
    if len(volumes) != len(set(volumes)) or not all(map(_DNS_LABEL.fullmatch, volumes)):
        yield "names of volumes"
    claims = {claim["name"] for claim in pod.get("resourceClaims", [])}
    for container in pod["containers"]:
        yield from _container(container, set(volumes), claims)


def _labels(metadata: Mapping[str, Any]) -> Iterator[str]:
    for key, value in metadata.get("labels", {}).items():
        if not _QUALIFIED.fullmatch(key) or not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            yield f"label {key}: {value!r}"
    if sum(len(key) + len(str(value)) for key, value in metadata.get("annotations", {}).items()) > _MOST_NOTES:
        yield "annotations: Too long"
    for key, value in metadata.get("annotations", {}).items():
        if not _QUALIFIED.fullmatch(key) or not isinstance(value, str):
            yield f"annotation {key}: {value!r}"


def _container(container: Mapping[str, Any], volumes: set[str], claims: set[str]) -> Iterator[str]:
    resources = container.get("resources", {})
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, amount in {**requests, **limits}.items():
        if name in _STANDARD:
            continue
        if "/" not in name:
            yield f"{name}: must be a standard resource type or fully qualified"
        elif not _QUALIFIED.fullmatch(name):
            yield f"{name}: doesn't follow extended resource name standard"
        if not isinstance(amount, int):
            yield f"{name}: {amount}: must be an integer"
        if name not in limits:
            yield f"{name}: Limit must be set for non overcommitable resources"
        elif requests.get(name, amount) != limits[name]:
            yield f"{name}: must be equal to the limit"
    if _cpus(requests.get("cpu", "0")) > _cpus(limits.get("cpu", requests.get("cpu", "0"))):
        yield "cpu request above the limit"
    mounts = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
    if len(mounts) != len(set(mounts)):
        yield "two mounts at one path"
    if {mount["name"] for mount in container.get("volumeMounts", [])} - volumes:
        yield "a mount without its volume"
    if {claim["name"] for claim in resources.get("claims", [])} - claims:
        yield "a claim that the pod has not"
    if any(len(word.encode()) >= _LONGEST_WORD for word in (*container.get("command", ()), *container.get("args", ()))):
        yield "argument list too long (execve)"
    names = [entry["name"] for entry in container.get("env", [])]
    if not all(map(_ENV_NAME.fullmatch, names)):
        yield f"env {names}"
    if any("value" in entry and not isinstance(entry["value"], str) for entry in container.get("env", [])):
        yield "env: values are strings"


def _cpus(amount: str | int) -> float:
    text = str(amount)
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def guaranteed(one: Mapping[str, Any]) -> bool:
    """Whether the kubelet's static CPU manager would pin the pod's containers to CPUs of their own (policy_static.go)."""
    return all(
        (limits := container["resources"]["limits"]) == container["resources"]["requests"]
        and str(limits["cpu"]).isdigit()
        and int(limits["cpu"]) > 0
        and "memory" in limits
        for container in one["spec"]["template"]["spec"]["containers"]
    )


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` as the kubelet replaces it in command and args; `$$` is a dollar, unknown names stay as they are."""
    done, here = "", 0
    while here < len(text):
        if text[here] != "$" or here + 1 == len(text):
            done += text[here]
            here += 1
        elif text[here + 1] == "$":
            done += "$"
            here += 2
        elif text[here + 1] == "(" and (end := text.find(")", here)) > 0:
            name = text[here + 2 : end]
            done += variables.get(name, text[here : end + 1])
            here = end + 1
        else:
            done += text[here : here + 2]
            here += 2
    return done
