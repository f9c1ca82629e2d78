"""Values that the golden texts are drawn from: boards, allocations, runs; all made up, all deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from migctl.core.allocation import Allocation, Assignment, CpuGrant, Idle
from migctl.core.choices import Strategy
from migctl.core.cpu.corecells import cores_view
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import make_pool
from migctl.core.cpu.topology import Core, Topology, uniform_topology
from migctl.core.gpu.mig import (
    ComputeInstance,
    ComputeSlices,
    Gpu,
    Instance,
    MemorySlices,
    MigMode,
    Placement,
    Profile,
)
from migctl.core.machine import Machine
from migctl.core.pictures import gpu_pictures, pool_view
from migctl.core.plan import Job
from migctl.core.runs.record import JobState
from migctl.core.views.cores import CoreMark, CoresView
from migctl.core.views.findings import Finding, Level
from migctl.core.views.plan import ConflictView, Contender, PlanView, Way
from migctl.core.views.status import GpuView, InstanceView, JobView, RunView, StatusView
from migctl.errors import Busy, DoesNotFit, MigctlError, Notice
from migctl.render.console import Style

PLAIN = Style(tty=False, color=False, unicode=True, width=80)
NOW = 1_700_010_000.0


def profile(
    name: str,
    id: int,  # noqa: A002
    compute: int,
    memory_mib: int,
    sms: int,
    most: int,
    starts: Sequence[int],
    size: int,
) -> Profile:
    return Profile(
        name=name,
        index=0,
        id=id,
        compute_slices=ComputeSlices(compute),
        memory_mib=memory_mib,
        multiprocessors=sms,
        max_instances=most,
        placements=tuple(Placement(start, MemorySlices(size)) for start in starts),
    )


A100 = (
    profile("1g.5gb", 19, 1, 4864, 14, 7, range(7), 1),
    profile("1g.5gb+me", 20, 1, 4864, 14, 1, range(7), 1),
    profile("1g.10gb", 15, 1, 9856, 14, 4, (0, 2, 4, 6), 2),
    profile("2g.10gb", 14, 2, 9856, 28, 3, (0, 2, 4), 2),
    profile("3g.20gb", 9, 3, 19968, 42, 2, (0, 4), 4),
    profile("4g.20gb", 5, 4, 19968, 56, 1, (0,), 4),
    profile("7g.40gb", 0, 7, 40192, 98, 1, (0,), 8),
)
A30 = (
    profile("1g.6gb", 14, 1, 5952, 14, 4, range(4), 1),
    profile("2g.12gb", 5, 2, 11968, 28, 2, (0, 2), 2),
    profile("4g.24gb", 0, 4, 24000, 56, 1, (0,), 4),
)
RTX_PRO_6000 = (
    profile("1g.24gb", 14, 1, 24192, 46, 4, (0, 3, 6, 9), 3),
    profile("1g.24gb+me.all", 65, 1, 24192, 46, 1, (0, 3, 6, 9), 3),
    profile("2g.48gb", 5, 2, 48512, 94, 2, (0, 6), 6),
    profile("4g.96gb", 0, 4, 97408, 188, 1, (0,), 12),
)
ON = MigMode(current=True, pending=True)


def gpu(
    name: str = "NVIDIA A100-SXM4-40GB",
    profiles: tuple[Profile, ...] = A100,
    *,
    index: int = 0,
    memory_mib: int = 40960,
    mig: MigMode | None = ON,
    instances: tuple[Instance, ...] = (),
) -> Gpu:
    return Gpu(
        index=index,
        uuid=f"GPU-{index:08d}-0000-0000-0000-000000000000",
        name=name,
        pci_bus_id=f"0000:{index + 16:02x}:00.0",
        memory_mib=memory_mib,
        mig=mig,
        profiles=profiles,
        instances=instances,
    )


def instance(on: Gpu, gi_id: int, name: str, start: int, *, usable: bool = True) -> Instance:
    wanted = next(p for p in on.profiles if p.name == name)
    compute = (ComputeInstance(0, f"MIG-{gi_id:08d}-1111-1111-1111-111111111111"),) if usable else ()
    return Instance(on.uuid, gi_id, wanted.id, name, Placement(start, wanted.memory_slices), compute)


def assignment(
    job: str,
    on: Gpu,
    name: str | None,
    start: int,
    cpus: CpuSet,
    cores: int,
    *,
    origin: str = "",
    batch: int | None = None,
) -> Assignment:
    wanted = next((p for p in on.profiles if p.name == name), None)
    return Assignment(
        job=Job(name=job, origin=origin or job),
        gpu_uuid=on.uuid,
        gpu_name=on.name,
        profile=wanted,
        placement=Placement(start, wanted.memory_slices) if wanted else None,
        memory_mib=wanted.memory_mib if wanted else on.memory_mib,
        cpu=CpuGrant(cpus=cpus, cores=cores, num_workers=cores, threads=1),
        batch_size=batch,
    )


def share(topology: Topology, jobs: int, number: int, each: int) -> CpuSet:
    """The `number`th job's `each` cores."""
    assert (number + 1) * each <= len(topology.cores), jobs
    return CpuSet(cpu for core in topology.cores[number * each : (number + 1) * each] for cpu in core.cpus)


def two_sockets(cores: int = 64, l3: int = 8, nodes: int = 2) -> Topology:
    """SMT, an L3 domain every `l3` cores, siblings at N and N + cores."""
    per_node = cores // nodes
    return Topology(
        cores=tuple(
            Core(core, CpuSet({core, core + cores}), CpuSet(), core // per_node, core // per_node, core // l3 * l3)
            for core in range(cores)
        ),
        nodes_with_memory=frozenset(range(nodes)),
    )


def plan_view(
    assignments: Sequence[Assignment],
    gpus: Sequence[Gpu],
    topology: Topology | None = None,
    *,
    name: str = "lr-sweep",
    strategy: Strategy = Strategy.MIG,
    waiting: tuple[str, ...] = (),
    blocked: MigctlError | None = None,
    could_add: tuple[str, ...] = (),
    owners: dict[tuple[str, int], str] | None = None,
    notices: tuple[Notice, ...] = (),
    simulated: str = "",
) -> PlanView:
    """A view as the engine would fill it, with the idle part counted."""
    topology = topology or uniform_topology(16, 2)
    machine = Machine(gpus=tuple(gpus), topology=topology, affinity=topology.online, owners=owners or {})
    by_id = {(g.uuid, p.id): p for g in gpus for p in g.profiles}
    compute = sum(g.compute_slices for g in gpus) - sum(a.profile.compute_slices for a in assignments if a.profile)
    memory = sum(g.memory_slices for g in gpus) - sum(a.placement.size for a in assignments if a.placement)
    compute -= sum(by_id[g.uuid, i.profile_id].compute_slices for g in gpus for i in g.instances)
    memory -= sum(i.placement.size for g in gpus for i in g.instances)
    used = CpuSet(cpu for a in assignments for cpu in a.cpu.cpus)
    pool = make_pool(topology, affinity=topology.online, engine=None, claimed={}, foreign=())
    allocation = Allocation(
        strategy=strategy,
        pool=pool,
        assignments=tuple(assignments),
        waiting=waiting,
        conflict=waiting,
        blocked=blocked,
        idle=Idle(
            compute_slices=ComputeSlices(compute),
            memory_slices=MemorySlices(memory),
            cores=sum(not core.cpus & used for core in topology.cores),
            could_add=could_add,
        ),
        notices=notices,
    )
    return PlanView(
        name=name,
        allocation=allocation,
        gpus=gpu_pictures(allocation, machine, gpus, name),
        cores=pool_view(topology, pool, {a.job.name: a.cpu.cpus for a in assignments}),
        simulated=simulated,
    )


def seven_small() -> PlanView:
    """Seven 1g.5gb on one A100, two cores each."""
    board, topology = gpu(), uniform_topology(16, 2)
    jobs = [f"sweep-lr{lr}-seed{seed}" for lr in ("0.1", "0.01") for seed in (1, 2, 3)] + ["baseline"]
    return plan_view(
        [
            assignment(job, board, "1g.5gb", n, share(topology, 7, n, 2), 2, origin=job.split("-")[0])
            for n, job in enumerate(jobs)
        ],
        [board],
        topology,
        notices=(
            Notice(
                "main-without-thread",
                "no sibling thread for the main process of baseline: it runs on the cores of its workers",
                hint="`migctl tune` tries one worker less; num_workers sets it",
            ),
        ),
    )


def three_and_four() -> PlanView:
    """4g at 0 and 3g at 4, whatever the order in the file."""
    board, topology = gpu(), uniform_topology(14)
    return plan_view(
        [
            assignment("small", board, "3g.20gb", 4, share(topology, 2, 1, 6), 6, batch=32),
            assignment("large", board, "4g.20gb", 0, share(topology, 2, 0, 6), 6, batch=48),
        ],
        [board],
        topology,
        simulated="sim:a100-40gb",
    )


def beside_strangers() -> PlanView:
    """A stranger's 3g, another run's 1g, a half-made instance, and one job of ours."""
    board = gpu()
    board = replace(
        board,
        instances=(
            instance(board, 2, "3g.20gb", 0),
            instance(board, 11, "1g.5gb", 4),
            instance(board, 12, "1g.5gb", 5, usable=False),
        ),
    )
    topology = uniform_topology(8, 2)
    return plan_view(
        [assignment("train-a", board, "1g.5gb", 6, share(topology, 1, 0, 2), 2)],
        [board],
        topology,
        name="mine",
        owners={(board.uuid, 11): "anna/finetune"},
    )


def eight_gpus(jobs_each: int = 7) -> PlanView:
    """Eight A100, seven jobs each, on 128 cores."""
    topology = two_sockets(128, 8, 2)
    boards = [gpu(index=n) for n in range(8)]
    jobs = [
        assignment(
            f"sweep-{g * jobs_each + n + 1}",
            board,
            "1g.5gb",
            n,
            share(topology, 56, g * jobs_each + n, 2),
            2,
            origin="sweep",
        )
        for g, board in enumerate(boards)
        for n in range(jobs_each)
    ]
    return plan_view(jobs, boards, topology, name="sweep")


def shared_t4() -> PlanView:
    """Three jobs together on a GPU without MIG."""
    board, topology = gpu("Tesla T4", (), memory_mib=15360, mig=None), uniform_topology(6)
    jobs = [
        assignment(name, board, None, 0, share(topology, 3, n, 2), 2)
        for n, name in enumerate(("bert", "resnet", "unet"))
    ]
    ways = (
        Way(name="shared GPU", at_once=3, cores=2, num_workers=2, memory_mib=5120, chosen=True),
        Way(name="one by one", at_once=1, cores=5, num_workers=5, memory_mib=15360, note="one core kept"),
        Way(name="MIG", at_once=0, cores=0, num_workers=0, memory_mib=None, possible=False, note="this GPU has no MIG"),
    )
    view = plan_view(jobs, [board], topology, name="together", strategy=Strategy.SHARED)
    return replace(view, ways=ways)


def fragmented() -> PlanView:
    """1g at 0, 1 and 5: slices enough for a 3g, and no place for it."""
    board = gpu()
    board = replace(board, instances=tuple(instance(board, 7 + start, "1g.5gb", start) for start in (0, 1, 5)))
    blocked = Busy(
        "blocked-by-others",
        "big (3g.20gb) needs 4 memory slices from 0 or from 4; 0:1 and 1:1 and 5:1 are in the way (anna/a, anna/b, not ours)",
        hint="it fits once anna/a and anna/b have ended, or once 5:1 is gone",
    )
    view = plan_view(
        [],
        [board],
        uniform_topology(4),
        name="big",
        waiting=("big",),
        blocked=blocked,
        owners={(board.uuid, 7): "anna/a", (board.uuid, 8): "anna/b"},
        could_add=("1g.5gb", "2g.10gb"),
    )
    return replace(
        view,
        conflict=ConflictView(
            jobs=("big",),
            contenders=(Contender(job="big", profile="3g.20gb", memory_slices=4, compute_slices=3),),
            memory_slices=5,
            compute_slices=4,
        ),
    )


def too_much() -> PlanView:
    """Four 1g.10gb and three 1g.5gb: seven compute slices, eleven memory slices."""
    board, topology = gpu(), uniform_topology(16)
    running = [
        assignment(f"wide-{n + 1}", board, "1g.10gb", 2 * n, share(topology, 4, n, 2), 2, origin="wide")
        for n in range(4)
    ]
    blocked = DoesNotFit(
        "does-not-fit",
        "wide-1 … wide-4 and slim-1 … slim-3 do not fit at once: they need 11 memory slices of 8",
        hint="slim-1, slim-2 and slim-3 start when others have ended",
    )
    contenders = [
        Contender(job=f"wide-{n + 1}", profile="1g.10gb", memory_slices=2, compute_slices=1) for n in range(4)
    ]
    contenders += [
        Contender(job=f"slim-{n + 1}", profile="1g.5gb", memory_slices=1, compute_slices=1) for n in range(3)
    ]
    view = plan_view(running, [board], topology, name="mixed", waiting=("slim-1", "slim-2", "slim-3"), blocked=blocked)
    return replace(
        view,
        conflict=ConflictView(
            jobs=tuple(one.job for one in contenders),
            contenders=tuple(contenders),
            memory_slices=8,
            compute_slices=7,
        ),
        ways=(
            Way(name="shared GPU", at_once=7, cores=2, num_workers=2, memory_mib=5851),
            Way(name="one by one", at_once=1, cores=15, num_workers=15, memory_mib=40192),
            Way(name="MIG", at_once=4, cores=2, num_workers=2, memory_mib=9856, chosen=True, note="3 wait"),
        ),
    )


def four_quarters() -> PlanView:
    """An A30 with one 2g and one 1g, and a job with a Korean name."""
    board, topology = gpu("NVIDIA A30", A30, memory_mib=24576), uniform_topology(4, 2)
    return plan_view(
        [
            assignment("기준선-학습", board, "2g.12gb", 0, share(topology, 2, 0, 2), 2),
            assignment("작은모델", board, "1g.6gb", 2, share(topology, 2, 2, 1), 1),
        ],
        [board],
        topology,
        name="비교-실험",
        could_add=("1g.6gb",),
    )


def twelve_slices() -> PlanView:
    """An RTX PRO 6000: four compute slices on twelve memory slices."""
    board = gpu("NVIDIA RTX PRO 6000 Blackwell Server Edition", RTX_PRO_6000, memory_mib=97887)
    topology = uniform_topology(24, 2)
    return plan_view(
        [
            assignment("media", board, "1g.24gb+me.all", 0, share(topology, 3, 0, 6), 6),
            assignment("small", board, "1g.24gb", 3, share(topology, 3, 1, 6), 6),
            assignment("large", board, "2g.48gb", 6, share(topology, 3, 2, 6), 6),
        ],
        [board],
        topology,
        name="workstation",
    )


def long_queue() -> PlanView:
    """103 jobs on one GPU: seven at once, 96 wait."""
    waiting = tuple(f"sweep-{n}" for n in range(8, 104))
    view = seven_small()
    blocked = DoesNotFit("does-not-fit", "103 jobs need 103 memory slices of 7 usable ones", hint="they wait for room")
    return replace(view, allocation=replace(view.allocation, waiting=waiting, conflict=(), blocked=blocked))


def many_origins() -> PlanView:
    """The longest plan: 16 GPUs with 112 jobs of 112 origins, many notices, and what waits."""
    topology = two_sockets(256, 8, 8)
    boards = [gpu(index=n) for n in range(16)]
    jobs = [
        assignment(f"job-{g * 7 + n + 1}", board, "1g.5gb", n, share(topology, 112, g * 7 + n, 2), 2)
        for g, board in enumerate(boards)
        for n in range(7)
    ]
    notices = tuple(Notice(f"notice-{n}", f"this is the warning number {n}", hint="nothing") for n in range(20))
    return plan_view(
        jobs, boards, topology, name="farm", notices=notices, waiting=tuple(f"later-{n}" for n in range(50))
    )


def hundred_rows() -> StatusView:
    """A run of 103 jobs: running, queued and ended."""
    board = gpu()
    running = [
        job_view(f"sweep-{n + 1}", board, 7 + n, "1g.5gb", n, CpuSet.parse(f"{2 * n}-{2 * n + 1}"), num_workers=2)
        for n in range(7)
    ]
    ended = [
        JobView(
            name=f"sweep-{n}",
            origin="sweep",
            state=JobState.SUCCEEDED,
            exit_code=0,
            started_at=NOW - 9000,
            finished_at=NOW - 8000 + n,
        )
        for n in range(8, 48)
    ]
    failed = [
        JobView(
            name=f"sweep-{n}",
            origin="sweep",
            state=JobState.FAILED,
            exit_code=1,
            reason="exit code 1",
            finished_at=NOW - 60,
        )
        for n in range(48, 50)
    ]
    queued = [JobView(name=f"sweep-{n}", origin="sweep", state=JobState.QUEUED) for n in range(50, 104)]
    run = RunView(
        name="night",
        state="running",
        jobs=(*running, *ended, *failed, *queued),
        runtime="docker",
        created_at=NOW - 90000,
    )
    return StatusView(
        now=NOW,
        runs=(run,),
        gpus=(gpu_view(board, [instance_view(board, 7 + n, "1g.5gb", n, f"night/sweep-{n + 1}") for n in range(7)]),),
        simulated="sim:a100-40gb",
    )


def many_runs() -> StatusView:
    """Nine users' runs at once."""
    runs = tuple(
        RunView(
            name=f"run-{n}",
            state="running",
            owner=f"user{n}",
            jobs=tuple(JobView(name=f"a-{m}", origin="a", state=JobState.RUNNING) for m in range(n + 1)),
            created_at=NOW - 3600 * n,
        )
        for n in range(9)
    )
    return StatusView(now=NOW, runs=runs, gpus=(gpu_view(gpu()),))


def thread_each() -> PlanView:
    """Six cores with SMT and seven jobs: one hardware thread each."""
    board, topology = gpu(), uniform_topology(6, 2)
    threads = [0, 1, 2, 3, 4, 5, 6]
    jobs = [assignment(f"run-{n + 1}", board, "1g.5gb", n, CpuSet({cpu}), 1) for n, cpu in enumerate(threads)]
    return plan_view(jobs, [board], topology, name="cloud")


def marked_cores() -> PlanView:
    """Every mark a core can have, on two nodes."""
    board, topology = gpu(), two_sockets(32, 4, 2)
    view = plan_view(
        [assignment("train", board, "7g.40gb", 0, CpuSet.parse("0-3,32-35"), 4)], [board], topology, name="marks"
    )
    assert view.cores is not None
    marks = {range(4, 6): CoreMark.RESERVED, range(8, 12): CoreMark.REST, range(12, 16): CoreMark.CLAIMED}
    marks |= {range(16, 20): CoreMark.CONTAINER, range(20, 22): CoreMark.ISOLATED, range(28, 32): CoreMark.UNAVAILABLE}
    cells = tuple(
        replace(cell, mark=next((mark for ids, mark in marks.items() if cell.id in ids), cell.mark))
        for cell in view.cores.cells
    )
    return replace(view, cores=CoresView(cells=cells, hidden=True))


def offline() -> PlanView:
    """Planned for another machine, with the steps."""
    view = three_and_four()
    steps = (
        "make GPU instance 4g.20gb at 0:4 on GPU 0 for large",
        "make GPU instance 3g.20gb at 4:4 on GPU 0 for small",
        *(f"start {job} on CPUs {cpus}" for job, cpus in (("large", "0-5"), ("small", "6-11"))),
        *(f"step {n}" for n in range(8)),
    )
    return replace(view, machine="A100-40GB, 14 cores", steps=steps, simulated="")


def two_runs() -> StatusView:
    """Two users' runs on three A100 and one that waits for a reset."""
    boards = [gpu(index=n) for n in range(3)] + [gpu(index=3, mig=MigMode(current=True, pending=False))]
    jobs = (
        job_view("train-1", boards[0], 2, "3g.20gb", 0, CpuSet.parse("0-3")),
        job_view(
            "train-2",
            boards[1],
            1,
            "3g.20gb",
            4,
            CpuSet.parse("4-7"),
            state=JobState.SUCCEEDED,
            exit_code=0,
            finished_at=NOW - 5,
        ),
    )
    other = (
        job_view("tune", boards[0], 1, "3g.20gb", 4, CpuSet.parse("8-11")),
        JobView(
            name="lost-one",
            origin="lost-one",
            state=JobState.LOST,
            reason="the machine was rebooted",
            unknown=(("pid", "rebooted"),),
        ),
    )
    return StatusView(
        now=NOW,
        runs=(
            RunView(name="mine", state="running", jobs=jobs, created_at=NOW - 100, simulated="sim:a100-40gbx4"),
            RunView(name="theirs", state="lost", jobs=other, owner="anna", created_at=NOW - 200000),
        ),
        gpus=(
            gpu_view(
                boards[0],
                [
                    instance_view(boards[0], 2, "3g.20gb", 0, "mine/train-1"),
                    instance_view(boards[0], 1, "3g.20gb", 4, "anna/theirs"),
                ],
            ),
            gpu_view(boards[1], [instance_view(boards[1], 1, "3g.20gb", 4, "mine/train-2")]),
            gpu_view(
                boards[2],
                [
                    instance_view(boards[2], 9, "1g.5gb", 2, "not ours", foreign=True, usable=False),
                    instance_view(boards[2], 3, "2g.10gb", 4, "bob/x"),
                ],
            ),
            gpu_view(boards[3]),
        ),
    )


def nothing_there() -> StatusView:
    """No run, one GPU whose instances only root may list."""
    board = gpu()
    return StatusView(
        now=NOW,
        runs=(),
        gpus=(gpu_view(board, (), instances=None, instances_reason="needs root"),),
        simulated="sim:a100-40gb",
    )


FINDINGS = (
    Finding(id="driver", level=Level.OK, message="NVML answers, driver 550.54.15"),
    Finding(
        id="mig-mode",
        level=Level.FAILURE,
        message="GPU 0: MIG mode is off. Changing it concerns everybody who uses this GPU, so it is done only on request",
        hint="migctl up --enable-mig, or enable_mig: true in the plan",
    ),
    Finding(id="cores", level=Level.WARNING, message="nothing is left for the system", hint="reserve_cores: 1"),
    Finding(id="docker", level=Level.OK, message="docker 20.10.24 at unix:///var/run/docker.sock"),
)


def job_view(name: str, on: Gpu, gi_id: int, profile_name: str, start: int, cpus: CpuSet, **changes: object) -> JobView:
    wanted = next(p for p in on.profiles if p.name == profile_name)
    view = JobView(
        name=name,
        origin=name.split("-")[0],
        state=JobState.RUNNING,
        gpu_uuid=on.uuid,
        gi_id=gi_id,
        ci_id=0,
        mig_uuid=f"MIG-{gi_id:08d}-1111-1111-1111-111111111111",
        profile=profile_name,
        placement=Placement(start, wanted.memory_slices),
        cpus=cpus,
        num_workers=len(cpus) // 2,
        container_id="c0ffee",
        pid=4000 + gi_id,
        started_at=NOW - 8000,
    )
    return replace(view, **changes)  # type: ignore[arg-type]  # a test's own field values


def gpu_view(on: Gpu, seen: Sequence[InstanceView] = (), **changes: object) -> GpuView:
    view = GpuView(
        uuid=on.uuid,
        index=on.index,
        name=on.name,
        memory_mib=on.memory_mib,
        memory_slices=on.memory_slices,
        compute_slices=on.compute_slices,
        mig=on.mig,
        instances=tuple(seen),
    )
    return replace(view, **changes)  # type: ignore[arg-type]  # a test's own field values


def instance_view(
    on: Gpu, gi_id: int, name: str, start: int, owner: str, *, foreign: bool = False, usable: bool = True
) -> InstanceView:
    wanted = next(p for p in on.profiles if p.name == name)
    return InstanceView(
        gi_id=gi_id,
        profile=name,
        placement=Placement(start, wanted.memory_slices),
        compute_slices=wanted.compute_slices,
        mig_uuids=(f"MIG-{gi_id:08d}-1111-1111-1111-111111111111",) if usable else (),
        owner=owner,
        foreign=foreign,
    )


def busy_status() -> StatusView:
    """One run with every kind of job, a stranger, a half-made instance, a pending mode and a silent GPU."""
    board = gpu()
    second = gpu("NVIDIA H100 80GB HBM3", (), index=1, mig=MigMode(current=False, pending=True))
    silent = gpu("NVIDIA A100-SXM4-40GB", (), index=2, mig=None)
    old = gpu("Tesla T4", (), index=3, memory_mib=15360, mig=None)
    jobs = (
        job_view("baseline", board, 5, "2g.10gb", 0, CpuSet.parse("0-3,16-19")),
        job_view("sweep-lr0.1-seed1", board, 9, "1g.5gb", 2, CpuSet.parse("4-5,20-21"), started_at=NOW - 42, attempt=2),
        job_view(
            "sweep-lr0.1-seed2", board, 10, "1g.5gb", 3, CpuSet.parse("6-7,22-23"), state=JobState.FAILED, exit_code=137,
            reason="killed by the kernel: out of memory in the container (limit 16 GiB)", finished_at=NOW - 600,
        ),
        JobView(name="sweep-lr0.01-seed1", origin="sweep", state=JobState.QUEUED),
    )  # fmt: skip
    return StatusView(
        now=NOW,
        runs=(
            RunView(
                name="lr-sweep",
                state="running",
                jobs=jobs,
                plan_path="/home/kim/plan.yaml",
                runtime="docker",
                strategy="mig",
                created_at=NOW - 8100,
            ),
        ),
        gpus=(
            gpu_view(
                board,
                [
                    instance_view(board, 5, "2g.10gb", 0, "lr-sweep/baseline"),
                    instance_view(board, 9, "1g.5gb", 2, "lr-sweep/sweep-lr0.1-seed1"),
                    instance_view(board, 10, "1g.5gb", 3, "lr-sweep/sweep-lr0.1-seed2"),
                    instance_view(board, 13, "1g.5gb", 4, "not ours", foreign=True),
                    instance_view(board, 14, "1g.5gb", 6, "not ours", foreign=True, usable=False),
                ],
            ),
            gpu_view(second),
            gpu_view(silent, mig_reason="does not answer", instances=None, instances_reason="does not answer"),
            gpu_view(old, mig_reason="no MIG"),
        ),
        cores=cores_view(uniform_topology(16, 2), {job.name: job.cpus for job in jobs if job.cpus}),
        drift=(
            "job sweep-lr0.1-seed2: GPU instance 10 is there, its container is gone",
            "GPU 1: MIG mode was on when the run was brought up",
        ),
    )
