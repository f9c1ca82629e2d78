"""Moments that the pictures of `status --watch` are drawn from; all made up, all deterministic."""

from __future__ import annotations

from dataclasses import replace

from migctl.core.cpu.corecells import cores_view
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.topology import uniform_topology
from migctl.core.runs.record import JobState
from migctl.core.seeing.readings import CpusReading, GpuReading, InstanceReading, JobReading, Reading
from migctl.core.seeing.verdicts import Diagnosis, Kind, Verdict
from migctl.core.views.status import JobView, RunView, StatusView
from migctl.core.views.watch import WatchView
from tests.support.render_values import NOW, gpu, gpu_view, instance_view, job_view, two_sockets

CLOCK = "14:02:11"
NAMES = ("baseline", *(f"sweep-lr{rate}-seed{seed}" for rate in ("0.1", "0.01") for seed in (1, 2, 3)))


def instance_reading(uuid: str, gi_id: int, used_mib: int, active: float | None) -> InstanceReading:
    unknown = {} if active is not None else {"activity_share": "before Hopper without dcgm-exporter"}
    return InstanceReading(
        at_s=NOW,
        gpu_uuid=uuid,
        gi_id=gi_id,
        profile="1g.5gb",
        memory_used_mib=used_mib,
        memory_total_mib=4864,
        activity_share=active,
        activity_source="DCGM" if active is not None else "",
        unknown=unknown,
    )


def seven_watched() -> WatchView:
    """Seven jobs on one A100 and sixteen cores: one waits for its loaders, one is crowded out, one tells nothing; two wait."""
    board = gpu()
    cpus = [CpuSet.parse(f"{2 * n}-{2 * n + 1},{16 + 2 * n}-{17 + 2 * n}") for n in range(7)]
    jobs = tuple(job_view(name, board, 7 + n, "1g.5gb", n, cpus[n], num_workers=2) for n, name in enumerate(NAMES))
    waiting = tuple(
        JobView(name=f"late-{n}", origin="late", state=JobState.QUEUED, reason="waits for a 1g.5gb, all 7 are taken")
        for n in (1, 2)
    )
    failed = JobView(
        name="too-large",
        origin="too-large",
        state=JobState.FAILED,
        exit_code=1,
        reason="out of memory of its GPU instance",
        finished_at=NOW - 600,
    )
    run = RunView(
        name="lr-sweep", state="running", jobs=(*jobs, failed, *waiting), runtime="docker", strategy="mig",
        created_at=NOW - 8100,
    )  # fmt: skip
    status = StatusView(
        now=NOW,
        runs=(run,),
        gpus=(
            gpu_view(
                board,
                [instance_view(board, 7 + n, "1g.5gb", n, f"lr-sweep/{name}") for n, name in enumerate(NAMES)],
            ),
        ),
        cores=cores_view(uniform_topology(16, 2), {f"lr-sweep/{job.name}": job.cpus for job in jobs}),
    )
    own = (1.98, 0.4, 1.2, 0.9, 1.1, 1.3, 0.05)
    readings = tuple(
        JobReading(
            run="lr-sweep",
            job=name,
            cpus=cpus[n],
            cores=2,
            age_s=8000,
            own_cpus=own[n],
            busy_cpus=own[n],
            memory_mib=2300.0 + 310 * n,
            workers=2 if n != 1 else 1,
            read_mib_s=12.5 * n,
            samples_s=912.0 - 97 * n if n != 6 else None,
            wait_share=(0.62, 0.01, 0.02, 0.0, 0.03, 0.31, None)[n],
            instance=instance_reading(board.uuid, 7 + n, 3900 + 130 * n, (0.31, 0.97, 0.95, 0.99, 0.9, 0.5, None)[n]),
            unknown={"wait_share": "the training does not report it (migctl: samples=N wait=SECONDS)"}
            if n == 6
            else {},
        )
        for n, name in enumerate(NAMES)
    )
    busy = {cpu: min(1.0, own[n] / 2) for n, one in enumerate(cpus) for cpu in one}
    others = {14: 0.03, 15: 0.7, 30: 0.0, 31: 0.6}
    loads = {**busy, **others}
    reading = Reading(
        at_s=NOW,
        seconds=2.0,
        jobs=readings,
        cpus=CpusReading(
            cpus=tuple(sorted(loads)), busy=tuple(loads[cpu] for cpu in sorted(loads)), iowait=(0.0,) * len(loads)
        ),
        gpus=(
            GpuReading(
                at_s=NOW,
                uuid=board.uuid,
                index=0,
                power_w=287.4,
                power_limit_w=400.0,
                temperature_c=61,
                sm_clock_mhz=1410,
                sm_clock_max_mhz=1410,
                throttles=(),
            ),
        ),
    )
    verdicts = {
        "baseline": Verdict(
            kind=Kind.CPU_BOUND,
            title="waits for data: CPU-bound",
            message="62% of the time waiting for data, GPU active 31% of it (DCGM): 2.0 of 2 cores at work",
            hint="raise cpus, or lower batch_size; what each sample costs in the loader counts most",
            keys=("cpus", "num_workers", "batch_size"),
        ),
        NAMES[3]: Verdict(
            kind=Kind.GPU_BOUND, title="GPU-bound", message="GPU active 99% of it (DCGM)", hint="as it should be"
        ),
        NAMES[5]: Verdict(
            kind=Kind.OVERSUBSCRIBED,
            title="oversubscribed by a process outside migctl",
            message="others use 1.6 of its 4 logical CPUs: ffmpeg (pid 4711, 1.5 CPUs)",
            hint="end it or pin it elsewhere (taskset -cp CPUS PID); reserve_cores keeps cores free for others",
        ),
        NAMES[6]: Verdict(
            kind=Kind.UNKNOWN, title="bottleneck unknown", message="whether it waits for data cannot be told"
        ),
    }
    return WatchView(
        status=status,
        clock=CLOCK,
        reading=reading,
        diagnosis=Diagnosis(jobs={f"lr-sweep/{name}": (verdict,) for name, verdict in verdicts.items()}),
        past={
            f"lr-sweep/{name}": tuple(min(1.0, own[n] / 2 * (0.5 + (7 * step % 11) / 10)) for step in range(30))
            for n, name in enumerate(NAMES)
        },
    )


def large_machine() -> WatchView:
    """56 jobs on eight A100 and two sockets of 64 cores; nothing is measured yet."""
    topology = two_sockets(128, 8, 2)
    boards = [gpu(index=n) for n in range(8)]
    jobs = tuple(
        job_view(
            f"sweep-{7 * g + n + 1}",
            board,
            7 + n,
            "1g.5gb",
            n,
            CpuSet({14 * g + 2 * n, 14 * g + 2 * n + 1}),
            num_workers=2,
        )
        for g, board in enumerate(boards)
        for n in range(7)
    )
    run = RunView(name="sweep", state="running", jobs=jobs, runtime="process", strategy="mig")
    gpus = tuple(
        gpu_view(board, [instance_view(board, 7 + n, "1g.5gb", n, f"sweep/sweep-{7 * g + n + 1}") for n in range(7)])
        for g, board in enumerate(boards)
    )
    cores = cores_view(topology, {job.name: job.cpus for job in jobs})
    return WatchView(
        status=StatusView(now=NOW, runs=(run,), gpus=gpus, cores=cores, simulated="sim:a100-40gbx8"), clock=CLOCK
    )


def nothing_watched() -> WatchView:
    """No run."""
    view = seven_watched()
    empty = cores_view(uniform_topology(16, 2), {})
    gpus = (gpu_view(gpu()),)
    reading = view.reading
    assert reading is not None
    return replace(
        view,
        status=replace(view.status, runs=(), gpus=gpus, cores=empty),
        reading=replace(reading, jobs=(), gpus=(), unknown={"gpus": "the driver does not answer"}),
        diagnosis=Diagnosis(),
        past={},
    )
