"""The simulated machine in one JSON file that processes share; the API that tests and the simulator edit it with."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from migctl.core.gpu.mig import ComputeProfile, Placement
from migctl.errors import HostError
from migctl.nvml import simrules
from migctl.nvml.models import Board, BoardSlot, board_under, gpu_uuid, name_uuid, parse_boards, pci_bus_id
from migctl.nvml.records import MalformedError, record
from migctl.nvml.simdevices import make_devices, move_gpu
from migctl.nvml.simdriver import driver_age
from migctl.nvml.simmodel import Effect, Fault, SimCompute, SimGpu, SimInstance

_VERSION: Final = 1
_CAN: Final = {
    "pretend": ("nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy", "nvmlDeviceSetMigMode"),
    "misplace": ("nvmlDeviceCreateGpuInstanceWithPlacement",),
}
"""The functions that an effect is limited to."""


@dataclass
class SimState:
    """The whole machine."""

    gpus: list[SimGpu]
    version: int = _VERSION
    boots: int = 1
    serial: int = 0
    driver: str = "580.65.06"
    """Its version decides what it can do (`simdriver`)."""
    machine: str = ""
    """What makes the MIG UUIDs of this machine its own: a process of this kernel may have been handed another one's."""
    no_permission: bool = False
    """The caller may read but not change, as without root."""
    profiles_with_mig_off: bool = True
    """Whether profile queries answer while MIG mode is off; drivers differ, and old ones never do."""
    in_use_by_code: bool = False
    """Whether a mode change of a GPU that somebody holds is refused by the call itself (IN_USE as its return code, the mode
    untouched), and not by the activation status of a change that it accepts; nvml.h promises callers neither."""
    minors_move: bool = False
    """Whether a mode change that resets the GPU (Ampere) gives it another minor number, as nvml.h says that it may."""
    handles_reused: bool = False
    """Whether an old handle comes to stand for what was made after it, as nvml.h says that it may; else it is invalid."""
    release_lag_s: float = 0.0
    """How long an instance whose processes have ended stays in use: as none is seen ending, from the first removal tried then."""
    let_go: dict[str, float] = field(default_factory=dict)
    """By serial, when that was (time.monotonic)."""
    delays_s: dict[str, float] = field(default_factory=dict)
    """Seconds that `create`, `destroy` and `set_mode` take."""
    faults: list[Fault] = field(default_factory=list)
    devices: str = ""
    """Folder of the device files (`simdevices`), where the machine has them: whoever opens one holds the GPU or instance."""

    @classmethod
    def of(cls, slots: Sequence[BoardSlot], path: Path) -> SimState:
        """The machine of this file and these boards as it comes; the same for every process that asks."""
        gpus = [
            SimGpu(slot.board.key, gpu_uuid(slot.board.key, i), pci_bus_id(i), slot.mig_on, slot.mig_on, minor=i)
            for i, slot in enumerate(slots)
        ]
        return cls(gpus, machine=str(path.absolute()))

    @classmethod
    def create(cls, path: Path, boards: str) -> SimState:
        """Write the file of a new machine (`a100-40gbx2,t4`)."""
        state = cls.of(parse_boards(boards), path)
        state.save(path)
        return state

    @classmethod
    def load(cls, path: Path) -> SimState:
        """Read the file.

        Raises:
            HostError: it is not there, cannot be read, or is no such file.
        """
        try:
            state = record(cls, json.loads(path.read_bytes()), "state")
            for gpu in state.gpus:
                simrules.check(gpu, state.driver)
            if state.version != _VERSION:
                raise MalformedError(f"its version is {state.version}, not {_VERSION}")
            return state
        except OSError as error:
            raise _unusable(path, f"cannot be read: {error.strerror}") from error
        except (MalformedError, ValueError, RecursionError) as error:
            raise _unusable(path, f"is not the state of a simulated machine: {error}") from error

    def save(self, path: Path) -> None:
        """Replace the file at once; its time is later than the old one's, so that readers see the change."""
        text = json.dumps(vars(self), default=vars)
        draft = path.with_name(path.name + ".new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_text(text, "utf-8")
            except OSError as error:
                draft.unlink(missing_ok=True)
                if error.errno != errno.ENOSPC or not path.exists() or len(text) > path.stat().st_size:
                    raise
                # A GPU needs no disk to lose an instance: what got no larger fits where the old state lies.
                path.write_text(text.ljust(path.stat().st_size), "utf-8")
                return
            before = path.stat().st_mtime_ns if path.exists() else 0
            now = max(time.time_ns(), before + 1)
            os.utime(draft, ns=(now, now))
            draft.replace(path)
        except OSError as error:
            raise _unusable(path, f"cannot be written: {error.strerror}") from error

    @classmethod
    @contextmanager
    def edit(cls, path: Path) -> Iterator[SimState]:
        """Change the file under its lock; an exception leaves it as it was."""
        with locked(path):
            state = cls.load(path)
            yield state
            state.save(path)

    def make_devices(self, folder: Path) -> None:
        """Give the GPUs device files in this folder."""
        make_devices(folder, [gpu.minor for gpu in self.gpus])
        self.devices = str(folder)

    def board(self, gpu: SimGpu) -> Board:
        """What the GPU is under this driver."""
        return board_under(gpu.board, self.driver)

    @property
    def boot_id(self) -> str:
        """Boot id of the simulated machine."""
        return name_uuid(f"migctl/boot/{self.boots}")

    def gpu(self, uuid: str) -> SimGpu | None:
        """The GPU of this UUID."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def next_serial(self) -> int:
        """A number never given before."""
        self.serial += 1
        return self.serial

    def add_compute(self, gpu: SimGpu, instance: SimInstance, profile: ComputeProfile) -> SimCompute:
        """Make a compute instance that fits."""

        def uuid(ci_id: int) -> str:
            if not driver_age(self.driver).short_uuids:
                return f"MIG-{gpu.uuid}/{instance.gi_id}/{ci_id}"
            return simrules.mig_uuid(self.machine, gpu.uuid, instance.gi_id, ci_id)

        return simrules.add_compute(gpu, instance, profile, self.next_serial(), uuid)

    def still_held(self, serial: int, in_use: bool) -> bool:
        """Whether what has this serial cannot be removed now: it is in use, or was a moment ago; notes when it was found unused."""
        if not self.release_lag_s:
            return in_use
        now, free_since = time.monotonic(), self.let_go.get(str(serial))
        if in_use or free_since is None:
            self.let_go[str(serial)] = now
            return True
        if now < free_since + self.release_lag_s:
            return True
        del self.let_go[str(serial)]
        return False

    def change_mode(self, gpu: SimGpu) -> None:
        """The pending mode comes into force; where that takes a reset, the GPU can come back under another minor."""
        gpu.apply_pending()
        if not self.minors_move or self.board(gpu).resetless_mig:
            return
        taken = {other.minor for other in self.gpus}
        old, gpu.minor = gpu.minor, next(n for n in range(len(taken) + 1) if n not in taken)
        if self.devices:
            move_gpu(Path(self.devices), old, [other.minor for other in self.gpus])

    def add_foreign_instance(self, gpu: int, profile: str, start: int, *, compute: bool = True) -> SimInstance:
        """An instance that somebody else made on GPU `gpu`, with or without its compute instance.

        Raises:
            ValueError: it cannot exist there.
        """
        target = self.gpus[gpu]
        board = self.board(target)
        chosen = next(p for p in board.profiles if p.name == profile)
        place = Placement(start, chosen.memory_slices)
        if (code := simrules.refusal(board, target, chosen, place)) is not None:
            raise ValueError(f"{profile} at {place}: {code.name}")
        made = simrules.add_instance(board, target, chosen, place, self.next_serial())
        if compute:
            self.add_compute(target, made, simrules.whole_compute_profile(board, chosen))
        return made

    def reboot(self) -> None:
        """A reboot: instances and processes are gone, Hopper and later lose their mode, pending modes come into force."""
        self.boots += 1
        for gpu in self.gpus:
            if self.board(gpu).resetless_mig:
                gpu.pending = False
            gpu.apply_pending()
            gpu.processes.clear()

    def set_fault(
        self,
        call: str,
        effect: Effect = "error",
        *,
        nth: int = 1,
        times: int = 1,
        code: int = 999,
        after: bool = False,
        gpu: int | None = None,
    ) -> None:
        """Plan a failure; see `Fault`.

        Raises:
            ValueError: the effect is none that this function can have.
        """
        if call not in _CAN.get(effect, (call,)):
            raise ValueError(f"{call} cannot {effect}")
        self.faults.append(Fault(call, effect, nth, times, code, after, gpu))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside the state; other processes and threads wait."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _unusable(path, f"cannot be locked: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class StateFile:
    """The simulator's view of the file: read again only when it changed, created only by the first change."""

    def __init__(self, path: Path, slots: Sequence[BoardSlot]) -> None:
        self.path = path
        self._slots = slots
        self._cached: tuple[tuple[int, int, int] | None, SimState] = (None, SimState.of(slots, path))

    def read(self) -> SimState:
        """The present state, not to be changed; where there is no file, the machine as it comes."""
        signature = self._signature()
        cached = self._cached
        if cached[0] != signature:
            cached = (signature, self._load() if signature else SimState.of(self._slots, self.path))
            self._cached = cached
        return cached[1]

    @contextmanager
    def edit(self) -> Iterator[SimState]:
        """Change the state under its lock; an exception leaves the file as it was."""
        with locked(self.path):
            state = self._load() if self._signature() else SimState.of(self._slots, self.path)
            yield state
            state.save(self.path)
            self._cached = (self._signature(), state)

    def _load(self) -> SimState:
        state = SimState.load(self.path)
        there, wanted = [gpu.board for gpu in state.gpus], [slot.board.key for slot in self._slots]
        if there != wanted:
            raise HostError(
                "simulator-other-boards",
                f"the simulated machine in {self.path} has {', '.join(there)}, not {', '.join(wanted)}",
                where=str(self.path),
                hint=f"--nvml sim:{','.join(there)}, or set MIGCTL_SIM_STATE to another file, or start anew: rm {self.path}",
            )
        return state

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(self.path, f"cannot be read: {error.strerror}") from error
        return found.st_mtime_ns, found.st_size, found.st_ino


def _unusable(path: Path, why: str) -> HostError:
    return HostError(
        "simulator-state",
        f"{path} {why}",
        where=str(path),
        # Never advised of a device or of anything else that is no file of ours.
        hint="set MIGCTL_SIM_STATE to another file" + (f", or remove this one: rm {path}" if path.is_file() else ""),
    )
