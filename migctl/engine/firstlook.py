"""The look at a machine and a folder for which a first plan is to be written; changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migctl.core.choices import RuntimeName
from migctl.core.cpu.pool import make_pool
from migctl.core.proposing.proposal import Seen
from migctl.core.proposing.trainings import scripts, trainings
from migctl.engine.session import Session
from migctl.errors import HostError, MigctlError
from migctl.host.cpulimits import cpu_quota
from migctl.host.scripts import script_texts
from migctl.host.sysfs import read_topology
from migctl.nvml.models import board_gpu, parse_boards
from migctl.programs import find_program
from migctl.runtimes.images import image_names


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What was seen, and why there is no engine where there is none."""

    seen: Seen
    no_engine: MigctlError | None


def first_look(session: Session, folder: Path, *, on: str | None) -> FirstLook:
    """Look at GPUs, cores, engine, environment and scripts.

    Args:
        on: boards that are only thought of, in place of this machine's GPUs.

    Raises:
        HostError: there is no GPU that a plan could be for.
    """
    if on is not None:
        gpus = tuple(board_gpu(slot.board, n, mig_on=slot.mig_on) for n, slot in enumerate(parse_boards(on)))
    else:
        try:
            with session.driver() as driver:
                gpus = driver.gpus()
        except HostError as error:
            if error.id != "no-driver":
                raise
            gpus = ()
    if not gpus:
        raise HostError(
            "no-gpu",
            "this machine has no GPU that the driver knows, so there is nothing to plan for",
            hint="for another machine: migctl init --on a100-40gb; to learn on a simulated one: migctl init --nvml sim:a100-40gb",
        )
    engine = ""
    images: tuple[str, ...] = ()
    no_engine: MigctlError | None = None
    try:
        facts = session.runtime(RuntimeName.DOCKER).facts()
        if facts.local:
            engine, images = facts.name, image_names(session.environ)
    except MigctlError as error:
        no_engine = error
    environment = session.environ.get("VIRTUAL_ENV") or session.environ.get("CONDA_DEFAULT_ENV", "")
    if environment == "base":
        environment = ""  # Conda's own, which is always active
    texts = script_texts(folder)
    seen = Seen(
        gpus=gpus,
        cores=_cores(session),
        trainings=trainings(texts),
        scripts=scripts(texts),
        engine=engine,
        images=images,
        environment=Path(environment).name if environment else "",
        python="python" if find_program("python", session.environ) else "python3",
        folder=folder.absolute().name,
    )
    return FirstLook(seen, no_engine)


def _cores(session: Session) -> int:
    topology = read_topology(session.root)
    pool = make_pool(
        topology,
        affinity=session.local_affinity(topology.online),
        engine=None,
        claimed={},
        foreign=(),
        quota=cpu_quota(session.root),
    )
    return len(pool.cores) if pool.most is None else min(len(pool.cores), pool.most)
