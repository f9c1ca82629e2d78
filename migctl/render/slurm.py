"""Jobs as sbatch scripts: one for each group of equal jobs, an array where there are several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from migctl.core.choices import RuntimeName
from migctl.core.cluster.clusterjobs import Group
from migctl.core.cluster.clusters import SlurmContainer
from migctl.core.cluster.clusterturns import Link, Turn
from migctl.core.handover import THREAD_VARIABLES
from migctl.core.plan import Job, Plan
from migctl.render.at_start import share_script
from migctl.render.exported import argv
from migctl.render.shell_words import comment, here_document, is_name, word
from migctl.render.slurm_container import run_lines
from migctl.render.slurm_telling import at_begin, first_lines
from migctl.render.withheld import WHY, Withheld

NOTHING_WITHHELD = Withheld()
_SHARE = ("MIGCTL_CPUSET", "MIGCTL_CPUS", "MIGCTL_NUM_WORKERS")
_TOLD = ("MIGCTL_RUN", "MIGCTL_JOB", "MIGCTL_ATTEMPT", "MIGCTL_PROFILE", "MIGCTL_MIG_UUID", *_SHARE)


@dataclass(frozen=True, slots=True)
class Script:
    """One batch script."""

    name: str
    """Of the group."""
    text: str
    after: tuple[Link, ...] = ()


def sbatch_scripts(
    plan: Plan,
    turns: Sequence[Turn],
    above: Sequence[str],
    *,
    told: str = "",
    attempts: Mapping[str, int] | None = None,
    hidden: Withheld = NOTHING_WITHHELD,
) -> tuple[Script, ...]:
    """A script for each group, in an order in which they can be submitted.

    Args:
        plan: the jobs' plan, with its settings for Slurm.
        turns: the groups and what each waits for.
        above: comment lines that every script begins with.
        told: the folder in which each job writes down that it began and how it ended; nothing = nowhere.
        attempts: job → number of its attempt, where that is not the first.
        hidden: values that come from the environment of the submission.
    """
    urgent = max((turn.group.first.priority for turn in turns), default=0)
    several = attempts or {}
    return tuple(Script(t.group.name, _script(plan, t, above, urgent, told, several, hidden), t.after) for t in turns)


def _script(
    plan: Plan,
    turn: Turn,
    above: Sequence[str],
    urgent: int,
    told: str,
    attempts: Mapping[str, int],
    hidden: Withheld,
) -> str:
    group = turn.group
    own = frozenset(name for job in group.members for name, _ in job.environment)
    several = f"{len(group.members)} jobs as an array" if group.array else "one job"
    lines = ["#!/bin/bash", comment(f"{group.name}: {several}"), *map(comment, above)]
    lines += [*_options(plan, turn, urgent), "", "set -u"]
    lines += first_lines(told).splitlines() if told else []
    if plan.runtime is RuntimeName.PROCESS or container_of(plan) is SlurmContainer.NONE:
        lines.append(f"cd {word(group.first.working_dir or plan.folder)} || exit")
    text = "\n".join(lines) + "\n\n" + share_script(group, own, limited=False) + _device_and_run(plan, group)
    names = sorted({*_TOLD, *_more(group), *(n for n in THREAD_VARIABLES if n not in own), "PYTHON_CPU_COUNT"})
    names += [name for name in dict.fromkeys(n for job in group.members for n, _ in job.environment) if is_name(name)]
    text += _members(group, attempts, hidden)
    text += run_lines(container_of(plan), group, tuple(dict.fromkeys(names)))
    text += at_begin() if told else ""
    return text + _attempts(group.first) + 'exit "$code"\n'


def container_of(plan: Plan) -> SlurmContainer:
    """How the plan's containers are run there."""
    if plan.runtime is RuntimeName.PROCESS:
        return SlurmContainer.NONE
    return plan.slurm.container or SlurmContainer.PYXIS


def _options(plan: Plan, turn: Turn, urgent: int) -> list[str]:
    group, settings, job = turn.group, plan.slurm, turn.group.first
    kind = settings.gres_type(group.profile) if group.profile is not None else settings.whole
    gres = f"gpu:{kind}:1" if kind else "gpu:1"
    minutes = math.ceil(job.timeout_s * (job.retries + 1) / 60) if job.timeout_s else None
    array = f"0-{len(group.members) - 1}" + (f"%{turn.at_once}" if turn.at_once else "")
    given: list[tuple[str, object]] = [
        ("job-name", f"{plan.name}.{group.name}"),
        ("partition", settings.partition),
        ("account", settings.account),
        ("qos", settings.qos),
        ("constraint", settings.constraint),
        ("reservation", settings.reservation),
        ("nodes", 1),
        ("ntasks", 1),
        ("cpus-per-task", group.cpus),
        ("gres", gres),
        ("mem", f"{math.ceil(group.memory_bytes / (1 << 20))}M" if group.memory_given else None),
        ("time", minutes),
        ("signal", f"TERM@{max(1, math.ceil(job.stop_grace_period_s))}" if minutes else None),
        ("array", array if group.array else None),
        ("nice", urgent - job.priority or None),
        ("output", "%x-%A_%a.out" if group.array else "%x-%j.out"),
    ]
    lines = [f"#SBATCH --{name}={_plain(str(value))}" for name, value in given if value is not None]
    lines.append(f"#SBATCH --{'requeue' if job.resumable else 'no-requeue'}")
    return [*lines, *(f"#SBATCH {' '.join(option.split())}" for option in settings.options)]


def _plain(value: str) -> str:
    """An option line is read nearly as a shell reads it."""
    value = " ".join(value.split())
    return value if not set(value) & set(" '\"\\#") else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _more(group: Group) -> list[str]:
    found = ["MIGCTL_GPU_MEMORY_MIB"] if group.gpu_memory_mib is not None else []
    return [*found, "MIGCTL_BATCH_SIZE"] if group.batch_size is not None else found


def _device_and_run(plan: Plan, group: Group) -> str:
    """What the job is told beside its share; Slurm gives the MIG UUID where slurmd detects devices by NVML."""
    fixed = [f"MIGCTL_RUN={word(plan.name)}", f"MIGCTL_PROFILE={word(group.profile or '')}"]
    fixed += [f"MIGCTL_GPU_MEMORY_MIB={group.gpu_memory_mib}"] if group.gpu_memory_mib is not None else []
    fixed += [f"MIGCTL_BATCH_SIZE={group.batch_size}"] if group.batch_size is not None else []
    return (
        "case ${CUDA_VISIBLE_DEVICES-} in MIG-*) MIGCTL_MIG_UUID=$CUDA_VISIBLE_DEVICES ;; *) MIGCTL_MIG_UUID= ;; esac\n"
        f"export MIGCTL_MIG_UUID {' '.join(fixed)}\n"
        "export MIGCTL_ATTEMPT=$((${SLURM_RESTART_COUNT:-0} + 1))\n"
    )


def _members(group: Group, attempts: Mapping[str, int], hidden: Withheld) -> str:
    """A function that sets the variables of this member and its command as the positional parameters."""
    if not group.array:
        return (
            "\n# The job's own variables and its command.\nprepare() {\n"
            + _member(group.first, "    ", attempts, hidden)
            + "}\n"
        )
    cases = "".join(
        f"    {number})\n{_member(job, '        ', attempts, hidden)}        ;;\n"
        for number, job in enumerate(group.members)
    )
    head = '\n# The variables and the command of each member of the array.\nprepare() {\n    case "$SLURM_ARRAY_TASK_ID" in\n'
    return f"{head}{cases}    esac\n}}\n"


def _member(job: Job, indent: str, attempts: Mapping[str, int], hidden: Withheld) -> str:
    given = hidden.of(job)
    lines = [f"export MIGCTL_JOB={word(job.name)}"]
    if before := attempts.get(job.name, 1) - 1:
        lines.append(f"MIGCTL_ATTEMPT=$((MIGCTL_ATTEMPT + {before}))")
    lines += [f"export {name}={assigned(name, value, given)}" for name, value in job.environment if is_name(name)]
    odd = [f"{word(name)}={assigned(name, value, given)}" for name, value in job.environment if not is_name(name)]
    command = " ".join([*(["env", *odd] if odd else []), *map(word, argv(job))])
    lines.append(f"_words=({command})" if command else "_words=()")
    return "".join(f"{indent}{line}\n" for line in lines)


def assigned(name: str, value: str, hidden: Mapping[str, str]) -> str:
    """What stands behind `NAME=`: the value, or the variable that holds it."""
    return f'"${{{hidden[name]}:?{WHY}}}"' if name in hidden else word(value)


def _attempts(job: Job) -> str:
    """Without a trap the shell would die of SIGTERM at once, and nobody would learn how the job ended."""
    head = "\nstopped=\ntrap 'stopped=1' TERM\n"
    if not job.retries:
        return f"{head}prepare\nrun\n"
    return (
        f"{head}for MIGCTL_ATTEMPT in {' '.join(str(n) for n in range(1, job.retries + 2))}; do\n"
        "    prepare\n    run\n"
        '    [ "$code" != 0 ] && [ -z "$stopped" ] || break\n'
        "done\n"
    )


def submission(scripts: Sequence[Script], above: Iterable[str], hidden: Withheld = NOTHING_WITHHELD) -> str:
    """One shell script that submits them all, with what each waits for; a missing secret ends it before anything is submitted."""
    numbers = {script.name: number for number, script in enumerate(scripts, 1)}
    known = {name: f"${{job{number}}}" for name, number in numbers.items()}
    text = "\n".join(["#!/bin/sh", *map(comment, above), comment("sh THIS-FILE submits all jobs."), "set -eu"]) + "\n"
    text += "".join(f': "${{{variable}:?{WHY}}}"\nexport {variable}\n' for variable in hidden.variables)
    for script in scripts:
        mark, body = here_document(script.text)
        options = f" --dependency={dependency(script.after, known)} --kill-on-invalid-dep=yes" if script.after else ""
        number = numbers[script.name]
        text += f"\njob{number}=$(sbatch --parsable{options} <<'{mark}'\n{body}{mark}\n)\njob{number}=${{job{number}%%;*}}\n"
        text += f'echo {word(script.name)} "$job{number}"\n'
    return text


def dependency(after: Iterable[Link], groups: Mapping[str, str], jobs: Mapping[str, str] | None = None) -> str:
    """The value of --dependency.

    Args:
        after: what to wait for.
        groups: group → id.
        jobs: job that Slurm has already → id.
    """
    return ",".join(
        f"{'afterok' if link.success else 'afterany'}:"
        + ((jobs or {}) if link.there else groups)[link.group]
        + (f"_{link.index}" if link.index is not None else "")
        for link in after
    )
