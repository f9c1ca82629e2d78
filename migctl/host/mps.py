"""An MPS control daemon of one's own for one GPU: started once, found again by its pipe directory, and ended."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from migctl.core.gpu.mps import LOGS, PIPES
from migctl.errors import HostError
from migctl.programs import find_program

PROGRAM: Final = "nvidia-cuda-mps-control"
_SOCKET: Final = "control"
_LONGEST_SOCKET: Final = 108
"""With the byte that ends it (unix(7))."""
_PID: Final = f"{PROGRAM}.pid"
GPU: Final = "gpu"
"""The file in the folder that says which GPU it is for: written before anything is started."""
_ASK_S: Final = 20.0
_QUIT_S: Final = 3.0
_END_S: Final = 10.0
_COMM: Final = 15
"""Characters of a name that the kernel keeps (proc(5), comm)."""


class MpsDaemon:
    """The daemon of one GPU, running or not. Its pipes lie in a folder that is ours alone.

    Args:
        folder: of this GPU and this user.
        gpu_uuid: the one GPU that it serves.
        environ: the caller's.
    """

    def __init__(self, folder: Path, gpu_uuid: str, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.pipes = folder / "pipe"
        self._gpu_uuid = gpu_uuid
        self._environ = environ

    @property
    def pid(self) -> int | None:
        """Of the daemon that lives; its own file says which, and the process that it is one."""
        try:
            found = self.folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.geteuid()):
                return None
            pid = int((self.pipes / _PID).read_text().strip())
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if PROGRAM.startswith(name[:_COMM]) or PROGRAM.encode() in words else None

    def start(self) -> None:
        """Have it run; it may run already.

        Raises:
            HostError: there is no such program, it does not start, or somebody else's folder is in the way.
        """
        if self.pid is not None:
            return
        if len(os.fsencode(self.pipes / _SOCKET)) >= _LONGEST_SOCKET:
            raise HostError(
                "mps-path-too-long",
                f"{self.pipes} is too long for the socket of an MPS control daemon ({_LONGEST_SOCKET} bytes)",
                where=str(self.folder),
                hint="choose a shorter MIGCTL_RUN_DIR",
            )
        self._make_folders()
        with suppress(OSError):
            (self.pipes / _PID).unlink()
        answer = self._control(["-d"], "")
        deadline = time.monotonic() + _ASK_S
        while self.pid is None:
            if answer.returncode or time.monotonic() > deadline:
                said = " ".join((answer.stdout + " " + answer.stderr + _read(self.folder / "log/control.log")).split())[
                    :300
                ]
                self._clear()
                raise HostError(
                    "mps-not-started",
                    f"{PROGRAM} did not start for {self._gpu_uuid}: {said or f'exit code {answer.returncode}'}",
                    where=str(self.folder),
                    hint="journalctl -k | tail; or delete mps from the plan, and the jobs take turns on the GPU",
                )
            time.sleep(0.02)

    def stop(self) -> None:
        """End it with its server; gone already is fine. Only for when none of its clients is left.

        Raises:
            HostError: it is still there.
        """
        pid = self.pid
        if pid is not None:
            with suppress(HostError):
                self._control([], "quit\n")
            if not self._gone_within(_QUIT_S):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
            if not self._gone_within(_END_S):
                raise HostError(
                    "mps-not-stopped",
                    f"the MPS control daemon of {self._gpu_uuid} (pid {pid}) does not end: something still uses its server",
                    where=str(self.folder),
                    hint=f"echo quit -t 1 | CUDA_MPS_PIPE_DIRECTORY={self.pipes} {PROGRAM}",
                )

        self._clear()

    def _clear(self) -> None:
        """Nothing of it is left, if it is ours."""
        with suppress(OSError):
            if self.folder.lstat().st_uid == os.geteuid():
                shutil.rmtree(self.folder)

    def _gone_within(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _control(self, words: list[str], text: str) -> subprocess.CompletedProcess[str]:
        program = find_program(PROGRAM, self._environ)
        if program is None:
            raise no_program()
        kept = {name: value for name, value in self._environ.items() if not name.startswith(("CUDA_", "NVIDIA_"))}
        own = {
            "CUDA_VISIBLE_DEVICES": self._gpu_uuid,
            PIPES: str(self.pipes),
            LOGS: str(self.folder / "log"),
        }
        try:
            return subprocess.run(
                [program, *words],
                env=kept | own,
                input=text,
                capture_output=True,
                text=True,
                timeout=_ASK_S,
                check=False,
                cwd="/",
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HostError("mps-not-started", f"{PROGRAM} cannot be used: {error}", where=str(self.folder)) from error

    def _make_folders(self) -> None:
        """Nobody else's folder and no link is used in a place where everybody may write."""
        try:
            for folder in (self.folder, self.pipes, self.folder / "log"):
                with suppress(FileExistsError):
                    folder.mkdir(mode=0o755)
                found = folder.lstat()
                if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                    raise HostError(
                        "mps-folder-not-ours",
                        f"{folder} is not a folder of uid {os.geteuid()}",
                        where=str(folder),
                        hint=f"ls -ld {folder}; remove it",
                    )
            (self.folder / GPU).write_text(self._gpu_uuid)
        except OSError as error:
            raise HostError("mps-folder", f"{error.filename} cannot be made: {error.strerror}") from error


def no_program() -> HostError:
    """The driver's compute utilities are not installed."""
    return HostError(
        "no-mps",
        f"mps needs {PROGRAM}, which is not on PATH",
        hint="install the driver's compute utilities (nvidia-compute-utils), or delete mps from the plan",
    )


def _read(path: Path) -> str:
    """What the daemon wrote down before it gave up."""
    try:
        return " " + path.read_text("utf-8", "replace")[-500:]
    except OSError:
        return ""
