"""The seam to clusters: what every engine but the local one can do with a run's jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

from migctl.core.cluster.clusterrun import ClusterJob, ClusterRun
from migctl.core.cluster.clusters import EngineName

if TYPE_CHECKING:
    from migctl.core.cluster.clusterturns import Turn
    from migctl.core.plan import Plan
    from migctl.engine.session import Session
    from migctl.errors import Notice


class ClusterEngine(Protocol):
    """A cluster that takes jobs, runs them when it has room, and tells of them.

    What is common to all (which jobs are to be handed over, the record on disk, locks, waiting, history, texts) lies above:
    an engine only asks its cluster. Every method raises MigctlError: HostError where the cluster cannot be reached or its
    programs are missing, Busy where it does not answer in time.
    """

    look_s: float
    """Seconds between two looks while somebody waits or follows: often enough for people, seldom enough for the cluster."""

    keeps_order: bool
    """Whether the cluster itself starts what waits for other jobs; else `advance` does."""

    def place(self, plan: Plan) -> str:
        """The cluster that the plan's jobs would go to, for `ClusterRun.place`.

        Methods that get a `ClusterRun` act on the cluster that stands there. An engine whose programs belong to one cluster
        only raises HostError `another-cluster` where that is another one: it would take all jobs for lost.
        """

    def turns(self, plan: Plan) -> tuple[Sequence[Turn], Sequence[Notice]]:
        """The plan's jobs as this cluster takes them, each with its share of a node, in an order in which they can be handed over.

        Raises:
            PlanError, DoesNotFit: the cluster can never run them, or it does not know which device is meant; nothing was changed.
        """

    def submit(
        self, plan: Plan, turns: Sequence[Turn], run: ClusterRun, save: Callable[[ClusterRun], None]
    ) -> ClusterRun:
        """Hand jobs over, all or none, and return the run with the `unit` and `index` of each.

        Args:
            plan: of exactly the jobs to hand over, which `run` has without a unit; needs on other jobs of the run stay in it.
            turns: these jobs, as `turns` gave them.
            run: all jobs of the run; on disk already.
            save: puts a changed run on disk; called after everything that the cluster has taken.

        Raises:
            MigctlError: nothing is left at the cluster of what this call gave it.
            PartlyApplied: something of it could not be taken back.
        """

    def look(self, run: ClusterRun) -> Mapping[str, ClusterJob]:
        """Every job as it is now; one of which the cluster knows nothing and that left no end of its own is lost."""

    def advance(self, run: ClusterRun) -> Sequence[str]:
        """Start jobs that waited for others and need not any more, where the cluster does not keep the order; their names."""

    def logs(
        self,
        run: ClusterRun,
        job: str,
        *,
        follow: bool,
        tail: int | None,
        since: float | None,
        timestamps: bool,
        cancel: threading.Event,
    ) -> Iterator[bytes]:
        """What the job has written, in chunks; with `follow` until it has ended. A job that has not begun has nothing.

        Args:
            tail: only the last so many lines.
            since: only what was written after this time (Unix seconds), where the cluster knows times.
            timestamps: with times, where the cluster knows them.
        """

    def stop(self, run: ClusterRun, jobs: Collection[str], *, grace_s: float | None, cancel: threading.Event) -> None:
        """End these jobs, waiting ones too, and return when they have ended; nothing else of them is removed.

        Args:
            grace_s: seconds between SIGTERM and SIGKILL as far as the cluster lets one say; `None`: each job's own.
            cancel: set by a signal: ends the waiting for their end.
        """

    def remove(self, run: ClusterRun, *, grace_s: float | None, cancel: threading.Event) -> None:
        """End and remove everything that carries the run's token, and nothing else, also what no record knows the unit of.

        Returns when the cluster has none of it any more; what is gone already is fine. Logs that lie with migctl stay.

        Raises:
            PartlyApplied: something is still there.
        """


def cluster_engine(session: Session, name: EngineName, folder: Path) -> ClusterEngine:
    """The engine of this name.

    Args:
        session: for the environment and the caller.
        name: not the local one, which is no cluster.
        folder: for what the cluster's jobs leave behind (logs, ends); in the run's folder, made when something is handed over.
    """
    match name:
        case EngineName.KUBERNETES:
            from migctl.engine.clusters.kubernetes import KubernetesEngine

            return KubernetesEngine(session, folder)
        case EngineName.SLURM:
            from migctl.engine.clusters.slurm import SlurmEngine

            return SlurmEngine(session, folder)
        case EngineName.LOCAL:
            raise ValueError("the local engine is no cluster")
        case _:
            assert_never(name)
