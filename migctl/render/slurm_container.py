"""The lines of a batch script that run the job's command: as it is, or in a container of pyxis, apptainer or docker."""

from __future__ import annotations

import math
import re
from typing import assert_never

from migctl.core.cluster.clusterjobs import Group
from migctl.core.cluster.clusters import SlurmContainer
from migctl.core.plan import Job
from migctl.render.shell_words import word, wrapped

_SRUN = 'srun --cpus-per-task="$SLURM_CPUS_PER_TASK"'
"""srun does not take it from sbatch by itself since 22.05 (Slurm's release notes)."""


def run_lines(container: SlurmContainer, group: Group, names: tuple[str, ...]) -> str:
    """A function `run` that runs the words in `_words` and sets `code`.

    Args:
        container: the site's way.
        group: the jobs, for what they have in common.
        names: variables that the container must be told.
    """
    match container:
        case SlurmContainer.NONE:
            return _function([f'{_SRUN} "${{_words[@]}}"', "code=$?"])
        case SlurmContainer.PYXIS:
            return _function([wrapped(_SRUN, [*_pyxis(group.first, names), '"${_words[@]}"']), "code=$?"])
        case SlurmContainer.APPTAINER:
            return _function(_apptainer(group.first, names))
        case SlurmContainer.DOCKER:
            return _function(_docker(group, names))
        case _:
            assert_never(container)


def _function(lines: list[str]) -> str:
    body = "".join(f"    {line}\n" for text in lines for line in text.split("\n"))
    return f"\nrun() {{\n{body}}}\n"


def _binds(job: Job) -> list[str]:
    """`source:target[:ro]` of the host folders; other volumes have no place on a cluster's node."""
    bound = (v for v in job.volumes if v.kind == "bind" and v.source)
    return [f"{v.source}:{v.target}" + (":ro" if v.read_only else "") for v in bound]


def _pyxis(job: Job, names: tuple[str, ...]) -> list[str]:
    """Options of NVIDIA's pyxis plugin (https://github.com/NVIDIA/pyxis)."""
    options = [f"--container-image={word(_enroot(job.image or ''))}", f"--container-env={','.join(names)}"]
    if binds := _binds(job):
        options.append(f"--container-mounts={word(','.join(binds))}")
    if job.working_dir:
        options.append(f"--container-workdir={word(job.working_dir)}")
    return options


def _enroot(image: str) -> str:
    """For enroot a `#` stands between a registry and the image's path."""
    registry, slash, rest = image.partition("/")
    return f"{registry}#{rest}" if slash and re.search(r"[.:]|^localhost$", registry) else image


def _apptainer(job: Job, names: tuple[str, ...]) -> list[str]:
    options = ["--nv", *(f"--bind {word(bind)}" for bind in _binds(job))]
    if job.working_dir:
        options.append(f"--pwd {word(job.working_dir)}")
    image = job.image or ""
    reference = image if image.endswith(".sif") else f"docker://{image}"
    return [
        "# An image's own variables win over the job's unless they are handed over like this.",
        f"for name in {' '.join(names)}; do",
        '    [ -z "${!name+x}" ] || export "APPTAINERENV_$name=${!name}"',
        "done",
        "# Without this variable MIG devices are missed (sylabs/singularity#471).",
        "export NVIDIA_VISIBLE_DEVICES=all",
        wrapped(f"{_SRUN} apptainer exec", [*options, word(reference), '"${_words[@]}"']),
        "code=$?",
    ]


def _docker(group: Group, names: tuple[str, ...]) -> list[str]:
    """The daemon starts the container outside of the job's cgroup: device, CPUs and memory are handed on, and its end too."""
    job = group.first
    options = [
        '--name "$name"',
        '--gpus "\\"device=$CUDA_VISIBLE_DEVICES\\""',
        '--cpuset-cpus "$MIGCTL_CPUSET"',
        *(
            [f"--memory {group.memory_bytes}"]
            if group.memory_given
            else ['${SLURM_MEM_PER_NODE:+--memory "${SLURM_MEM_PER_NODE}m"}']
        ),
        f"--shm-size {group.shm_bytes}",
        f"--stop-timeout {max(1, math.ceil(job.stop_grace_period_s))}",
        '--user "$(id -u):$(id -g)"',
        *([f"--ipc {word(job.ipc)}"] if job.ipc else []),
        *(f"--volume {word(bind)}" for bind in _binds(job)),
        *([f"--workdir {word(job.working_dir)}"] if job.working_dir else []),
        *(f"--env {name}" for name in names),
    ]
    return [
        "case ${CUDA_VISIBLE_DEVICES-} in",
        "MIG-*|GPU-*) ;;",
        "*) echo 'slurmd names the GPU by its number: docker needs the UUID (AutoDetect=nvml in gres.conf)' >&2; exit 1 ;;",
        "esac",
        "name=migctl-$SLURM_JOB_ID-$MIGCTL_ATTEMPT",
        f"trap 'stopped=1; docker stop --time {max(1, math.ceil(job.stop_grace_period_s))} \"$name\" >/dev/null' TERM",
        wrapped("docker run --rm --init", [*options, word(job.image or ""), '"${_words[@]}" &']),
        "container=$!",
        'wait "$container"; code=$?',
        "# A trap ends the first wait before the container has ended.",
        'while kill -0 "$container" 2>/dev/null; do wait "$container"; code=$?; done',
    ]
