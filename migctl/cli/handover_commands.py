"""The commands that hand a plan over to other tools, and take over what those have: export and import."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import MOST_CORES, Argument, CommandBody, Option
from migctl.core.cluster.clusters import MigStrategy, SlurmContainer


class Format(StrEnum):
    """What a plan is exported as."""

    COMPOSE = "compose"
    SHELL = "shell"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    MIG_PARTED = "mig-parted"


def export(
    common: Common,
    what: Annotated[Format, Argument(metavar="compose|shell|slurm|kubernetes|mig-parted", help="For which tool.")],
    file: Annotated[
        Path | None, Argument(metavar="FILE", help="Plan file; default ./plan.yaml or ./migctl.yaml.")
    ] = None,
    file_option: Annotated[Path | None, Option("--file", "-f", help="The same as FILE.")] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Write there instead of to stdout; slurm: a folder for a file a job."),
    ] = None,
    on: Annotated[
        str | None, Option("--on", metavar="BOARD[xN]", help="For a machine or node with these GPUs: a100-40gbx2.")
    ] = None,
    cores: Annotated[
        int | None, Option("--cores", least=1, most=MOST_CORES, help="For one with so many physical cores.")
    ] = None,
    partition: Annotated[str | None, Option("--partition", help="Slurm: the partition.")] = None,
    gres_type: Annotated[
        list[str] | None,
        Option("--gres-type", metavar="PROFILE=TYPE", help="Slurm: what the site calls a profile; may be repeated."),
    ] = None,
    container: Annotated[SlurmContainer | None, Option("--container", help="Slurm: how it runs containers.")] = None,
    namespace: Annotated[str | None, Option("--namespace", help="Kubernetes: the namespace.")] = None,
    mig_strategy: Annotated[
        MigStrategy | None, Option("--mig-strategy", help="Kubernetes: what the nodes' device plugin was set to.")
    ] = None,
    queue: Annotated[str | None, Option("--queue", help="Kubernetes: a LocalQueue of Kueue.")] = None,
    dra: Annotated[bool, Option("--dra", help="Kubernetes: claim devices by DRA.")] = False,
) -> None:
    """Write a plan for another tool, as text that needs no migctl: Compose, a shell, Slurm, Kubernetes, mig-parted."""
    from migctl.cli.hand_over import Wishes, export_plan
    from migctl.cli.plans import one_of

    wishes = Wishes(
        boards=on,
        cores=cores,
        partition=partition,
        gres_types=tuple(gres_type or ()),
        container=container,
        namespace=namespace,
        mig_strategy=mig_strategy,
        queue=queue,
        dra=dra,
    )
    export_plan(common, what.value, one_of(file, file_option), output, wishes)


def import_(
    common: Common,
    words: Annotated[
        list[str],
        Argument(
            metavar="FILE",
            help="Files; a format before them says what they are where that is not plain: compose, mig-parted, sbatch, "
            "shell, env, kubernetes, nvidia-smi, cdi, docker-sdk.",
        ),
    ],
    output: Annotated[Path | None, Option("--output", "-o", help="Write the plan there instead of to stdout.")] = None,
    config: Annotated[str | None, Option("--config", metavar="NAME", help="mig-parted: which configuration.")] = None,
    gpus: Annotated[
        int, Option("--gpus", least=1, most=64, help="mig-parted: how many GPUs `devices: all` means.")
    ] = 1,
) -> None:
    """Make a plan of what another tool has; what was not understood stands in it as comments."""
    from migctl.cli.take_over import import_files

    import_files(common, words, output, config=config, gpus=gpus)


COMMANDS: Mapping[str, CommandBody] = {"export": export, "import": import_}
