"""The seam to whatever runs a job: the protocol that both runtimes implement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from threading import Event

    from migctl.core.plan import Job
    from migctl.core.runs.adoption import Leftover
    from migctl.core.runs.observed import ForeignContainer, Recorded, Unit
    from migctl.errors import Notice
    from migctl.runtimes.facts import CdiEntry, RuntimeFacts
    from migctl.runtimes.launch import Launch


class Runtime(Protocol):
    """Containers or processes. Every method may raise HostError, Busy or PlanError in migctl's words."""

    kind: str
    """`docker` or `process`."""

    def facts(self) -> RuntimeFacts: ...
    def prepare(
        self,
        jobs: Sequence[Job],
        *,
        simulated: bool,
        on_progress: ProgressReport | None = None,
        cancel: Event | None = None,
    ) -> dict[str, str]:
        """Check everything that can be known before a change: images (pull), GPU access, users, bind sources, names.
        Returns job name → resolved image id (empty for processes). `cancel`, set at any time, ends it at once (Interrupted).
        """
        ...

    def notices(self) -> tuple[Notice, ...]:
        """What `prepare` found that the user should know."""
        ...

    def create(self, launch: Launch) -> str:
        """Make the unit without running the job; returns its handle. For processes: writes launch.json, returns the folder."""
        ...

    def start(self, handle: str) -> Unit:
        """Run it; returns when the main process runs on exactly its CPUs, or has already ended."""
        ...

    def units(self, run: str | None, folders: Sequence[str] = ()) -> list[Unit]:
        """All units of this user's run (or of every run), by labels, or by the attempts' folders for processes."""
        ...

    def leftovers(self) -> list[Leftover]:
        """Everything that carries migctl's labels, of any user and any run; of processes those that live and may be looked into."""
        ...

    def foreign(self, known: Recorded | None = None) -> list[ForeignContainer]:
        """Running units that migctl did not start, and (with `known`) those of this state directory that no record knows any more:
        they hold cores all the same.
        """
        ...

    def stop(self, handle: str, grace_s: float, *, hurry: Event | None = None) -> None:
        """SIGTERM to the main process, wait up to `grace_s`, then SIGKILL to all of it; returns when nothing of it is alive.
        Already ended or gone is fine. `hurry`, set at any time, skips the rest of the grace.
        """
        ...

    def wait(self, handle: str, timeout_s: float | None = None) -> Unit | None:
        """Block (event-driven) until it ended; `None` on timeout."""
        ...

    def save_log(self, handle: str, path: str) -> None:
        """Write the log to `path` so that it survives `remove` (nothing to do for processes)."""
        ...

    def logs(
        self, handle: str, *, follow: bool, tail: int | None, timestamps: bool = False, since: float | None = None
    ) -> Iterator[bytes]: ...
    def remove(self, handle: str) -> None:
        """Remove the ended unit; gone already is fine. Never touches a unit without migctl's labels and the right token."""
        ...

    def leave(self, name: str) -> None:
        """Take away what was written on this machine beside a unit (by `Launch.name`) that is gone; nothing there is fine."""
        ...

    def lost_gpus(self, handles: Sequence[str]) -> dict[str, str]:
        """Handle → why, of those running units that do not reach the GPU any more that they were given; never of processes."""
        ...

    def cdi_entries(self) -> tuple[CdiEntry, ...]:
        """The devices of all CDI specifications that the engine reads; none for processes."""
        ...

    def exec(self, handle: str, command: Sequence[str], *, tty: bool) -> int:
        """Run a command beside the job, attached to this terminal: in its container, or with its CPUs and environment."""
        ...


class ProgressReport(Protocol):
    """Called while images are pulled: what, done bytes, total bytes (0 = unknown)."""

    def __call__(self, what: str, done: int, total: int, /) -> None: ...
