"""The tables of docs/plan.md: every key of a plan from the JSON Schema, and what each target makes of it from its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from migctl import planfile
from migctl.core.keytable import JOB_KEYS, PLAN_KEYS, Partly, Row, Support, Target, Told

GROUPS: Mapping[str, tuple[str, ...]] = {
    "The part of the GPU": ("profile", "memory", "slices", "instance", "gpu", "mps", "per_instance"),
    "Cores, workers and batch": (
        "cpus", "cpuset", "num_workers", "storage", "batch_size", "batch_size_memory", "batch_fixed_memory",
    ),
    "What runs": (
        "image", "pull_policy", "command", "entrypoint", "environment", "env_file", "working_dir", "user", "matrix", "replicas",
    ),
    "When it runs": (
        "needs", "stage", "priority", "retries", "retry_on", "timeout", "expect", "resumable", "snapshot", "stop_grace_period",
    ),
    "The container": (
        "volumes", "ports", "network_mode", "shm_size", "tmpfs", "mem_limit", "group_add", "ulimits", "labels", "extra_hosts",
        "cap_add", "security_opt", "ipc",
    ),
}  # fmt: skip
"""Keys of a job by what they are about; each is in one group."""

_TARGETS = (Target.DOCKER, Target.PROCESS, Target.COMPOSE, Target.SHELL, Target.SLURM, Target.KUBERNETES)


def reference() -> str:
    """What stands between the markers of docs/plan.md."""
    schema: Any = planfile.schema()
    job = schema["$defs"]["job"]["properties"]
    grouped = [key for keys in GROUPS.values() for key in keys]
    if sorted(grouped) != sorted(job):
        raise SystemExit(f"in no group, or in several: {sorted(set(job) ^ set(grouped)) or grouped}")
    lines = ["### Keys of the plan", "", *_table(schema["properties"], tuple(schema["properties"]))]
    for title, keys in GROUPS.items():
        lines += ["", f"### Keys of a job: {title[0].lower()}{title[1:]}", "", *_table(job, keys)]
    return "\n".join(lines) + "\n"


def targets() -> str:
    """The table of what becomes of each key where."""
    heads = [target.value for target in _TARGETS]
    lines = [f"| key | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for table in (PLAN_KEYS, JOB_KEYS):
        lines += [_support_row(key, row) for key, row in table.items()]
    return "\n".join(lines) + "\n"


def _support_row(key: str, row: Row) -> str:
    return f"| `{key}` | {' | '.join(_cell(row[target]) for target in _TARGETS)} |"


def _cell(support: Support) -> str:
    if isinstance(support, Told):
        return support.how
    if isinstance(support, Partly):
        return f"{support.how}; {support.lost}"
    return f"– ({support.why})"


def _table(properties: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    yield "| key | value | means |"
    yield "|---|---|---|"
    for key in keys:
        schema = properties[key]
        value = {"defaults": "keys of a job", "jobs": "names, each with keys of a job"}.get(key) or value_of(schema)
        yield f"| `{key}` | {value} | {schema['description'].replace('|', chr(92) + '|')} |"


def value_of(schema: Mapping[str, Any]) -> str:
    """A value in words."""
    if "anyOf" in schema:
        parts = dict.fromkeys(word for part in schema["anyOf"] if (word := value_of(part)))
        return " or ".join(parts)
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        kinds = "string" if "string" in kinds else kinds[0]
    match kinds:
        case "null" | None:
            return ""
        case "boolean":
            return "`true`, `false`"
        case "integer" | "number":
            return f"a number from {schema['minimum']} on" if "minimum" in schema else "a number"
        case "array":
            below = value_of(schema.get("items", {}))
            return f"a list of {below.replace('a text', 'texts')}" if below and " or " not in below else "a list"
        case "object":
            names = ", ".join(f"`{name}`" for name in schema.get("properties", ()))
            return f"a mapping of {names}" if names else "a mapping"
        case _:
            if "\\$\\{" in schema.get("pattern", "") and not schema["pattern"].startswith("^"):
                return ""  # `${NAME}` may stand for a number as well
            examples = schema.get("examples", ())
            return f"a text, as `{examples[0]}`" if examples else "a text"
