"""One measurement of `tune`: the job alone, with what it has among the others, started with so many workers and read."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from migctl.core.allocation import Assignment
from migctl.core.choices import RuntimeName, Strategy
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.topology import Topology
from migctl.core.plan import Auto, ByProfile, GpuSelector, Job, Plan, Volume
from migctl.core.runs.record import JobState, Record
from migctl.core.seeing.samples import FILE_VARIABLE
from migctl.core.seeing.throughput import CpuTimes, Estimate
from migctl.core.words import counted
from migctl.engine import probe
from migctl.engine.converge import converge
from migctl.engine.down import take_down
from migctl.engine.follow import see, split_lines
from migctl.engine.measure import Limits, Reader, Reading
from migctl.engine.session import Session
from migctl.engine.upoptions import UpOptions
from migctl.errors import Interrupted, JobsFailed, MigctlError, PlanError
from migctl.host.cputimes import cpu_times
from migctl.host.proctree import tree_cpu_s

GRACE_S = 10.0
"""Longest grace of a tuning run: what it computed is thrown away."""
_INSIDE = "/migctl-tune"
"""Where a container finds its folder for samples, and the probe."""
_LAST_LINES = 5


def alone(plan: Plan, job: Job, place: Assignment, topology: Topology, strategy: Strategy, run: str) -> Plan:
    """The plan of the job alone, with what it has among the others: these CPUs, this profile, this batch size."""
    own = place.cpu.cpus
    whole = CpuSet(cpu for core in topology.cores if core.cpus & own for cpu in core.cpus) == own
    return replace(
        plan,
        name=run,
        path="",
        jobs=(
            replace(
                job,
                request=ByProfile(place.profile.name) if place.profile is not None else Auto(),
                gpus=(GpuSelector(uuid=place.gpu_uuid),),
                cpus=None if whole else place.cpu.cores,
                cpuset=own if whole else None,
                batch_size=place.batch_size,
                batch_size_memory_mib=None,
                storage=None,
                stop_grace_period_s=min(job.stop_grace_period_s, GRACE_S),
                ports=(),
            ),
        ),
        gpus=(),
        strategy=strategy,
        enable_mig=False,
        max_parallel=None,
        notices=(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """Everything that the measurements of one job have in common."""

    session: Session
    plan: Plan
    folder: Path
    probe: bool
    limits: Limits
    cancel: threading.Event

    def measure(self, count: int, best_so_far: Estimate | None) -> Estimate:
        """Start with so many workers, read, and take down again."""
        file = self.folder / f"samples-{count}"
        file.unlink(missing_ok=True)
        job = self._job(count, file)
        plan = replace(self.plan, jobs=(job,))
        result = converge(self.session, plan, UpOptions(), lambda _: None, self.cancel)
        try:
            record = result.records[job.name]
            reader = Reader(
                runtime=self.session.runtime(plan.runtime),
                handle=record.container_id or "",
                samples=file,
                cpu_times=lambda: _cpu_times(record),
            )
            reading = reader.read(self.limits, best_so_far, self.cancel)
            if self.cancel.is_set():
                raise Interrupted("interrupted", "interrupted; nothing of the tuning is left")
            if reading.ended:
                self._check_end(job, count)
            if reading.estimate is None:
                raise _too_little(job, reading, self.limits)
            return reading.estimate
        finally:
            take_down(self.session, plan.name, grace_s=None, report=lambda _: None, cancel=self.cancel, wait_for_s=5.0)

    def _job(self, count: int, file: Path) -> Job:
        """The job with its number of workers and its way to tell samples."""
        job = replace(self.plan.jobs[0], num_workers=count)
        container = self.plan.runtime is RuntimeName.DOCKER
        if container:
            # The container's user may be another than the caller; the folder above stays the caller's alone.
            self.folder.chmod(0o777)
            job = replace(job, volumes=(*job.volumes, Volume(target=_INSIDE, source=str(self.folder))))
        told = f"{_INSIDE}/{file.name}" if container else str(file)
        job = replace(job, environment=(*job.environment, (FILE_VARIABLE, told)))
        if not self.probe:
            return job
        program = str(Path(probe.__file__).resolve())
        if container:
            job = replace(job, volumes=(*job.volumes, Volume(f"{_INSIDE}.py", program, read_only=True)), entrypoint=())
        words = ("python3", f"{_INSIDE}.py") if container else (sys.executable, program)
        return replace(job, command=(*words, "--workers", "${MIGCTL_NUM_WORKERS}", self._data(job)))

    def _data(self, job: Job) -> str:
        """The folder that the probe reads: what is mounted read-only is data; else the working directory."""
        mounted = [v.target for v in self.plan.jobs[0].volumes if v.kind == "bind"]
        only_read = [v.target for v in self.plan.jobs[0].volumes if v.kind == "bind" and v.read_only]
        return (only_read or mounted or [job.working_dir or self.plan.folder])[0]

    def _check_end(self, job: Job, count: int) -> None:
        """A job that failed has no throughput; one that was done early may have shown enough."""
        with self.session.ledger(write=False) as ledger:
            run = ledger.run(self.plan.name)
        assert run is not None, "it is taken down only after this"
        seen, runtime = see(self.session, run)
        record = seen.records[job.name]
        if record.state is JobState.SUCCEEDED or record.container_id is None:
            return
        log = b"".join(runtime.logs(record.container_id, follow=False, tail=_LAST_LINES))
        last = [line.decode("utf-8", "replace") for line in split_lines(iter([log]))]
        raise JobsFailed(
            "jobs-failed",
            f"{job.name} failed with {counted(count, 'worker')}"
            + (f" (exit code {record.exit_code})" if record.exit_code is not None else ""),
            where=job.where or f"job {job.name}",
            hint="its last lines stand above; the plan's own run is untouched",
            data={"why": [line for line in last if line.strip()], "num_workers": count},
        )


def _cpu_times(record: Record) -> CpuTimes | None:
    """Of the job's CPUs, and what the job took of them."""
    times = cpu_times(record.cpus)
    own = tree_cpu_s(record.pid) if record.pid is not None and record.pid_start is not None else None
    return replace(times, own_s=own) if times is not None else None


def _too_little(job: Job, reading: Reading, limits: Limits) -> MigctlError:
    where = job.where or f"job {job.name}"
    if not reading.reports:
        past = "until it ended" if reading.ended else f"in {limits.start_s:g} s"
        return PlanError(
            "no-samples",
            f"{job.name} told no samples {past}: tune reads lines `migctl: samples=N` on its standard output, or in "
            f"the file that {FILE_VARIABLE} names",
            where=where,
            hint="print such a line after each batch (compose/train/throughput.py), or measure a stand-in: --probe",
        )
    many = counted(reading.reports, "report")
    return PlanError(
        "too-few-samples",
        f"{job.name} made only {many} {'before it ended' if reading.ended else 'in the time'}: its throughput cannot be told",
        where=where,
        hint="let it run longer" if reading.ended else "--seconds with a larger number, or report more often",
    )
