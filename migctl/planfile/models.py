"""The keys of a plan: their types and their one-sentence descriptions, which are also the JSON Schema's."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from migctl.planfile.cluster_fields import Kubernetes, Slurm
from migctl.planfile.compose_fields import Arguments, EnvFiles, Environment, Hosts, Labels, Ports, Ulimits
from migctl.planfile.gpu_fields import Cores, Cpus, Gpus, Instance, Natural, Positive, Profile, Workers
from migctl.planfile.image_field import Image
from migctl.planfile.mount_fields import Tmpfs, Volumes
from migctl.planfile.mps_field import Mps
from migctl.planfile.notify_field import Told
from migctl.planfile.plain_fields import (
    Flag,
    MemoryLimit,
    Seconds,
    Size,
    SizeMib,
    Text,
    Texts,
    Word,
    Words,
    anything,
    choice,
)
from migctl.planfile.turn_fields import Endings, Needs, PerInstance, Priority, Retries, Span


def _one_of(*words: str) -> tuple[PlainValidator, WithJsonSchema]:
    return PlainValidator(choice(*words)), WithJsonSchema({"type": "string", "enum": list(words)})


Strategy = Annotated[str, *_one_of("mig", "shared", "sequential")]
Runtime = Annotated[str, *_one_of("docker", "process")]
Engine = Annotated[str, *_one_of("local", "slurm", "kubernetes")]
CpuShare = Annotated[str, *_one_of("fair", "all")]
CpuSplit = Annotated[str, *_one_of("slices", "equal")]
Numa = Annotated[str, *_one_of("prefer", "strict")]
Finish = Annotated[str, *_one_of("keep", "down")]
Reboot = Annotated[str, *_one_of("hold", "resume")]
Storage = Annotated[str, *_one_of("nvme", "ssd", "hdd", "auto")]
PullPolicy = Annotated[str, *_one_of("missing", "always", "never", "if_not_present")]

Matrix = Annotated[
    object,
    PlainValidator(anything),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {
                "type": "array",
                "minItems": 1,
                "items": {"type": ["string", "number", "boolean"]},
            },
        }
    ),
]

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class PlanModel(BaseModel):
    """A run: several jobs on one machine's GPUs."""

    model_config = _STRICT

    name: Text | None = Field(
        None,
        description="Name of the run; the file's stem, or the folder's name for plan.yaml and migctl.yaml.",
    )
    gpu: Gpus | None = Field(
        None,
        description="Index, UUID, PCI id, {model: A100}, a list of these, or all; needed where several GPUs would do.",
    )
    strategy: Strategy | None = Field(
        None, description="mig, shared or sequential; by default mig where the GPU can, else shared."
    )
    runtime: Runtime | None = Field(None, description="docker (default; podman behind the same socket too) or process.")
    engine: Engine | None = Field(None, description="local (default), slurm or kubernetes.")
    slurm: Slurm | None = Field(
        None, description="Settings of Slurm: partition, account, the site's GRES types, how containers are run …."
    )
    kubernetes: Kubernetes | None = Field(
        None, description="Settings of Kubernetes: namespace, mig_strategy, a queue of Kueue …."
    )
    enable_mig: Flag | None = Field(None, description="Whether MIG mode may be switched on (false).")
    reserve_cores: Natural | None = Field(
        None, description="Physical cores kept for the system; by default 1 for a single job, else 0."
    )
    cpu_share: CpuShare | None = Field(
        None,
        description="fair (default): the part of the cores that goes with the plan's part of the GPUs; all: every core.",
    )
    cpu_split: CpuSplit | None = Field(
        None, description="slices (default): cores by compute slices; equal: the same number for each job."
    )
    numa: Numa | None = Field(
        None, description="prefer (default): near the GPU first; strict: only its NUMA node, memory too."
    )
    oversubscribe: Flag | None = Field(None, description="Whether more jobs than logical CPUs may run at once (false).")
    allow_overlap: Texts | None = Field(None, description="Containers whose CPUs may be shared.")
    threads_per_core: Positive | None = Field(
        None, description="Hardware threads of a core, where a virtual machine hides them."
    )
    max_parallel: Positive | None = Field(None, description="Jobs that run at the same time at most.")
    fail_fast: Flag | None = Field(
        None, description="Whether the first failure lets nothing more start and ends what runs (false)."
    )
    stagger: Seconds | None = Field(None, description="Pause between two starts (0s).")
    on_finish: Finish | None = Field(
        None, description="keep (default) or down: what becomes of ended jobs when the run has ended."
    )
    on_reboot: Reboot | None = Field(
        None, description="hold (default) or resume: what becomes of the run when the machine starts again."
    )
    notify: Told | None = Field(
        None,
        description="Whom to tell when jobs and the run end: a command, which gets JSON, {url: https://…}, or a list of these.",
    )


class JobModel(BaseModel):
    """A training: what it runs and what it gets."""

    model_config = _STRICT

    profile: Profile | None = Field(
        None, description="GPU instance profile, e.g. 2g.10gb; `migctl profiles` lists them."
    )
    memory: SizeMib | None = Field(None, description="The smallest profile with this much GPU memory.")
    slices: Positive | None = Field(None, description="A profile with exactly this many compute slices.")
    instance: Instance | None = Field(
        None, description="UUID of a MIG device that an administrator made; never destroyed."
    )
    gpu: Gpus | None = Field(None, description="As the plan's gpu, for this job.")
    cpus: Cores | None = Field(None, description="A number of physical cores.")
    cpuset: Cpus | None = Field(None, description="Logical CPUs: 0-3,8, a list or a number.")
    num_workers: Workers | None = Field(None, description="auto (default), or a number of loader workers.")
    batch_size: Positive | None = Field(
        None, description="Batch size at batch_size_memory; scaled to the instance and handed over."
    )
    batch_size_memory: SizeMib | None = Field(None, description="GPU memory at which batch_size fits.")
    batch_fixed_memory: SizeMib | None = Field(None, description="GPU memory that does not grow with the batch (1.5g).")
    storage: Storage | None = Field(
        None, description="What the data lie on: nvme (more workers), ssd, hdd (fewer), auto."
    )
    matrix: Matrix = Field(None, description="Lists of values; one job for each combination, used as ${matrix.key}.")
    replicas: Positive | None = Field(None, description="Number of equal jobs (1).")
    needs: Needs | None = Field(
        None, description="Jobs that must have succeeded before; a name under jobs means all that it expands to."
    )
    stage: Natural | None = Field(None, description="All jobs of a stage end before the next stage begins.")
    priority: Priority | None = Field(None, description="Higher ones start first, negative ones last (0).")
    retries: Retries | None = Field(None, description="Further attempts after one that ended as retry_on says (0).")
    retry_on: Endings | None = Field(
        None, description="Ends after which to try again: failed, oom, lost, timeout ([failed, lost])."
    )
    timeout: Span | None = Field(None, description="Longest time that one attempt may run.")
    expect: Span | None = Field(None, description="How long the job is expected to run, for the queue's forecast.")
    resumable: Flag | None = Field(
        None,
        description="Whether the job continues from its own checkpoint, and so is run again after a restart (false).",
    )
    snapshot: Flag | None = Field(None, description="Whether the job runs a copy of its source, taken at up (false).")
    mps: Mps = Field(
        None,
        description="Share the GPU or instance through MPS: true, or limits as {active_threads: 30, memory: 4g} (false).",
    )
    per_instance: PerInstance | None = Field(None, description="Jobs of one size that share a GPU instance (1).")
    image: Image | None = Field(None, description="Image of the container.")
    pull_policy: PullPolicy | None = Field(None, description="missing (default), always or never.")
    command: Arguments | None = Field(
        None, description="List of arguments, or a string that is split as a shell would, without a shell."
    )
    entrypoint: Arguments | None = Field(None, description="Replaces the image's entry point.")
    environment: Environment | None = Field(
        None, description="Variables; values keep their spelling, an empty one is the caller's."
    )
    env_file: EnvFiles | None = Field(None, description="Files of NAME=value lines, relative to the plan.")
    volumes: Volumes | None = Field(
        None,
        description="source:target[:ro]; a host path must exist, relative ones start at the plan's folder.",
    )
    ports: Ports | None = Field(None, description="[[ip:]host:]container[/protocol].")
    network_mode: Text | None = Field(None, description="bridge, host, none or a network's name.")
    shm_size: Size | None = Field(
        None, description="Size of /dev/shm; by default 1 GiB for each worker and the main process."
    )
    tmpfs: Tmpfs | None = Field(None, description="Paths in memory: /run or /run:size=64m.")
    working_dir: Text | None = Field(None, description="Folder in which the command runs.")
    group_add: Words | None = Field(None, description="Further groups of the user.")
    ulimits: Ulimits | None = Field(None, description="Limits: {nofile: 65536, memlock: {soft: -1, hard: -1}}.")
    labels: Labels | None = Field(None, description="Labels of the container.")
    extra_hosts: Hosts | None = Field(None, description="name:address lines of /etc/hosts.")
    cap_add: Texts | None = Field(None, description="Further kernel capabilities.")
    security_opt: Texts | None = Field(None, description="Security options of the engine.")
    ipc: Text | None = Field(None, description="IPC namespace: private, shareable, host.")
    stop_grace_period: Seconds | None = Field(None, description="Time between SIGTERM and SIGKILL (60s).")
    mem_limit: MemoryLimit | None = Field(
        None, description="Limit of the memory; auto: of RAM the part that the job has of the CPUs."
    )
    user: Word | None = Field(
        None, description="uid[:gid] or a name; by default the caller's, `image` for the image's own."
    )


PLAN_KEYS = (*PlanModel.model_fields, "defaults", "jobs")
JOB_KEYS = tuple(JobModel.model_fields)
