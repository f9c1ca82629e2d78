"""Plans and their exports without a command line: what the renderers are given in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from migctl import planfile
from migctl.core.allocate import allocate
from migctl.core.cluster.clusterjobs import Node, groups
from migctl.core.cluster.clusterturns import Turn, turns
from migctl.core.cpu.topology import uniform_topology
from migctl.core.keytable import Target, lost
from migctl.core.machine import Machine
from migctl.core.plan import Plan
from migctl.core.queueing.rounds import Rounds, rounds
from migctl.nvml.models import board_gpu, parse_boards
from migctl.render.compose import compose_file
from migctl.render.exported import Exporter
from migctl.render.kubernetes import manifest_text, manifests
from migctl.render.mig_parted import mig_parted_config
from migctl.render.shell import shell_script
from migctl.render.slurm import Script, sbatch_scripts, submission
from migctl.render.withheld import withheld

EXPORTER = Exporter("1000:1000", "ada", "0.0.0")
RICH = Path(__file__).parents[1] / "data" / "exports" / "rich.yaml"


def rich(folder: Path = Path("/srv/sweep"), **keys: Any) -> Plan:
    """The plan with most keys; for a cluster, so that its folders need not be here."""
    return planfile.loads(RICH.read_text("utf-8"), "rich.yaml", folder, {}, engine="slurm", **keys)


def plan(text: str, folder: Path = Path("/srv/sweep"), **keys: Any) -> Plan:
    """A plan for a cluster from text."""
    return planfile.loads(text, "plan.yaml", folder, {}, engine="slurm", **keys)


def machine(boards: str = "a100-40gb", cores: int = 16, threads: int = 1) -> Machine:
    """An idle machine with these boards."""
    gpus = tuple(board_gpu(slot.board, n) for n, slot in enumerate(parse_boards(boards)))
    topology = uniform_topology(cores, threads)
    return Machine(gpus=gpus, topology=topology, affinity=topology.online)


def node(boards: str = "a100-40gb", cores: int = 16, threads: int = 1) -> Node:
    """A node like that machine."""
    return Node(machine(boards, cores, threads).gpus, cores, threads)


def local(wanted: Plan, there: Machine | None = None) -> Rounds:
    """Who runs with whom on an A100 40GB with 16 cores."""
    there = there or machine()
    named = {gpu.uuid: str(gpu.index) for gpu in there.gpus}
    return rounds(wanted, there, allocate(wanted, there), named=named, label="a100-40gb, 16 cores")


def cluster(wanted: Plan, there: Node | None = None) -> tuple[Turn, ...]:
    """The plan's jobs as a cluster takes them."""
    return turns(wanted, groups(wanted, there or node()))


def compose(wanted: Plan) -> str:
    """The Compose file."""
    return compose_file(local(wanted), lost(wanted, Target.COMPOSE), EXPORTER)


def shell(wanted: Plan, there: Machine | None = None) -> str:
    """The shell script."""
    return shell_script(local(wanted, there), lost(wanted, Target.SHELL), EXPORTER)


def mig_parted(wanted: Plan, there: Machine | None = None) -> str:
    """The mig-parted configuration."""
    return mig_parted_config(local(wanted, there), lost(wanted, Target.MIG_PARTED), EXPORTER)


def slurm(wanted: Plan, there: Node | None = None) -> tuple[Script, ...]:
    """The batch scripts."""
    return sbatch_scripts(wanted, cluster(wanted, there), ("plan for Slurm",), hidden=withheld(wanted.jobs))


def slurm_text(wanted: Plan, there: Node | None = None) -> str:
    """The script that submits them."""
    return submission(slurm(wanted, there), ("plan for Slurm",), withheld(wanted.jobs))


def kubernetes(wanted: Plan, there: Node | None = None) -> str:
    """The manifests."""
    return manifest_text(
        manifests(
            wanted, cluster(wanted, there), EXPORTER, product="NVIDIA A100-SXM4-40GB", hidden=withheld(wanted.jobs)
        ),
        (),
    )
