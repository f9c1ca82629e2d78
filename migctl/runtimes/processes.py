"""The process runtime: each job a plain process with its CPUs, watched by a shim of its own that outlives this command."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.observed import ForeignContainer, Recorded, Unit
from migctl.core.runs.record import JobState
from migctl.core.runs.shim import shim_words
from migctl.errors import Busy, HostError, MigctlError, Notice, PlanError, Problems
from migctl.runtimes import proc
from migctl.runtimes.attempt import LOG, Attempt, disk_full
from migctl.runtimes.attempt_records import EXIT, LAUNCH, PID
from migctl.runtimes.bare import Bare
from migctl.runtimes.logfile import ended_within, follow_log, read_log, write_log
from migctl.runtimes.process_stop import stop_bare, stop_process
from migctl.runtimes.program import caller_environment, find_program, home_of, resolve_user, sudo_uid
from migctl.runtimes.readback import Found, cpus_of
from migctl.runtimes.shim_start import REFUSE, read_answer, send_task, started_shim
from migctl.runtimes.strays import CARRIED, carried, living
from migctl.runtimes.stuck import KILL_DEADLINE_S

if TYPE_CHECKING:
    from migctl.core.plan import Job
    from migctl.core.runs.adoption import Leftover
    from migctl.runtimes.api import ProgressReport
    from migctl.runtimes.facts import CdiEntry, RuntimeFacts
    from migctl.runtimes.launch import Launch

_POLL_S = 0.1


class Processes:
    """Jobs as processes of this machine.

    Args:
        environ: the caller's environment; nothing here reads `os.environ`.
    """

    kind: str = "process"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ

    def facts(self) -> RuntimeFacts:
        """Nothing to ask: it is this machine."""
        from migctl.runtimes.facts import RuntimeFacts

        return RuntimeFacts(name="process", endpoint="", cpus=None, gpu_access="CUDA_VISIBLE_DEVICES=<MIG UUID>")

    def prepare(
        self,
        jobs: Sequence[Job],
        *,
        simulated: bool,  # noqa: ARG002 -- the same for both
        on_progress: ProgressReport | None = None,  # noqa: ARG002 -- nothing is pulled
        cancel: threading.Event | None = None,  # noqa: ARG002 -- nothing takes long
    ) -> dict[str, str]:
        """Check that each job's program and user exist.

        Raises:
            PlanError: no command, or no such program.
            HostError: the job's user is another and migctl is not root.
        """
        problems: list[MigctlError] = []
        environ = caller_environment(self.environ)
        found: set[tuple[str, str, str | None]] = set()
        for job in jobs:
            words = (*(job.entrypoint or ()), *(job.command or ()))
            try:
                resolve_user(None if job.user == "image" else job.user, where=job.place("user"))
                if not words:
                    raise PlanError(
                        "no-command",
                        "a process needs a command",
                        where=job.where or f"job {job.name}",
                        hint="add command:",
                    )
                if "${" not in words[0]:
                    search = dict(job.environment).get("PATH", environ.get("PATH", os.defpath))
                    sought = (words[0], search, job.working_dir)
                    if sought not in found:
                        find_program(*sought, where=job.place("entrypoint", "command"))
                        found.add(sought)
            except MigctlError as error:
                problems.append(error)
        if len(problems) > 1:
            raise Problems(problems)
        if problems:
            raise problems[0]
        return {}

    def notices(self) -> tuple[Notice, ...]:
        """None: a process has no image with surprises."""
        return ()

    def create(self, launch: Launch) -> str:
        """Write launch.json, with the program as the caller's PATH has it now; the folder is the handle."""
        environment = dict(launch.environment)
        own = dict(launch.spec.environment)
        user = resolve_user(launch.user, where=f"job {launch.job}")
        seen = caller_environment(self.environ)
        if seen is not self.environ:
            # sudo replaced PATH and the virtual environment's variables: the job gets those of the caller's shell.
            environment |= {k: v for k, v in seen.items() if k not in own and environment.get(k) == self.environ.get(k)}
        if user is not None:
            environment |= {key: value for key, value in home_of(user.uid).items() if key not in own}
        words = (*(launch.entrypoint or ()), *(launch.command or ()))
        if not words:
            raise PlanError("no-command", "a process needs a command", where=f"job {launch.job}", hint="add command:")
        folder = launch.working_dir or "/"
        try:
            program = find_program(words[0], environment.get("PATH", os.defpath), folder, where=f"job {launch.job}")
        except PlanError:
            program = words[0] if "/" in words[0] else f"{folder}/{words[0]}"  # the shim says so in log and exit record
        record = {
            "run": launch.run,
            "job": launch.job,
            "attempt": launch.attempt,
            "token": launch.token,
            "program": program,
            "argv": [program, *words[1:]],
            "environment": environment,
            "working_dir": folder,
            "user": None if user is None else [user.uid, user.gid, list(user.groups)],
            "cpus": str(launch.cpus),
            "device": launch.mig_uuid,
            "labels": dict(launch.labels),
        }
        Attempt(launch.folder).write(LAUNCH, record)
        return launch.folder

    def start(self, handle: str) -> Unit:
        """Run it and read its CPUs back from the kernel before its first instruction.

        Raises:
            Busy: it runs already in another start.
            HostError: never created, or the shim could not begin.
        """
        attempt = Attempt(handle)
        launch = attempt.read(LAUNCH)
        if launch is None:
            raise HostError("no-unit", "the job was never created here", where=handle)
        known = attempt.settled_unit()
        if known is not None and known.state is not JobState.STARTING:
            return known
        lock = attempt.lock()
        try:
            if attempt.read(PID) is not None or attempt.read(EXIT) is not None:
                return self._known(attempt)
            task = {
                "folder": handle,
                "program": launch["program"],
                "argv": launch["argv"],
                "environment": launch["environment"],
                "working_dir": launch["working_dir"],
                "cpus": list(CpuSet.parse(launch["cpus"])),
                "user": launch["user"] and tuple(launch["user"]),
                "boot_id": proc.boot_id(),
            }
            words = shim_words(launch["run"], launch["job"], launch.get("device"))
            with started_shim(lock, words, {CARRIED: carried(launch.get("labels", {}))}) as (go, ready):
                send_task(go, task)
                answer = read_answer(ready)
                if answer != "ready":
                    raise _not_started(answer, handle)
                unit = self._known(attempt)
                cpus = _cpus_of(unit)
                if cpus.ok is False:
                    os.write(go, REFUSE)
        finally:
            os.close(lock)
        if cpus.ok is False:
            self.wait(handle, KILL_DEADLINE_S)
            return replace(self._known(attempt), state=JobState.FAILED, reason=cpus.reason)
        return replace(unit, reason=cpus.told("its CPUs")) if cpus.ok is None else unit

    def _known(self, attempt: Attempt) -> Unit:
        unit = attempt.unit()
        if unit is None:
            raise HostError("no-unit", "the job is gone", where=attempt.folder)
        return unit

    def units(self, run: str | None, folders: Sequence[str] = ()) -> list[Unit]:
        """The units of these folders; other folders are not searched for."""
        found = (Attempt(folder).unit() for folder in folders)
        return [unit for unit in found if unit is not None and run in (None, unit.run)]

    def leftovers(self) -> list[Leftover]:
        """The living jobs of which this user may see what they or their shims carry."""
        return living()

    def foreign(self, known: Recorded | None = None) -> list[ForeignContainer]:  # noqa: ARG002 -- the same for both
        """Without an engine nothing is known of containers."""
        return []

    def stop(self, handle: str, grace_s: float, *, hurry: threading.Event | None = None) -> None:
        """SIGTERM to the main process; after the grace, or at once when `hurry` is set, SIGKILL to all of it.

        Raises:
            Busy: a process does not even die of SIGKILL; pid and wait channel are in the message.
        """
        bare = Bare.of(handle)
        uid = sudo_uid(self.environ)
        if bare is not None:
            stop_bare(bare, grace_s, hurry, uid=uid)
        else:
            stop_process(Attempt(handle), grace_s, hurry, uid=uid)

    def wait(self, handle: str, timeout_s: float | None = None) -> Unit | None:
        """Block until the shim, or where it was killed the main process, has ended."""
        bare = Bare.of(handle)
        if bare is not None:
            return bare.wait(timeout_s)
        attempt = Attempt(handle)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            unit = self._known(attempt)
            if unit.state.ended:
                return unit
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            pidfd = attempt.pidfd()
            if pidfd is None:
                time.sleep(
                    _POLL_S if left is None else min(_POLL_S, left)
                )  # not started yet, or about to be read as ended
                continue
            try:
                ended_within(pidfd, left)
            finally:
                os.close(pidfd)

    def save_log(self, handle: str, path: str) -> None:
        """The log is a file that survives `remove`; copied only where `path` is another one."""
        if Bare.of(handle) is not None:
            return  # it went with the job's other files
        own = Path(handle, LOG)
        if Path(path) == own:
            return
        write_log(path, read_log(str(own), tail=None))

    def logs(
        self,
        handle: str,
        *,
        follow: bool,
        tail: int | None,
        timestamps: bool = False,  # noqa: ARG002 -- the job writes the file itself: no line has a time
        since: float | None = None,
    ) -> Iterator[bytes]:
        """The log's bytes as the job wrote them. There are no times of lines: `since` only tells whether anything is newer."""
        if Bare.of(handle) is not None:
            raise HostError("no-log", "the job's log is gone with its other files", where=handle, hint="migctl status")
        path = Path(handle, LOG)
        if since is not None and path.exists() and path.stat().st_mtime < since:
            tail = 0
        if not follow:
            return read_log(str(path), tail=tail)
        return follow_log(str(path), tail=tail, writer=Attempt(handle).pidfd())

    def remove(self, handle: str) -> None:
        """Forget the ended unit; log and exit record stay in the folder, which is the store's.

        Raises:
            Busy: it still runs.
        """
        bare = Bare.of(handle)
        if bare is not None and bare.alive:
            raise Busy("still-running", f"process {bare.pid} still runs", where=handle, hint="migctl stop")
        attempt = Attempt(handle)
        unit = attempt.unit() if bare is None else None
        if unit is None:
            return
        if attempt.held() or unit.state is JobState.RUNNING:
            raise Busy("still-running", f"{unit.job} still runs (pid {unit.pid})", where=handle, hint="migctl stop")
        attempt.forget()

    def leave(self, name: str) -> None:
        """Nothing of a process lies outside its folder."""

    def lost_gpus(self, handles: Sequence[str]) -> dict[str, str]:  # noqa: ARG002 -- nobody takes a process's GPU away
        """None: its access is its own."""
        return {}

    def cdi_entries(self) -> tuple[CdiEntry, ...]:
        """None: a process needs no engine."""
        return ()

    def exec(self, handle: str, command: Sequence[str], *, tty: bool) -> int:  # noqa: ARG002 -- it has this very terminal
        """Run a command here with the job's CPUs, environment, folder and user; returns its exit code as a shell would."""
        launch = Attempt(handle).read(LAUNCH) if Bare.of(handle) is None else None
        if launch is None:
            raise HostError("no-unit", "what was known of the job's start is not there any more", where=handle)
        environment = {
            **launch["environment"],
            **{k: self.environ[k] for k in ("TERM", "COLORTERM") if k in self.environ},
        }
        program = find_program(
            command[0], environment.get("PATH", os.defpath), launch["working_dir"], where=launch["job"]
        )
        identity = launch["user"]
        before = os.sched_getaffinity(0)
        quiet = threading.current_thread() is threading.main_thread()
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if quiet else None  # Ctrl-C is the command's, not ours
        try:
            os.sched_setaffinity(
                0, CpuSet.parse(launch["cpus"])
            )  # inherited by the child; no code runs between fork and exec
            child = subprocess.Popen(
                [program, *command[1:]],
                env=environment,
                cwd=launch["working_dir"],
                user=identity and identity[0],
                group=identity and identity[1],
                extra_groups=identity and identity[2],
            )
            os.sched_setaffinity(0, before)
            code = child.wait()
        except OSError as error:
            raise HostError("not-started", f"{program}: {error.strerror}", where=launch["job"]) from None
        finally:
            os.sched_setaffinity(0, before)
            if quiet:
                signal.signal(signal.SIGINT, handler)
        return code if code >= 0 else 128 - code


def _not_started(answer: str, handle: str) -> Busy | HostError:
    """What the shim said when it could not begin: an error number and words, or nothing."""
    number, _, words = answer.partition(" ")
    if number.isdecimal() and (full := disk_full(int(number), f"the job could not begin: {words}", handle)) is not None:
        return full
    told = words if number.isdecimal() else answer
    return HostError("not-started", told or "the process that was to watch the job died at its start", where=handle)


def _cpus_of(unit: Unit) -> Found:
    """Whether the waiting job is on its CPUs."""
    return cpus_of(unit.pid, unit.pid_start, unit.cpus) if unit.pid is not None and unit.cpus else Found(True)
