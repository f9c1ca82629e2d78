"""What an exporter sees of seven jobs on one GPU, made up and always the same."""

from __future__ import annotations

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import MemorySlices, MigMode, Placement
from migctl.core.runs.record import JobState
from migctl.core.seeing.readings import CpusReading, GpuReading, InstanceReading, JobReading, Reading
from migctl.core.seeing.verdicts import Diagnosis, Kind, Verdict
from migctl.core.views.status import GpuView, InstanceView, JobView, RunView, StatusView
from migctl.errors import Notice

NOW = 1_764_500_000.0
GPU = "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f"


def status(jobs: int = 7, *, held: bool = False) -> StatusView:
    """So many jobs of which the first has failed and the last waits."""
    views = []
    for n in range(jobs):
        state = JobState.FAILED if n == 0 else JobState.QUEUED if n == jobs - 1 else JobState.RUNNING
        views.append(
            JobView(
                name=f"job-{n}",
                state=state,
                exit_code=1 if n == 0 else None,
                gpu_uuid=GPU if state is not JobState.QUEUED else None,
                gi_id=n + 1 if state is not JobState.QUEUED else None,
                mig_uuid=f"MIG-{n}" if state is not JobState.QUEUED else None,
                profile="1g.5gb",
                placement=Placement(n % 7, MemorySlices(1)),
                cpus=CpuSet({2 * n, 2 * n + 1}),
                num_workers=2,
                started_at=NOW - 600 if state is not JobState.QUEUED else None,
                finished_at=NOW - 60 if n == 0 else None,
            )
        )
    run = RunView(
        name="night", state="running", jobs=tuple(views), runtime="docker", strategy="mig", created_at=NOW - 700
    )
    instances = tuple(
        InstanceView(gi_id=n + 1, profile="1g.5gb", placement=Placement(n, MemorySlices(1)), owner=f"night/job-{n}")
        for n in range(min(jobs - 1, 7))
    )
    gpu = GpuView(
        uuid=GPU,
        index=0,
        name="NVIDIA A100-SXM4-40GB",
        memory_slices=8,
        mig=MigMode(current=True, pending=True),
        instances=instances,
    )
    notices = (Notice("run-held", "night is held; nothing more starts", hint="migctl release night"),) if held else ()
    return StatusView(now=NOW, runs=(run,), gpus=(gpu,), drift=("one",), notices=notices)


def reading(jobs: int = 7, *, seconds: float = 1.0) -> Reading:
    """One second of the running ones."""
    found = tuple(_job(n) for n in range(1, jobs - 1))
    instances = tuple(j.instance for j in found if j.instance is not None)
    stranger = InstanceReading(
        at_s=NOW, gpu_uuid=GPU, gi_id=13, profile="1g.5gb", memory_used_mib=10, memory_total_mib=4864
    )
    gpu = GpuReading(
        at_s=NOW,
        uuid=GPU,
        index=0,
        power_w=251.5,
        temperature_c=61,
        sm_clock_mhz=1410,
        throttles=(),
        instances=(*instances, stranger),
    )
    cpus = tuple(range(2 * jobs))
    machine = CpusReading(cpus=cpus, busy=tuple(0.5 for _ in cpus), iowait=tuple(0.0 for _ in cpus))
    return Reading(at_s=NOW, seconds=seconds, jobs=found, cpus=machine, gpus=(gpu,), unknown={})


def diagnosis() -> Diagnosis:
    """The second job waits for data."""
    verdict = Verdict(kind=Kind.CPU_BOUND, title="waits for data: CPU-bound", message="…")
    return Diagnosis(jobs={"night/job-1": (verdict,)}, gpus={GPU: ()})


def _job(n: int) -> JobReading:
    return JobReading(
        run="night",
        job=f"job-{n}",
        cpus=CpuSet({2 * n, 2 * n + 1}),
        cores=2,
        own_cpus=1.5,
        queued_threads=0.25,
        read_mib_s=2.0,
        memory_mib=1024.0,
        threads=40,
        workers=2,
        samples_s=120.0 if n == 1 else None,
        wait_share=0.41 if n == 1 else None,
        instance=InstanceReading(
            at_s=NOW,
            gpu_uuid=GPU,
            gi_id=n + 1,
            mig_uuid=f"MIG-{n}",
            profile="1g.5gb",
            memory_used_mib=4096,
            memory_total_mib=4864,
            pids=(100 + n,),
        ),
        unknown={"throttled_share": "a process has no quota of its own"},
    )
