"""What Slurm's programs print, read: formats that are the same from 22.05 to 26.05, JSON where there is no such format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from migctl.core.cluster.slurmsite import Site, SlurmNode, gres
from migctl.core.cluster.slurmstate import Told

SEPARATOR: Final = "|"
NODES: Final = "%N|%P|%X|%Y|%Z|%c|%G"
"""Of sinfo: node, partition, sockets, cores of each, threads of each, CPUs, GRES."""
JOBS: Final = "%i|%T|%N|%S|%e|%j|%r|%k"
"""Of squeue: id, state, nodes, start, end, name, reason, comment. The last one may hold the separator."""
ENDS: Final = "JobID,State,ExitCode,NodeList,Start,End"
"""Of sacct."""
_ID = re.compile(r"(\d+)(?:_(\d+))?")


def site(text: str) -> Site:
    """The answer of `sinfo -N -h -o NODES`, one line for each node and partition."""
    nodes: list[SlurmNode] = []
    partitions: dict[str, None] = {}
    default: str | None = None
    for line in text.splitlines():
        parts = line.split(SEPARATOR, 6)
        if len(parts) != 7:
            continue
        name, partition, sockets, cores, threads, cpus, given = (part.strip() for part in parts)
        if partition.endswith("*"):
            partition = default = partition[:-1]
        partitions[partition] = None
        found = gres(given)
        if found:
            per_core = _number(threads) or 1
            total = (_number(sockets) or 0) * (_number(cores) or 0) or (_number(cpus) or 1) // per_core
            # Sites that count hardware threads as CPUs of their own name no topology.
            total = min(total, _number(cpus) or total)
            nodes.append(SlurmNode(name=name, partition=partition, gres=found, cores=total, threads_per_core=per_core))
    return Site(nodes=tuple(nodes), partitions=tuple(partitions), default=default)


def config(text: str) -> Mapping[str, str]:
    """The answer of `scontrol show config`."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip():
            found.setdefault(name.strip(), value.strip())
    return found


def jobs(text: str) -> Iterator[Told]:
    """The answer of `squeue -h -r -o JOBS`; lines that are none of ours to read are left out."""
    for line in text.splitlines():
        parts = line.split(SEPARATOR, 7)
        found = _ID.fullmatch(parts[0].strip())
        if found is None or len(parts) != 8:
            continue
        _, state, node, start, end, name, reason, comment = (part.strip() for part in parts)
        yield Told(
            unit=found[1],
            index=int(found[2]) if found[2] is not None else None,
            state=state,
            reason=reason,
            node=node,
            name=name,
            comment=comment,
            started_at=_time(start),
            finished_at=_time(end),
        )


def ends(text: str) -> Iterator[Told]:
    """The answer of `sacct -n -P -X -o ENDS`."""
    for line in text.splitlines():
        parts = line.split(SEPARATOR)
        found = _ID.fullmatch(parts[0].strip())
        if found is None or len(parts) != 6:
            continue
        _, state, code, node, start, end = (part.strip() for part in parts)
        yield Told(
            unit=found[1],
            index=int(found[2]) if found[2] is not None else None,
            state=state.split()[0] if state else "",
            node=node,
            started_at=_time(start),
            finished_at=_time(end),
            exit_code=exit_code(code),
        )


def exit_code(text: str) -> int | None:
    """`3:0` is 3, `0:15` (a signal) is 143 as a shell has it."""
    code, _, signal = text.partition(":")
    if not code.isdigit():
        return None
    return int(code) if int(code) or not signal.isdigit() or not int(signal) else 128 + int(signal)


def submitted(text: str) -> str | None:
    """The id in the answer of `sbatch --parsable`: `4711`, or `4711;cluster` where there are several."""
    for line in reversed(text.splitlines()):
        name = line.partition(";")[0].strip()
        if name.isdigit():
            return name
    return None


def one_each(found: Iterable[Told]) -> Mapping[tuple[str, int | None], Told]:
    """By id and index; of a job that was queued again the last line holds."""
    return {(told.unit, told.index): told for told in found}


def _number(text: str) -> int | None:
    """`64`, and `64+` where nodes differ."""
    digits = text.rstrip("+")
    return int(digits) if digits.isdigit() else None


def _time(text: str) -> float | None:
    """Unix seconds of a time; versions write it as asked for (`%s`) or as local time."""
    if text.isdigit():
        return float(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
