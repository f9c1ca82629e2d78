"""What a plan says about the clusters it may run on: the mappings `slurm:` and `kubernetes:`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EngineName(StrEnum):
    """Where jobs run."""

    LOCAL = "local"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"


class SlurmContainer(StrEnum):
    """How a site's Slurm runs a container."""

    PYXIS = "pyxis"
    APPTAINER = "apptainer"
    DOCKER = "docker"
    NONE = "none"
    """Not at all: the command runs on the node as it is."""


class MigStrategy(StrEnum):
    """How the nodes' device plugin names MIG devices (MIG_STRATEGY of k8s-device-plugin)."""

    MIXED = "mixed"
    """By profile: `nvidia.com/mig-1g.10gb`."""
    SINGLE = "single"
    """All as `nvidia.com/gpu`; the product label tells the profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """What Slurm is told beside the jobs; nothing = the site's default."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    gres: tuple[tuple[str, str], ...] = ()
    """The site's GRES type of a profile, where it is not the profile's own name."""
    whole: str = ""
    """The site's GRES type of a whole GPU, where any GPU would not do."""
    container: SlurmContainer | None = None
    """`None`: pyxis for images, none for `runtime: process`."""
    options: tuple[str, ...] = ()
    """Further options of sbatch as they stand, e.g. `--mail-type=END`."""

    def gres_type(self, profile: str) -> str:
        """What the site calls a profile."""
        return dict(self.gres).get(profile, profile)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """What Kubernetes is told beside the jobs; nothing = the cluster's default."""

    namespace: str | None = None
    context: str | None = None
    """Of kubectl; only for what migctl itself sends."""
    mig_strategy: MigStrategy | None = None
    queue: str | None = None
    """A LocalQueue of Kueue."""
    priority_class: str | None = None
    service_account: str | None = None
    runtime_class: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    dra: bool = False
    """Ask for the device by a ResourceClaimTemplate instead of an extended resource."""
