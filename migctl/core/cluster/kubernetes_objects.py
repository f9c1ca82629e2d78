"""What an API server tells of a run's Jobs and pods, as far as anybody here asks for it; times are Unix seconds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

RUN = "io.migctl/run"
"""Label: the run's name, as far as a label's value can hold it."""
TOKEN = "io.migctl/token"
"""Label: random, of one run: tells its objects from those of every other run of the same name."""
UNIT = "io.migctl/unit"
"""Annotation: the name that the Job was made under; a copy with another name is not ours."""
JOBS = "io.migctl/jobs"
"""Annotation: JSON list of the jobs in it, by index."""
AFTER = "io.migctl/after"
"""Annotation: JSON list of what the Job waits for; see `core.cluster.kubernetes_turns`."""
BEGUN = "io.migctl/begun"
"""Annotation: the Job's turn has come."""
STOPPED = "io.migctl/stopped"
"""Annotation: `all`, or the indexes that `migctl stop` ended, with commas."""
ALL = "all"
CLAIMS = "io.migctl/claims"
"""Annotation: the run has templates of device claims."""
QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of Kueue; as an annotation: the queue of a Job that waits for others first."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the conditions of an object that is true or false."""

    kind: str
    holds: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesJob:
    """A Job."""

    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    indexed: bool = False
    retries: int = 0
    """backoffLimit, or backoffLimitPerIndex."""
    suspended: bool = False
    active: int = 0
    """Pods that are pending or running."""
    failures: int = 0
    completed: Collection[int] = ()
    """Indexes that have succeeded."""
    failed: Collection[int] = ()
    """Indexes that have failed for good."""
    conditions: tuple[Condition, ...] = ()
    finished_at: float | None = None
    leaving: bool = False
    """It is being deleted."""

    def condition(self, *kinds: str) -> Condition | None:
        """The first of these conditions that holds."""
        return next((c for c in self.conditions if c.kind in kinds and c.holds), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The one container of a pod that runs the job."""

    state: str = ""
    """waiting, running, terminated, or nothing where the kubelet has not told yet."""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    started_at: float | None = None
    finished_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of a Job: one attempt of one job."""

    name: str
    uid: str
    owner_uid: str = ""
    """Of its Job."""
    labels: Mapping[str, str] = field(default_factory=dict)
    index: int | None = None
    failures: int = 0
    """Of the same index before it."""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    node: str = ""
    memory_limit: str = ""
    conditions: tuple[Condition, ...] = ()
    container: Container = Container()
    created_at: float | None = None
    leaving: bool = False

    def condition(self, kind: str) -> Condition | None:
        """The condition of this kind, whether or not it holds."""
        return next((c for c in self.conditions if c.kind == kind), None)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A warning event: why something that was asked for does not come to be."""

    owner_uid: str
    reason: str
    message: str
    at: float | None = None
