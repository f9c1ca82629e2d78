"""The simulated GPUs as data: instances, processes and planned failures.

Unlike migctl's other values these are mutable and have a `__dict__`: they mirror a JSON file that simulator and tests edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from migctl.core.others.procstat import parse_stat

Activation = Literal["immediate", "in-use", "reset-required", "not-supported"]
Effect = Literal["error", "die", "hang", "pretend", "misplace"]


@dataclass
class SimCompute:
    """A compute instance; `index` is its MIG device index, which stays while it lives."""

    ci_id: int
    profile_index: int
    slices: int
    index: int
    serial: int
    mig_uuid: str


@dataclass
class SimInstance:
    """A GPU instance; `serial` never repeats, so that an old handle is known as old."""

    gi_id: int
    profile_id: int
    start: int
    size: int
    serial: int
    compute: list[SimCompute] = field(default_factory=list)
    activity: float = 0.0
    """Part of the time in which its engines work: nothing computes here, so it is what the file says."""


@dataclass
class SimProcess:
    """A process said to be on the GPU, or on one instance; it counts only while it lives."""

    pid: int
    gi_id: int | None = None
    used_mib: int = 0

    @property
    def alive(self) -> bool:
        """Whether the process runs: one that has ended and is not collected yet holds nothing any more."""
        try:
            stat = parse_stat(Path("/proc", str(self.pid), "stat").read_text(errors="replace"))
        except OSError:
            return False
        return stat is not None and not stat.ended


@dataclass
class SimGpu:
    """One GPU."""

    board: str
    uuid: str
    pci: str
    """As sysfs writes it."""
    current: bool
    """MIG mode in force."""
    pending: bool
    """MIG mode after a reset."""
    minor: int = 0
    """Of its device file; a mode change can give it another one (`SimState.minors_move`)."""
    held: bool = False
    """A client that is no process in `processes` holds the whole GPU: mode changes stay pending, no GPU instance can be made."""
    activation: Activation = "immediate"
    """What a mode change meets where nothing holds the GPU."""
    lost: bool = False
    """It fell off the bus: every question to it is answered GPU_IS_LOST."""
    power_w: float = 62.0
    power_limit_w: float = 400.0
    temperature_c: int = 34
    sm_clock_mhz: int = 1410
    sm_clock_max_mhz: int = 1410
    throttle_reasons: int = 0
    """nvmlClocksThrottleReason… of this moment."""
    activity: float = 0.0
    """Of the whole GPU while it is not in MIG mode, as `SimInstance.activity`."""
    instances: list[SimInstance] = field(default_factory=list)
    processes: list[SimProcess] = field(default_factory=list)

    def instance(self, gi_id: int) -> SimInstance | None:
        """The instance of this id."""
        return next((instance for instance in self.instances if instance.gi_id == gi_id), None)

    def living(self, gi_id: int | None = None) -> list[SimProcess]:
        """The processes that exist, of one instance or of the whole GPU."""
        return [p for p in self.processes if (gi_id is None or p.gi_id == gi_id) and p.alive]

    def apply_pending(self) -> None:
        """A reset: the pending mode comes into force, all instances are gone."""
        self.current = self.pending
        self.instances.clear()


@dataclass
class Fault:
    """A planned failure of one NVML function.

    It meets the `nth` call from now on and the `times - 1` after it (`times` 0: all after it), counted over all processes, on any
    GPU or only on that of index `gpu`: an error of `code`, death by SIGKILL, or no return at all; before the effect or `after` it
    (then only calls that had one count).
    Two are no failures to the caller: `pretend` reports success and does nothing (removals, mode changes), `misplace` makes a GPU
    instance on another free placement than was asked for.
    """

    call: str
    effect: Effect = "error"
    nth: int = 1
    times: int = 1
    code: int = 999
    after: bool = False
    gpu: int | None = None
    seen: int = 0
    """Calls counted so far."""

    @property
    def due(self) -> bool:
        """Whether the call just counted is one to fail."""
        return self.seen >= self.nth and (self.times == 0 or self.seen < self.nth + self.times)

    @property
    def spent(self) -> bool:
        """Whether it can never be due again."""
        return self.times != 0 and self.seen >= self.nth + self.times - 1
