"""What was measured since the reading before: of jobs, logical CPUs, GPUs and their instances.

Units stand in the names; a share is 0 to 1; `…_cpus` counts logical CPUs (1.0 = one of them, all the time); times are Unix
seconds. What could not be measured is `None`, never 0, and `unknown` says why by the field's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pinning import Finding

Unknown = Mapping[str, str]
"""Field → why it is `None`: `{"iowait_share": "the kernel does not account it: sysctl kernel.task_delayacct=1"}`."""


@dataclass(frozen=True, slots=True)
class Stranger:
    """A process outside migctl that works on the job's logical CPUs."""

    pid: int
    command: str
    """Name of the program, as far as it may be seen."""
    used_cpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReading:
    """One running job over the seconds before `Reading.at_s`."""

    run: str
    job: str
    attempt: int = 1
    cpus: CpuSet = CpuSet()
    """Its cpuset."""
    cores: int = 0
    """Physical cores of that."""
    age_s: float | None = None
    """Since its start."""

    # CPU
    own_cpus: float | None = None
    """What the job itself used, all its processes together."""
    busy_cpus: float | None = None
    """At work in its cpuset, for whomever."""
    iowait_cpus: float | None = None
    """Of its cpuset, idle while a task of theirs waited for a block device."""
    loads: tuple[float, ...] = ()
    """Share at work of each logical CPU of `cpus`, ascending."""
    throttled_share: float | None = None
    """Of the time in which a CPU quota held the job."""
    queued_threads: float | None = None
    """On average so many main threads of its processes were ready and had no CPU."""
    main_cpus: float | None = None
    """Of the one process that used most and loads no data: what starts the training may be a shell or an init."""
    busiest_cpus: float | None = None
    """Of the one process that used most."""
    worker_cpus: float | None = None
    """Of its loader processes, together."""
    pressure_cpu_share: float | None = None
    """Part of the time in which some task of the job waited for a CPU (PSI, "some")."""
    pressure_io_share: float | None = None
    pressure_memory_share: float | None = None

    # Disk
    iowait_share: float | None = None
    """Block I/O delay of the main threads of its processes, in seconds a second and process (delay accounting)."""
    blocked_processes: int | None = None
    """In uninterruptible sleep at this moment: nearly always a disk or a network file system."""
    read_mib_s: float | None = None
    write_mib_s: float | None = None
    """To and from block devices."""

    # Size
    memory_mib: float | None = None
    """RAM; of a container what its limit counts, else the sum of its processes' resident sets."""
    memory_limit_mib: float | None = None
    """`None`, and nothing in `unknown`: it has none."""
    oom_kills: int | None = None
    """So often since the job's start the kernel has killed a process of it for lack of memory."""
    processes: int | None = None
    threads: int | None = None
    workers: int | None = None
    """Loader processes that are alive."""
    planned_workers: int | None = None

    # Progress, as the training tells it (`migctl: samples=N wait=S`)
    samples_s: float | None = None
    """Samples a second between its last two reports."""
    wait_share: float | None = None
    """Part of that time in which it waited for data."""
    reported_s: float | None = None
    """Length of that time."""

    slips: tuple[Finding, ...] = ()
    """Where its threads are not where they were pinned."""
    strangers: tuple[Stranger, ...] = ()
    """Who else works on its CPUs, most first; looked for only where `other_cpus` is worth it."""
    instance: InstanceReading | None = None
    """Its GPU instance, from the last reading of the GPU."""
    unknown: Unknown = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`run/job`."""
        return f"{self.run}/{self.job}"

    @property
    def other_cpus(self) -> float | None:
        """Of its cpuset at work for others than the job."""
        if self.busy_cpus is None or self.own_cpus is None:
            return None
        return max(0.0, self.busy_cpus - self.own_cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReading:
    """One GPU instance, or a whole GPU that is not in MIG mode (`gi_id` `None`), at `at_s`."""

    at_s: float
    gpu_uuid: str
    gi_id: int | None = None
    mig_uuid: str | None = None
    profile: str | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    activity_share: float | None = None
    """Part of the time in which its engines worked, of this instance and not of the GPU."""
    activity_source: str = ""
    """`GPM`, `DCGM`, `NVML` (a whole GPU); nothing where it is not known."""
    pids: tuple[int, ...] | None = None
    """Host pids of the processes on it."""
    unknown: Unknown = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at `at_s`; power, temperature and clocks are of the whole GPU, whatever its instances do."""

    at_s: float
    uuid: str
    index: int
    name: str = ""
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    throttles: tuple[str, ...] | None = None
    """What slows its clocks now, in words: `power cap`, `temperature`; empty: nothing."""
    instances: tuple[InstanceReading, ...] = ()
    unknown: Unknown = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpusReading:
    """The machine's online logical CPUs, ascending."""

    cpus: tuple[int, ...] = ()
    busy: tuple[float, ...] = ()
    """Share at work of each."""
    iowait: tuple[float, ...] = ()
    """Share idle for a block device of each."""

    def shares(self) -> dict[int, tuple[float, float]]:
        """Logical CPU → its shares at work and idle for a block device."""
        return dict(zip(self.cpus, zip(self.busy, self.iowait, strict=True), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Everything that was measured at one moment."""

    at_s: float
    seconds: float
    """Since the reading before."""
    jobs: tuple[JobReading, ...] = ()
    cpus: CpusReading | None = None
    gpus: tuple[GpuReading, ...] = ()
    """The last reading of each; they are read less often than the rest."""
    unknown: Unknown = field(default_factory=dict)
    """What of the machine could not be read: `{"gpus": "the driver does not answer"}`."""
