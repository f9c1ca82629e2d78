"""What is wanted: the plan after interpolation and expansion, before anything of the machine is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from migctl.core.choices import CpuShare, CpuSplit, Finish, Numa, Reboot, RetryOn, RuntimeName, Storage, Strategy
from migctl.core.cluster.clusters import EngineName, KubernetesSettings, SlurmSettings
from migctl.core.cpu.cpuset import CpuSet
from migctl.errors import Notice, Where

OF_THE_FILE: Final = {"kept": False}
"""Of a field: it says something of the file that was read, and nothing once that may have changed, so no store keeps it."""


@dataclass(frozen=True, slots=True)
class ByProfile:
    """The profile with exactly this name, by the driver's name."""

    name: str


@dataclass(frozen=True, slots=True)
class ByMemory:
    """Fewest memory slices that hold this much, then most compute slices."""

    memory_mib: int


@dataclass(frozen=True, slots=True)
class BySlices:
    """Exactly this many compute slices, fewest memory slices."""

    compute_slices: int


@dataclass(frozen=True, slots=True)
class ByInstance:
    """A MIG device that an administrator made; used, never destroyed."""

    mig_uuid: str


@dataclass(frozen=True, slots=True)
class Auto:
    """One profile for all auto jobs, the largest with which all run at once."""


SIZES = ("profile", "memory", "slices", "instance")
"""Keys of a job that size its GPU instance; one of them at most."""

GpuRequest = ByProfile | ByMemory | BySlices | ByInstance | Auto


@dataclass(frozen=True, slots=True)
class GpuSelector:
    """One way to name GPUs; exactly one field is set. Several selectors are a union."""

    index: int | None = None
    uuid: str | None = None
    pci: str | None = None
    model: str | None = None
    """Part of the product name, case-insensitive."""
    all: bool = False


@dataclass(frozen=True, slots=True)
class Volume:
    """A mount. `source` is an absolute host path for a bind, a name for a volume, nothing for an anonymous one."""

    target: str
    source: str | None = None
    kind: str = "bind"
    """bind, volume or tmpfs."""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Port:
    """A published port; `host` 0 = any free one."""

    container: int
    host: int
    protocol: str = "tcp"
    host_ip: str = ""


@dataclass(frozen=True, slots=True)
class Ulimit:
    """A resource limit; -1 = unlimited."""

    name: str
    soft: int
    hard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsShare:
    """A job's part of a GPU or instance that it shares through MPS; nothing given = no limit."""

    active_threads_percent: int | None = None
    """CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, 1 to 100."""
    memory_mib: int | None = None
    """CUDA_MPS_PINNED_DEVICE_MEM_LIMIT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Whom to tell; exactly one of `command` and `url` is given."""

    command: tuple[str, ...] = ()
    """Argument list, run without a shell, with the JSON on its standard input."""
    url: str = ""
    """Webhook that gets the JSON by POST."""
    on: tuple[str, ...] = ("job", "run")
    """`job`: the end of each job, `failure`: only of one that did not succeed, `run`: the end of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job after expansion of matrix and replicas.

    Texts may still hold `${MIGCTL_…}`: they are resolved when the job starts. Sizes are bytes unless the name
    says MiB, times seconds.
    """

    name: str
    origin: str
    """The key under `jobs:` that it came from."""
    where: Where | None = field(default=None, metadata=OF_THE_FILE)
    places: tuple[tuple[str, Where], ...] = field(default=(), repr=False, compare=False, metadata=OF_THE_FILE)
    """Where the values stand that may turn out wrong only on the machine."""
    keys: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """The keys that the file gives, here or under defaults; matrix and replicas are unfolded and left out."""
    request: GpuRequest = Auto()
    gpus: tuple[GpuSelector, ...] = ()
    """Empty: the plan's."""
    cpus: int | None = None
    """Physical cores asked for."""
    cpuset: CpuSet | None = None
    """Logical CPUs asked for."""
    num_workers: int | None = None
    """`None` = by the rule."""
    batch_size: int | None = None
    batch_size_memory_mib: int | None = None
    batch_fixed_memory_mib: int = 1536
    storage: Storage | None = None
    memory_mib: int | None = None
    """Declared GPU memory under `shared`, where it sizes nothing."""
    needs: tuple[str, ...] = ()
    """Names of expanded jobs that must have succeeded before this one starts."""
    stage: int | None = None
    """All jobs of a stage end before the next one begins; a job without one is bound to none."""
    priority: int = 0
    """Higher ones start first; equal ones in the plan's order."""
    retries: int = 0
    """Further attempts after one that ended as `retry_on` says."""
    retry_on: tuple[RetryOn, ...] = (RetryOn.FAILED, RetryOn.LOST)
    timeout_s: float | None = None
    """Longest time that one attempt may run."""
    expect_s: float | None = None
    """How long the job is expected to run."""
    resumable: bool = False
    """Whether it continues from its own checkpoint: then it is run again after a restart of engine or machine."""
    snapshot: bool = False
    """Whether it runs a copy of its source, taken at `up`."""
    mps: MpsShare | None = None
    per_instance: int = 1
    """Jobs that share one GPU instance."""
    image: str | None = None
    pull_policy: str = "missing"
    """always, missing or never."""
    command: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    environment: tuple[tuple[str, str], ...] = ()
    """In the file's order, `env_file` values first; later wins is already applied."""
    from_files: tuple[str, ...] = ()
    """Names of the variables that an `env_file` gave: their values are secrets, whatever they are called."""
    volumes: tuple[Volume, ...] = ()
    ports: tuple[Port, ...] = ()
    network_mode: str | None = None
    shm_size_bytes: int | None = None
    tmpfs: tuple[str, ...] = ()
    working_dir: str | None = None
    group_add: tuple[str, ...] = ()
    ulimits: tuple[Ulimit, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    extra_hosts: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    ipc: str | None = None
    stop_grace_period_s: float = 60.0
    mem_limit_bytes: int | None = None
    mem_limit_auto: bool = False
    user: str | None = None
    """`None` = the caller's uid:gid; `image` = the image's own."""

    def place(self, *keys: str) -> Where | str:
        """Where an error about one of these keys points: at the first that is given, else at the job."""
        found = dict(self.places)
        return next((found[key] for key in keys if key in found), self.where or f"job {self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run as wanted."""

    name: str
    path: str
    """Absolute path of the plan file, or nothing for a plan made on the command line."""
    folder: str
    """Absolute folder that relative paths refer to."""
    jobs: tuple[Job, ...]
    gpus: tuple[GpuSelector, ...] = ()
    strategy: Strategy | None = None
    """`None` = auto: mig where the GPU can, else shared."""
    runtime: RuntimeName = RuntimeName.DOCKER
    enable_mig: bool = False
    reserve_cores: int | None = None
    cpu_share: CpuShare = CpuShare.FAIR
    cpu_split: CpuSplit = CpuSplit.SLICES
    numa: Numa = Numa.PREFER
    oversubscribe: bool = False
    allow_overlap: tuple[str, ...] = ()
    threads_per_core: int | None = None
    max_parallel: int | None = None
    fail_fast: bool = False
    """The first failure lets nothing more start, and ends what runs."""
    stagger_s: float = 0.0
    """Pause between two starts."""
    on_finish: Finish = Finish.KEEP
    on_reboot: Reboot = Reboot.HOLD
    notify: tuple[Notify, ...] = ()
    engine: EngineName = EngineName.LOCAL
    slurm: SlurmSettings = SlurmSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    notices: tuple[Notice, ...] = field(default=(), metadata=OF_THE_FILE)
    places: tuple[tuple[str, Where], ...] = field(default=(), repr=False, compare=False, metadata=OF_THE_FILE)
    """As a job's, of the plan's own keys."""
    keys: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """As a job's, of the plan's own keys."""

    def place(self, key: str) -> Where | None:
        """Where an error about this key points, if it stands in a file."""
        return dict(self.places).get(key)
