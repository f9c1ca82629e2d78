"""The one place that turns what Slurm's programs complain about into migctl's errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from migctl.errors import Busy, DoesNotFit, HostError, MigctlError, PlanError

NO_PROGRAM: Final = 127
NOT_IN_TIME: Final = -1
_LOGIN = "run migctl where the cluster's users submit jobs (a login node); or --engine local"
_RULES: Final[Sequence[tuple[str, type[MigctlError], str, str]]] = (
    # Texts of src/common/slurm_errno.c and of the programs themselves, the same from 22.05 to 26.05 but for capitals.
    (r"unable to contact slurm controller|connection refused|unable to establish|no route to host", HostError, "slurm-away",
     "scontrol ping tells which controllers answer; the jobs go on without it"),
    (r"socket timed out|timed out|zero bytes were transmitted", Busy, "slurm-slow", "the same command again, later"),
    (r"requested node configuration is not available|node count specification invalid|more processors requested",
     DoesNotFit, "slurm-never-fits", "fewer cpus, less mem_limit, or another partition; sinfo -N -o '%N %P %c %m %G' lists nodes"),
    (r"invalid partition|not in the list of partitions|no partition specified", PlanError, "no-partition",
     "slurm: {partition: NAME}; sinfo -s lists them"),
    (r"policy|qos\w*limit|assoc\w*limit|job queue full|too many|maxsubmit|resource temporarily unavailable", Busy, "slurm-limit",
     "later, when some of your jobs have ended; sacctmgr show associations lists your limits"),
    (r"invalid account|account/partition combination", PlanError, "slurm-account",
     "slurm: {account: NAME}; sacctmgr show associations lists yours"),
    (r"invalid qos", PlanError, "slurm-qos", "slurm: {qos: NAME}; sacctmgr show qos lists them"),
    (r"invalid feature specification", PlanError, "slurm-constraint", "slurm: {constraint: NAME}; sinfo -o '%N %f' lists them"),
    (r"reservation (is )?invalid|invalid reservation|requested reservation", PlanError, "slurm-reservation",
     "slurm: {reservation: NAME}; scontrol show reservation lists them"),
    (r"invalid generic resource|invalid tres", PlanError, "slurm-gres", "sinfo -N -h -o '%N %P %G' lists the types"),
    (r"time limit|timelimit", PlanError, "slurm-time", "a shorter timeout; sinfo -o '%P %l' lists the longest of each partition"),
    (r"invalid job array|array\w* size", PlanError, "slurm-array", "scontrol show config tells MaxArraySize"),
    (r"access/permission denied|permission denied|not permitted|user id is invalid", HostError, "slurm-denied",
     "sacctmgr show user $USER tells what you may do"),
    (r"munge|authentication", HostError, "slurm-auth", "munge has to run here and at the controller, with the same key"),
    (r"unrecogni[sz]ed option|unknown option|invalid option", PlanError, "slurm-option", "look at slurm: {options: …} in the plan"),
    (r"fatal|could not|configuration", HostError, "slurm-config", _LOGIN),
)  # fmt: skip


def failure(words: Sequence[str], code: int, said: str, *, where: str | None = None) -> MigctlError:
    """What it means that one of Slurm's programs did not do what it was asked for.

    Args:
        words: the command line.
        code: its exit code; -1: it did not end in time, 127: it could not be run.
        said: what it wrote to stderr.
        where: the job or run that it was about.
    """
    program = words[0]
    if code == NO_PROGRAM:
        return HostError(
            "no-slurm", f"{program} cannot be run: {said or 'it is not on the PATH'}", where=where, hint=_LOGIN
        )
    if code == NOT_IN_TIME:
        return Busy(
            "slurm-slow", f"{program} did not answer in time", where=where, hint="the same command again, later"
        )
    text = _plain(said)
    for pattern, kind, name, hint in _RULES:
        if re.search(pattern, text, re.IGNORECASE):
            return kind(name, f"{program}: {text}", where=where, hint=hint)
    return HostError(
        "slurm-failed",
        f"{program} ended with {code}: {text or 'without a word'}",
        where=where,
        hint="sinfo; scontrol ping",
    )


def _plain(said: str) -> str:
    """The complaint in one line, without the program's name before each part."""
    lines = [re.sub(r"^\w+: (?:error: |fatal: )?", "", line).strip() for line in said.splitlines() if line.strip()]
    text = "; ".join(dict.fromkeys(lines))
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:500]
