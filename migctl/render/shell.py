"""A plan as a shell script of plain `nvidia-smi mig` and `docker run` lines (or processes), round by round, with its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil

from migctl.core.allocation import Assignment
from migctl.core.choices import RuntimeName
from migctl.core.keytable import Lost
from migctl.core.plan import Job, Volume
from migctl.core.queueing.rounds import Rounds
from migctl.render.exported import Exporter, argv, handed, heading, published, resolved, shm, size
from migctl.render.nvidia_smi import profile_tuple
from migctl.render.shell_words import comment, is_name, word, words, wrapped
from migctl.render.withheld import WHY, Withheld, withheld

_DEVICE = "${MIGCTL_MIG_UUID}"
OOM_SCORE_ADJ = 500

_FUNCTIONS = """
failed=       # jobs that ended with another exit code than 0
instances=    # GPU:ID of the GPU instances made here
places=       # GPU/PROFILE:START=UUID of the same
running=      # containers, and NAME=PID of processes

# Makes a GPU instance with its compute instance: GPU PROFILE:START → MIGCTL_MIG_UUID; several jobs may share one.
make_instance() {
    MIGCTL_MIG_UUID=
    for one in $places; do
        case $one in "$1/$2="*) MIGCTL_MIG_UUID=${one##*=}; return ;; esac
    done
    before=$(nvidia-smi -L) || return
    made=$(nvidia-smi mig -i "$1" -cgi "$2" -C) || { echo "$made" >&2; return 1; }
    instances="$instances $1:$(echo "$made" | sed -n 's/.*created GPU instance ID *\\([0-9]*\\).*/\\1/p')"
    for uuid in $(nvidia-smi -L | sed -n 's/.*(UUID: \\(MIG-[^)]*\\)).*/\\1/p'); do
        case $before in *"$uuid"*) ;; *) MIGCTL_MIG_UUID=$uuid ;; esac
    done
    places="$places $1/$2=$MIGCTL_MIG_UUID"
    [ -n "$MIGCTL_MIG_UUID" ]
}

# Takes the instances away again that were made here, and no others; what has just ended may hold one for a moment.
take_away() {
    for one in $instances; do
        for try in 1 2 3 4 5 6 7 8 9 10; do
            nvidia-smi mig -i "${one%:*}" -dci -gi "${one##*:}" >/dev/null
            told=$(nvidia-smi mig -i "${one%:*}" -dgi -gi "${one##*:}") && break
            [ "$try" = 10 ] && echo "$told" >&2 || sleep 1
        done
    done
    instances= places=
}

# Waits for what runs, and says how each ended.
wait_for_all() {
    for one in $running; do
        case $one in
        *=*) wait "${one##*=}"; code=$?; kill -KILL "-${one##*=}" 2>/dev/null ;;    # and what it left behind
        *) code=$(docker wait "$one") ;;
        esac
        echo "${one%%=*}: exit code $code"
        [ "$code" = 0 ] || failed="$failed ${one%%=*}"
    done
    running=
}

# Whether none of these jobs has failed.
succeeded() {
    for one in "$@"; do
        case " $failed " in *" $one "*) return 1 ;; esac
    done
}

# Ctrl-C: SIGTERM to what runs, and then the instances.
stop_all() {
    trap '' INT TERM
    for one in $running; do
        case $one in *=*) kill "${one##*=}" ;; *) docker stop "$one" ;; esac
    done
    wait_for_all
    take_away
}
case $- in
*i*) session= ;;    # pasted: every job is a group of processes already, and nothing happens by itself
*) session=setsid; trap 'stop_all; exit 130' INT TERM; trap take_away EXIT ;;
esac
"""


def shell_script(rounds: Rounds, lost: Iterable[Lost], exporter: Exporter) -> str:
    """The script's text.

    Args:
        rounds: who runs with whom, on what.
        lost: keys that it cannot express.
        exporter: who containers run as where the job names no user.
    """
    made = any(a.profile is not None and a.instance_uuid is None for a in rounds.assignments)
    docker = rounds.plan.runtime is RuntimeName.DOCKER
    what = f"plan {rounds.plan.name}, planned for {rounds.machine}"
    lines = ["#!/bin/sh", *map(comment, heading(what, exporter.version, lost))]
    lines.append(comment(f"Run it with sh, {'as root or ' if made else ''}with rights on {_rights(made, docker)}."))
    if docker:
        names = words(_unit(rounds, a.job) for a in rounds.assignments)
        lines.append(comment(f"The containers stay, with their logs, until: docker rm {names}"))
    else:
        lines.append("# What the processes write goes to NAME.log in this folder.")
    hidden = withheld(a.job for a in rounds.assignments)
    text = "\n".join([*lines, *_secrets(hidden)]) + "\n" + _FUNCTIONS
    for number, round_ in enumerate(rounds.rounds, 1):
        if len(rounds.rounds) > 1:
            text += f"\n# round {number} of {len(rounds.rounds)}\n"
        text += "".join(f"\n{_job(a, rounds, exporter, hidden.of(a.job))}" for a in round_)
        text += "\nwait_for_all\n" + ("take_away\n" if made else "")
    return f'{text}[ -z "$failed" ]\n'


def _secrets(hidden: Withheld) -> list[str]:
    """They come from the environment of whoever runs the script, and it ends at once where one is missing."""
    if not hidden.told:
        return []
    lines = [comment("Secrets are not written here; they come from the environment:")]
    lines += [comment(f"    {line}") for line in hidden.told]
    lines += [f': "${{{variable}:?{WHY}}}"' for variable in hidden.variables]
    return [*lines, f"export {' '.join(hidden.variables)}"]


def _rights(made: bool, docker: bool) -> str:
    return " and ".join(
        (["the GPUs' instances (MIG mode on)"] if made else []) + (["Docker"] if docker else ["the GPU"])
    )


def _unit(rounds: Rounds, job: Job) -> str:
    return f"{rounds.plan.name}-{job.name}" if rounds.plan.runtime is RuntimeName.DOCKER else job.name


def _job(a: Assignment, rounds: Rounds, exporter: Exporter, hidden: Mapping[str, str]) -> str:
    """The lines of one job: its device, then its start."""
    job = a.job
    gpu = rounds.names[a.gpu_uuid]
    told = f"{a.profile.name} on GPU {gpu}, " if a.profile is not None else f"GPU {gpu}, "
    lines = [comment(f"{job.name}: {told}CPUs {a.cpu.cpus}, {a.cpu.num_workers} workers")]
    docker = rounds.plan.runtime is RuntimeName.DOCKER
    start = _container(a, rounds, exporter, hidden) if docker else _process(a, rounds, hidden)
    conditions = []
    if job.needs:
        conditions.append(f"succeeded {words(_unit(rounds, one) for one in rounds.plan.jobs if one.name in job.needs)}")
    if a.profile is not None and a.instance_uuid is None:
        conditions.append(f"make_instance {word(gpu)} {profile_tuple(a)}")
    else:
        lines.append(f"MIGCTL_MIG_UUID={word(a.instance_uuid or '')}")
    if conditions:
        lines += [f"if {' && '.join(conditions)}; then", start]
        lines += [
            "else",
            f"    echo {word(f'{job.name}: not started')}",
            f'    failed="$failed {_unit(rounds, job)}"',
            "fi",
        ]
    else:
        lines.append(start)
    return "\n".join(lines) + "\n"


def _device(a: Assignment, rounds: Rounds) -> str:
    """What CUDA or the engine is given: the MIG device, or the whole GPU."""
    return _DEVICE if a.profile is not None or a.instance_uuid is not None else rounds.names[a.gpu_uuid]


def _variables(a: Assignment, rounds: Rounds, exporter: Exporter | None) -> dict[str, str]:
    user = exporter.name if exporter is not None else ""
    told = handed(a, rounds.plan, container=exporter is not None, device=_DEVICE, user=user)
    own = dict(zip(dict(a.job.environment), resolved([value for _, value in a.job.environment], told), strict=True))
    return {**told, **own}


def _container(a: Assignment, rounds: Rounds, exporter: Exporter, hidden: Mapping[str, str]) -> str:
    job = a.job
    variables = _variables(a, rounds, exporter)
    # By its name alone docker takes a variable from its own environment: on its command line everybody could read it.
    renamed = {name: given for name, given in hidden.items() if given != name and is_name(name)}
    odd = {name: given for name, given in hidden.items() if not is_name(name)}
    options = [
        f"--name {word(_unit(rounds, job))}",
        f'--gpus "\\"device={_device(a, rounds)}\\""',
        f"--cpuset-cpus {a.cpu.cpus}",
        *([f"--cpuset-mems {a.cpu.mems}"] if a.cpu.mems is not None else []),
        f"--shm-size {size(shm(a))}",
        "--init",
        f"--oom-score-adj {OOM_SCORE_ADJ}",
        "--stop-signal SIGTERM",
        f"--stop-timeout {max(1, ceil(job.stop_grace_period_s))}",
        *([] if job.user == "image" else [f"--user {word(job.user or exporter.ids)}"]),
        *_options(job),
        *(f"--env {word(f'{name}={value}')}" for name, value in variables.items() if name not in hidden),
        *(f"--env {name}" for name in hidden if name not in odd),
        *(f'--env {word(name)}="${given}"' for name, given in odd.items()),
    ]
    entrypoint, *before = job.entrypoint or ("",)
    if job.entrypoint is not None:
        options.append(f"--entrypoint {word(*resolved((entrypoint,), variables))}")
    command = resolved((*before, *(job.command or ())), variables)
    before_it = "".join(f'{name}="${given}" ' for name, given in renamed.items())
    line = wrapped(f"{before_it}docker run --detach", [*options, word(job.image or ""), *map(word, command)])
    unit = _unit(rounds, job)
    return f'{line} >/dev/null &&\nrunning="$running {unit}" || failed="$failed {unit}"'


def _options(job: Job) -> list[str]:
    """The options of `docker run` for the keys that are Docker's own."""
    found: list[tuple[str, Iterable[str]]] = [
        ("--pull", [job.pull_policy] if job.pull_policy != "missing" else []),
        ("--workdir", [job.working_dir] if job.working_dir else []),
        ("--mount", map(_mount, job.volumes)),
        ("--publish", map(published, job.ports)),
        ("--network", [job.network_mode] if job.network_mode else []),
        ("--tmpfs", job.tmpfs),
        ("--group-add", job.group_add),
        ("--ulimit", (f"{u.name}={u.soft}:{u.hard}" for u in job.ulimits)),
        ("--label", (f"{name}={value}" for name, value in job.labels)),
        ("--add-host", job.extra_hosts),
        ("--cap-add", job.cap_add),
        ("--security-opt", job.security_opt),
        ("--ipc", [job.ipc] if job.ipc else []),
        ("--memory", [str(job.mem_limit_bytes)] if job.mem_limit_bytes else []),
    ]
    return [f"{option} {word(value)}" for option, values in found for value in values]


def _mount(volume: Volume) -> str:
    """A mount, which unlike --volume is refused where its source is missing; its fields are those of a CSV line."""
    fields = [f"type={volume.kind}", *([f"source={volume.source}"] if volume.source else []), f"target={volume.target}"]
    fields += ["readonly"] if volume.read_only else []
    return ",".join('"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field for field in fields)


def _process(a: Assignment, rounds: Rounds, hidden: Mapping[str, str]) -> str:
    job = a.job
    variables = {**_variables(a, rounds, None), "CUDA_VISIBLE_DEVICES": _device(a, rounds)}
    limit = [f"timeout --kill-after={max(1, ceil(job.stop_grace_period_s))} {job.timeout_s:g}"] if job.timeout_s else []
    settings = [word(f"{name}={value}") for name, value in variables.items() if name not in hidden]
    settings += [f'{word(name)}="${given}"' for name, given in hidden.items() if given != name]
    command = map(word, resolved(argv(job), variables))
    line = wrapped("    exec $session env", [*settings, *limit, f"taskset -c {a.cpu.cpus}", *command])
    where = word(job.working_dir or rounds.plan.folder)
    log = word(f"{job.name}.log")
    return f'(\n    cd {where} || exit\n{line}\n) >{log} 2>&1 </dev/null &\nrunning="$running {job.name}=$!"'
