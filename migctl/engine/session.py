"""One command's connection to the edges: opened when first needed, closed at its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from migctl.core.choices import RuntimeName
from migctl.core.cpu.cpuset import CpuSet
from migctl.host.caller import Caller, caller
from migctl.host.cpulimits import allowed_cpus
from migctl.host.lock import machine_lock
from migctl.host.paths import Paths, make_private, paths
from migctl.nvml.driver import Driver
from migctl.nvml.open import open_driver
from migctl.runtimes.api import Runtime
from migctl.runtimes.open import open_runtime
from migctl.store.ledger import Ledger

_NEEDED = (
    "migctl.runtimes.containers",
    "migctl.runtimes.container_start",
    "migctl.runtimes.container_config",
    "migctl.runtimes.images",
    "migctl.runtimes.engine_abilities",
    "migctl.store.database",
)


@dataclass(kw_only=True)
class Session:
    """Everything a command needs of the outside world.

    `environ` is the caller's environment; nothing below reads `os.environ` by itself.
    """

    environ: Mapping[str, str]
    nvml: str = ""
    """`sim:…` or nothing for the real library."""
    root: Path = Path("/")
    """Where /sys and /proc topology is read."""
    now: Callable[[], float] = time.time
    moment_s: float = 10.0
    """How long a step tries again by itself: the driver lets go of an ended process within about a second
    (NVIDIA/k8s-dra-driver-gpu)."""
    caller: Caller = field(init=False)
    paths: Paths = field(init=False)
    _runtimes: dict[RuntimeName, Runtime] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.caller = caller(self.environ)
        self.paths = paths(self.environ, self.caller)

    @contextmanager
    def driver(self) -> Iterator[Driver]:
        """NVML, held only inside the block: an open session keeps others from changing the MIG mode."""
        with open_driver(self.nvml, sim_state=self.paths.sim_state) as driver:
            yield driver

    def load(self) -> None:
        """Load what nearly every change needs of the edges, for a moment in which something else is waited for."""
        for name in (*_NEEDED, "migctl.nvml.simulator" if self.simulated else "pynvml"):
            import_module(name)

    @property
    def simulated(self) -> bool:
        """Whether the GPUs are simulated ones."""
        return self.nvml.startswith("sim:")

    def runtime(self, name: RuntimeName) -> Runtime:
        """The runtime of this name, connected once."""
        if name not in self._runtimes:
            self._runtimes[name] = open_runtime(name, environ=self.environ)
        return self._runtimes[name]

    def ledger(self, *, write: bool, removing: bool = False) -> Ledger:
        """The caller's records; reading creates and writes nothing.

        Args:
            removing: nothing new is to be recorded: a full disk is no obstacle.

        Raises:
            HostError: the state directory cannot be used.
        """
        if write:
            make_private(self.paths.state, self.caller)
        return Ledger.open(self.paths.state, write=write, now=self.now, removing=removing)

    def lock(
        self, name: str, *, wait_s: float = 0.0, cancel: threading.Event | None = None
    ) -> AbstractContextManager[None]:
        """Hold a machine-wide lock: `machine` for GPUs and cores; after the lock of a run, never before one.

        Args:
            cancel: set by a signal: ends the waiting.

        Raises:
            Busy: somebody else holds it.
            Interrupted: a signal came while waiting for it.
        """
        return machine_lock(self.paths.run, name, wait_s=wait_s, user=self.caller.name, cancel=cancel)

    def run_lock(
        self, run: str, *, wait_s: float = 0.0, cancel: threading.Event | None = None
    ) -> AbstractContextManager[None]:
        """Hold the lock of one of the caller's runs.

        Raises:
            Busy: another migctl changes this run.
            Interrupted: a signal came while waiting for it.
        """
        return self.lock(f"run-{self.caller.uid}-{run}", wait_s=wait_s, cancel=cancel)

    @property
    def here(self) -> bool:
        """Whether it is this very machine that is planned for; below another root nothing of its engine, claims and jobs counts."""
        return self.root == Path("/")

    def local_affinity(self, online: CpuSet) -> CpuSet:
        """CPUs this process may use; below another root those that its /proc and cgroups leave there."""
        return allowed_cpus(online, self.root)
