"""`profiles`, `workers` and `schema`: what they print."""

from __future__ import annotations

from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.core.choices import Storage
from migctl.core.views.tables import BoardProfiles, WorkersRow
from migctl.errors import Notice


def show_profiles(common: Common, on: str | None) -> None:
    """This machine's profiles, or a board's."""
    from migctl.render.json_tables import profiles_json
    from migctl.render.profiles_text import profiles_text

    session = common.session()
    if on is not None:
        from migctl.nvml.models import board_gpu, parse_boards

        gpus = tuple(board_gpu(slot.board, n) for n, slot in enumerate(parse_boards(on)))
    else:
        with session.driver() as driver:
            gpus = driver.gpus()
    boards = tuple(
        BoardProfiles(
            name=gpu.name,
            profiles=gpu.profiles,
            index=gpu.index if on is None else None,
            uuid=gpu.uuid if on is None else None,
            reason="" if gpu.profiles else _why_none(gpu.mig is None),
        )
        for gpu in gpus
    )
    if common.json:
        write_json(profiles_json(boards, simulated=session.simulated and on is None))
    else:
        write(profiles_text(boards, common.style(), simulated=session.nvml if on is None else ""))


def _why_none(no_mig: bool) -> str:
    return "this GPU has no MIG" if no_mig else "the driver tells them only while MIG mode is on"


def show_workers(
    common: Common, *, cores: int | None, jobs: int | None, storage: Storage | None, markdown: bool = False
) -> None:
    """The guide's rule for this machine or another."""
    from migctl.core.cpu import workers
    from migctl.core.cpu.pool import make_pool
    from migctl.host.cpulimits import cpu_quota
    from migctl.host.sysfs import read_topology
    from migctl.render.json_tables import workers_json
    from migctl.render.workers_text import workers_text

    notices: tuple[Notice, ...] = ()
    if storage is Storage.AUTO:
        storage, notices = _found_storage()
    session = common.session()
    threads = 1
    if cores is None:
        topology = read_topology(session.root)
        pool = make_pool(
            topology,
            affinity=session.local_affinity(topology.online),
            engine=None,
            claimed={},
            foreign=(),
            quota=cpu_quota(session.root),
        )
        cores = len(pool.cores) if pool.most is None else min(len(pool.cores), pool.most)
        threads = max(len(core.cpus) for core in pool.cores)
        notices = (*notices, *pool.notices)
    rows = []
    for count in [jobs] if jobs is not None else [n for n in (1, 2, 4, 7, 8, 16, 32) if n <= cores]:
        share = workers.cores_per_job(cores, count)
        each = workers.num_workers(share, share * threads, storage, smt=threads > 1)
        rows.append(
            WorkersRow(
                cores=cores, jobs=count, num_workers=each, cores_per_job=share, note=workers.remark(cores, count)
            )
        )
    if common.json:
        write_json(workers_json(rows, storage=storage, notices=notices))
    elif markdown:
        from migctl.render.workers_text import workers_markdown

        write(workers_markdown(rows, storage=storage.value if storage else ""))
    else:
        write(workers_text(rows, common.style(), storage=storage.value if storage else "", notices=notices))


def _found_storage() -> tuple[Storage | None, tuple[Notice, ...]]:
    """The kind of device behind the present folder, or the notice that it is not known."""
    from pathlib import Path

    from migctl.host.storage import device_behind

    device = device_behind(str(Path.cwd()))
    if device.kind is not None:
        return device.kind, ()
    message = f"--storage auto changes nothing, as the device behind this folder is not known ({device.what})"
    return None, (Notice("storage-unknown", message, hint="--storage nvme, ssd or hdd"),)


def show_schema(common: Common, *, policy: bool) -> None:
    """The JSON Schema of a plan or of the policy, which is JSON with or without --json."""
    from migctl import planfile
    from migctl.planfile.policy_schema import policy_schema

    del common
    write_json(policy_schema() if policy else planfile.schema())
