"""Calls of the Docker SDK in a Python program, as far as they are written out, as plans; the program is never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from migctl.core.yaml_text import Value
from migctl.planfile.importers.gpu_words import gpu_variable, set_devices
from migctl.planfile.importers.sketch import JobSketch, Sketch, literal, shown
from migctl.planfile.source import Source

_TEXTS = {
    "shm_size": "shm_size", "cpuset_cpus": "cpuset", "network_mode": "network_mode", "network": "network_mode", "user": "user",
    "working_dir": "working_dir", "ipc_mode": "ipc", "mem_limit": "mem_limit",
}  # fmt: skip
_LISTS = {"security_opt": "security_opt", "cap_add": "cap_add", "group_add": "group_add"}
_HARMLESS = frozenset({"detach", "remove", "auto_remove", "init", "tty", "stdin_open", "stdout", "stderr", "stream"})


def plan_of(source: Source) -> Sketch | None:
    """A job for each `containers.run(…)`; `None`: there is none, or the text is no Python."""
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    sketch = Sketch(f"calls of the Docker SDK in {source.name}")
    for call in _runs(tree):
        _job(sketch, call)
    if not sketch.jobs:
        return None
    sketch.note(
        "only what is written out in the calls was read; the program's own order, waits and clean-up are left out"
    )
    return sketch


def _runs(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("run", "create"):
            owner = node.func.value
            if isinstance(owner, ast.Attribute) and owner.attr == "containers":
                yield node


def _job(sketch: Sketch, call: ast.Call) -> None:
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    for name, node in zip(("image", "command"), call.args, strict=False):
        given.setdefault(name, node)
    name = _value(given.get("name"))
    job = sketch.job(name if isinstance(name, str) and name else "job")
    for key, node in given.items():
        if key == "name":
            continue
        if key == "device_requests":
            _devices(job, node)
            continue
        value = _value(node)
        if value is None:
            job.leave(f"{key}={shown(ast.unparse(node))}", "known only when the program runs")
        else:
            _key(job, key, value)
    job.keys.setdefault("user", "image")


def _key(job: JobSketch, key: str, value: Any) -> None:  # noqa: ANN401 -- a literal of the program
    if key == "image":
        job.keys["image"] = literal(str(value))
    elif key in ("command", "entrypoint"):
        job.keys[key] = (
            [literal(str(word)) for word in value] if isinstance(value, list | tuple) else literal(str(value))
        )
    elif key in _TEXTS:
        job.keys[_TEXTS[key]] = literal(str(value))
    elif key in _LISTS and isinstance(value, list | tuple):
        job.keys[_LISTS[key]] = [literal(str(item)) for item in value]
    elif key == "environment" and isinstance(value, dict | list | tuple):
        pairs = value if isinstance(value, dict) else dict(str(item).partition("=")[::2] for item in value)
        kept: dict[str, Value] = {}
        for name, text in pairs.items():
            if not gpu_variable(job, str(name), str(text)):
                kept[str(name)] = literal(str(text))
        if kept:
            job.keys["environment"] = kept
    elif key == "volumes" and isinstance(value, dict):
        mounts: list[Value] = []
        for source, mount in value.items():
            if isinstance(mount, Mapping) and "bind" in mount:
                mounts.append(f"{source}:{mount['bind']}" + (":ro" if mount.get("mode") == "ro" else ""))
            else:
                job.leave(f"volumes: {shown(source)}")
        job.keys["volumes"] = mounts
    elif key == "runtime" and value == "nvidia":
        return
    elif key in _HARMLESS:
        job.note(f"{key}={value}: jobs of a plan run in the background with an init process, until migctl down")
    else:
        job.leave(f"{key}={shown(value)}", "no key of a plan")


def _devices(job: JobSketch, node: ast.expr) -> None:
    """`[DeviceRequest(device_ids=["MIG-…"], capabilities=[["gpu"]])]`."""
    for call in (item for item in ast.walk(node) if isinstance(item, ast.Call)):
        for keyword in call.keywords:
            value = _value(keyword.value)
            if keyword.arg == "device_ids" and isinstance(value, list):
                set_devices(job, [str(item) for item in value], "device_ids")
            elif keyword.arg not in ("capabilities", "driver") and value not in (1, -1):
                job.leave(f"{keyword.arg}={shown(ast.unparse(keyword.value))} of a device request")


def _value(node: ast.expr | None) -> Any:  # noqa: ANN401 -- as above
    """A literal; `None` for everything else."""
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
