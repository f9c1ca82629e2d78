"""Everything about a machine that planning reads, observed beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.topology import Topology
from migctl.core.gpu.mig import Gpu
from migctl.core.others.holdings import Holdings
from migctl.core.runs.observed import ForeignContainer, ground
from migctl.core.runs.record import Record
from migctl.core.storage import DataDevice
from migctl.errors import MigctlError


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """GPUs, CPUs and what others and this run already hold of them."""

    gpus: tuple[Gpu, ...]
    """All of the machine."""
    topology: Topology
    affinity: CpuSet
    """CPUs that this process may use."""
    engine: CpuSet | None = None
    """CPUs that the container engine may use; `None` = no limit known."""
    quota: Fraction | None = None
    """CPUs' worth of time that jobs may use, by the quotas of the cgroups that they will lie in; `None` = no limit."""
    claimed: Mapping[str, CpuSet] = field(default_factory=dict)
    """CPUs of other runs, by `user/run`."""
    foreign: tuple[ForeignContainer, ...] = ()
    owners: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Who made an instance: (GPU UUID, GI id) → `run/job` or `user/run`; missing = not made by migctl."""
    whole: Mapping[str, str] = field(default_factory=dict)
    """Other runs that hold a whole GPU: GPU UUID → `user/run`."""
    processes: Mapping[int, str] = field(default_factory=dict)
    """Who the processes on the GPUs are, in words, by pid."""
    held: Mapping[str, Record] = field(default_factory=dict)
    """This run's jobs that have a place already (settled records), by job name: their place and CPUs stay."""
    memory_total_mib: int | None = None
    """RAM of the machine."""
    storage: Mapping[str, DataDevice] = field(default_factory=dict, compare=False)
    """Devices behind the data of jobs with `storage: auto`, by job; nobody else can take them, so a second look ignores them."""
    allowed: frozenset[str] | None = None
    """UUIDs of the GPUs that the administrator lets this user have; `None` = all."""
    reserved: CpuSet = CpuSet()
    """CPUs that the administrator keeps for the system."""
    reserved_by: str = ""
    """The rule that says so."""
    holdings: Holdings = field(default_factory=Holdings)
    """What other runs hold, as far as the administrator's rules count it."""

    failures: tuple[MigctlError, ...] = field(default=(), compare=False)
    """Why GPUs of the machine are missing from `gpus`; they count where cores are shared out by GPUs."""

    @property
    def ground(self) -> Machine:
        """What plans stand on, as `Observed.ground`."""
        return replace(self, gpus=ground(self.gpus), processes={})

    @property
    def usable(self) -> tuple[Gpu, ...]:
        """The GPUs that this user may have."""
        return self.gpus if self.allowed is None else tuple(gpu for gpu in self.gpus if gpu.uuid in self.allowed)
