"""What an import asks of the machine and of the boards: today's UUID of an old name, and whether a layout fits anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from migctl.core.allocate import allocate
from migctl.core.cpu.topology import flat
from migctl.core.machine import Machine
from migctl.core.plan import ByProfile, GpuSelector, Job, Plan
from migctl.core.words import counted
from migctl.engine.session import Session
from migctl.errors import DoesNotFit, MigctlError
from migctl.nvml.models import Board, board_gpu, boards, resolve_board

_OLD = re.compile(r"MIG-(?P<gpu>GPU-[0-9a-fA-F-]+)/(?P<gi>\d+)/(?P<ci>\d+)")


def renamed(text: str, session: Session) -> tuple[str, Mapping[str, str]]:
    """A text with today's UUIDs for names of MIG devices from before driver 470, as far as this machine has them.

    Returns:
        The text, and old name → new UUID.
    """
    if not _OLD.search(text):
        return text, {}
    known: dict[tuple[str, int, int], str] = {}
    try:
        with session.driver() as driver:
            for gpu in driver.gpus():
                for instance in gpu.instances:
                    known |= {(gpu.uuid, instance.gi_id, ci.ci_id): ci.mig_uuid for ci in instance.compute_instances}
    except MigctlError:
        return text, {}
    found: dict[str, str] = {}

    def today(match: re.Match[str]) -> str:
        uuid = known.get((match["gpu"], int(match["gi"]), int(match["ci"])))
        if uuid is not None:
            found[match[0]] = uuid
        return uuid or match[0]

    return _OLD.sub(today, text), found


def check_layout(layout: Mapping[int, Sequence[str]], where: str) -> None:
    """Whether the profiles of each GPU fit together on any board that has them; boards that nobody knows are not asked.

    Args:
        layout: GPU → the profiles of its instances.
        where: the file.

    Raises:
        DoesNotFit: there are boards with these profiles, and none holds them all.
    """
    for gpu, profiles in layout.items():
        having = [board for board in map(resolve_board, boards()) if {p.name for p in board.profiles} >= set(profiles)]
        if having and not any(_fits(profiles, board) for board in having):
            board = having[0]
            sizes = {p.name: int(p.memory_slices) for p in board.profiles}
            needed = sum(sizes[name] for name in profiles)
            raise DoesNotFit(
                "never-fits",
                f"{_told(profiles)} do not fit on one GPU: on {board.name} they need {counted(needed, 'memory slice')} of "
                f"{board.memory_slices}, or places that overlap",
                where=f"{where}, GPU {gpu}",
                hint=f"migctl profiles --on {board.key} has the sizes and places",
            )


def _fits(profiles: Sequence[str], board: Board) -> bool:
    gpu = board_gpu(board)
    jobs = tuple(Job(name=f"job-{n}", origin="job", request=ByProfile(name)) for n, name in enumerate(profiles))
    plan = Plan(name="layout", path="", folder="/", jobs=jobs, gpus=(GpuSelector(index=0),))
    topology = flat(len(jobs))
    try:
        return not allocate(plan, Machine(gpus=(gpu,), topology=topology, affinity=topology.online)).waiting
    except MigctlError:
        return False


def _told(profiles: Iterable[str]) -> str:
    numbers: dict[str, int] = {}
    for name in profiles:
        numbers[name] = numbers.get(name, 0) + 1
    return " and ".join(f"{number} × {name}" for name, number in numbers.items())
