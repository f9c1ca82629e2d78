"""From a plan, a machine and how far the run has come to what the queue decides on: turns, rooms, free cores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from migctl.core.allocation import WHOLE_GPU_SLICES
from migctl.core.choices import CpuSplit, Numa, Strategy
from migctl.core.cpuset import CpuSet
from migctl.core.layout import hidden_error, mode_error
from migctl.core.machine import Machine
from migctl.core.mig import UNKNOWN_PLACEMENT, Gpu, Instance, Profile
from migctl.core.ownership import NOT_OURS
from migctl.core.plan import Auto, ByInstance, ByMemory, Job, Plan
from migctl.core.pool import Pool
from migctl.core.progress import Progress
from migctl.core.record import JobState, Record
from migctl.core.selection import job_gpus
from migctl.core.situation import Situation
from migctl.core.sizes import auto_candidates, options
from migctl.core.turn import WHOLE_GPU, WHOLE_PLACEMENT, History, Site, Spare, Stay, Turn, Wish, whole_profile
from migctl.core.workers import reserved_cores
from migctl.errors import DoesNotFit, HostError, MigctlError


def situation(
    plan: Plan,
    machine: Machine,
    progress: Progress,
    *,
    gpus: Sequence[Gpu],
    strategy: Strategy,
    pool: Pool,
    now: float,
) -> Situation:
    """What the queue decides on.

    Args:
        plan: all jobs of the run.
        machine: what is there, the instances of the run's own jobs included.
        progress: what became of the run's jobs.
        gpus: those that the plan means.
        strategy: what the plan's automatic choice came to.
        pool: the cores that the run may use, its own jobs' included.
        now: Unix seconds.

    Raises:
        MigctlError: a job can never run there, whatever ends.
    """
    expected = {job.name: job.expect_s for job in plan.jobs if job.expect_s is not None}
    declared = {job.name: job.memory_mib for job in plan.jobs if job.memory_mib is not None}
    stays = {
        name: _stay_of(record, expected.get(name), declared.get(name, 0), now)
        for name, record in progress.records.items()
        if not record.state.ended and record.state is not JobState.QUEUED
    }
    sites = tuple(_site(gpu, machine, progress, strategy, stays) for gpu in _sites(gpus, strategy, plan))
    wishes = _Wishes(plan, machine, sites, strategy, progress.queue.wave, pool)
    turns = tuple(
        Turn(
            name=job.name,
            wish=wishes.of(job),
            priority=job.priority,
            needs=job.needs,
            stage=job.stage,
            expect_s=job.expect_s,
        )
        for job in plan.jobs
    )
    busy = CpuSet(cpu for record in progress.records.values() if not record.state.ended for cpu in record.cpus)
    limited = not plan.oversubscribe and plan.numa is not Numa.STRICT
    return Situation(
        turns=turns,
        states={job.name: progress.state(job.name) for job in plan.jobs},
        sites=sites,
        now=now,
        strategy=strategy,
        max_parallel=plan.max_parallel,
        free_cores={0: _free(pool, busy, threads=wishes.threads)} if limited else None,
        free_cpus=CpuSet(pool.cpus - busy),
        lent=frozenset(
            r.instance.mig_uuid
            for r in progress.records.values()
            if r.instance is not None and r.instance.foreign and r.instance.mig_uuid and not r.state.ended
        ),
        held=progress.queue.held,
        held_words=f"the run is held: {progress.queue.reason}" if progress.queue.reason else "the run is held",
        held_jobs=frozenset(progress.queue.held_jobs),
        not_before=progress.again,
        history=History(
            submitted={entry.job: entry.submitted_at for entry in progress.queue.entries},
            started={n: r.started_at for n, r in progress.records.items() if r.started_at is not None},
            finished={n: r.finished_at for n, r in progress.records.items() if r.finished_at is not None},
        ),
    )


def _free(pool: Pool, busy: Collection[int], *, threads: bool) -> int:
    taken = set(busy)
    if threads:
        return len(pool.cpus - taken)
    return sum(not core.cpus & taken for core in pool.cores)


def _sites(gpus: Sequence[Gpu], strategy: Strategy, plan: Plan) -> tuple[Gpu, ...]:
    """The GPUs on which a job can be started now.

    Raises:
        HostError: none of them; why the first is not.
    """
    found = tuple(gpu for gpu in gpus if _able(gpu, strategy, enabling=plan.enable_mig))
    if found:
        return found
    first = gpus[0]
    if strategy is Strategy.SHARED:
        raise HostError(
            "gpu-in-mig-mode",
            f"GPU {first.index} ({first.name}) is in MIG mode: CUDA sees only its instances there, never the whole GPU",
            where=f"GPU {first.index}",
            hint="strategy: mig or sequential, or another GPU; `migctl status` shows every GPU's mode",
        )
    raise hidden_error(first) if first.instances_reason is not None else mode_error(first)


def _able(gpu: Gpu, strategy: Strategy, *, enabling: bool) -> bool:
    if gpu.mig is None:
        return True
    if strategy is Strategy.SHARED:
        return not (gpu.mig.current or gpu.mig.pending)
    if not gpu.mig.settled or gpu.instances_reason is not None:
        return False
    # One after another a job has the whole GPU, in whichever mode that is.
    return gpu.mig.current or strategy is Strategy.SEQUENTIAL or (enabling and bool(gpu.profiles))


def _sliced(gpu: Gpu, strategy: Strategy) -> bool:
    """Whether jobs get instances there rather than the GPU itself."""
    if gpu.mig is None or strategy is Strategy.SHARED:
        return False
    return gpu.mig.current or strategy is Strategy.MIG


def _site(gpu: Gpu, machine: Machine, progress: Progress, strategy: Strategy, running: Mapping[str, Stay]) -> Site:
    here = {name: r for name, r in progress.records.items() if r.gpu_uuid == gpu.uuid}
    if not _sliced(gpu, strategy):
        own = [running[name] for name in here if name in running]
        return Site(gpu=gpu, stays=tuple(own) or _strangers(gpu, machine))
    owners = {r.instance.gi_id: r for r in here.values() if r.instance is not None and not r.instance.foreign}
    stays: list[Stay] = []
    spares: list[Spare] = []
    for instance in gpu.instances:
        if instance.placement == UNKNOWN_PLACEMENT:
            continue
        record = owners.get(instance.gi_id)
        if record is not None and record.job in running:
            stays.append(running[record.job])
        elif record is not None and record.state.ended and (gpu.uuid, instance.gi_id) not in progress.blocked:
            spares.append(_spare(gpu, instance, record))
        else:
            owner = machine.owners.get((gpu.uuid, instance.gi_id), NOT_OURS)
            stays.append(Stay(placement=instance.placement, profile_id=instance.profile_id, owner=owner))
    there = {stay.placement for stay in stays}
    # Jobs whose instance is about to be made.
    stays += [running[n] for n, r in here.items() if n in running and r.placement and r.placement not in there]
    return Site(gpu=gpu, stays=tuple(stays), spares=tuple(spares))


def _spare(gpu: Gpu, instance: Instance, record: Record) -> Spare:
    computes = instance.compute_instances
    return Spare(
        gpu_uuid=gpu.uuid,
        gi_id=instance.gi_id,
        profile_id=instance.profile_id,
        placement=instance.placement,
        owner=f"{record.run}/{record.job}",
        mig_uuid=computes[0].mig_uuid if len(computes) == 1 else None,
    )


def _stay_of(record: Record, expect_s: float | None, memory_mib: int, now: float) -> Stay:
    sliced = record.placement is not None and record.profile_id is not None
    ends = None
    if expect_s is not None and record.started_at is not None:
        ends = max(now, record.started_at + expect_s)
    stay = Stay(
        placement=WHOLE_PLACEMENT,
        profile_id=WHOLE_GPU,
        owner=f"{record.run}/{record.job}",
        job=record.job,
        cores=record.cores,
        memory_mib=memory_mib,
        ends_at=ends,
    )
    if record.placement is None or record.profile_id is None or not sliced:
        return stay
    return replace(stay, placement=record.placement, profile_id=record.profile_id)


def _strangers(gpu: Gpu, machine: Machine) -> tuple[Stay, ...]:
    """Who else has the GPU itself: another run by its claim, or processes that are nobody's job here."""
    other = machine.whole.get(gpu.uuid)
    if other is None and gpu.processes:
        other = ", ".join(machine.processes.get(p.pid, f"pid {p.pid}") for p in gpu.processes[:3])
    return (Stay(placement=WHOLE_PLACEMENT, profile_id=WHOLE_GPU, owner=other),) if other is not None else ()


class _Wishes:
    """One wish for all jobs that ask for the same, so that the queue can group them."""

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        sites: Sequence[Site],
        strategy: Strategy,
        wave: tuple[int, ...],
        pool: Pool,
    ) -> None:
        self._plan = plan
        self._machine = machine
        self._strategy = strategy
        self._sites = {site.gpu.uuid: site.gpu for site in sites}
        self._known: dict[tuple[object, ...], Wish] = {}
        self._wave = wave
        self._cores = max(0, len(pool.cores) - reserved_cores(max(1, len(wave)), plan.reserve_cores))
        self.threads = len(wave) > len(pool.cores)
        """Whether the run's jobs have hardware threads instead of cores."""

    def of(self, job: Job) -> Wish:
        key = (job.request, job.gpus, job.cpus, job.cpuset, job.memory_mib if self._strategy is Strategy.SHARED else 0)
        if key not in self._known:
            self._known[key] = self._wish(job)
        return self._known[key]

    def _wish(self, job: Job) -> Wish:
        if isinstance(job.request, ByInstance):
            uuid = job.request.mig_uuid
            return self._with_cores(job, 1, words=uuid, instance_uuid=uuid)
        found = self._options(job)
        largest = max(found.values(), key=lambda profile: profile.compute_slices)
        whole = largest.id == WHOLE_GPU
        memory = (job.memory_mib or 0) if self._strategy is Strategy.SHARED else 0
        words = "a whole GPU" if whole else " or ".join(dict.fromkeys(profile.name for profile in found.values()))
        return self._with_cores(
            job,
            WHOLE_GPU_SLICES if whole else largest.compute_slices,
            words=f"{memory} MiB of GPU memory" if memory else words,
            options=found,
            memory_mib=memory,
        )

    def _options(self, job: Job) -> dict[str, Profile]:
        named = job_gpus(job, self._plan, self._machine.usable)
        allowed = [self._sites[gpu.uuid] for gpu in named if gpu.uuid in self._sites]
        if not allowed:
            first = named[0]
            raise hidden_error(first) if first.instances_reason is not None else mode_error(first)
        only_whole = all(gpu.mig is None for gpu in allowed)
        found: dict[str, Profile] = {}
        problems: list[MigctlError] = []
        for gpu in allowed:
            try:
                profile = self._profile(job, gpu, only_whole=only_whole)
            except MigctlError as error:
                problems.append(error)
                continue
            if profile is not None:
                found[gpu.uuid] = profile
        if not found:
            raise problems[0] if problems else _never(job, allowed)
        return found

    def _profile(self, job: Job, gpu: Gpu, *, only_whole: bool) -> Profile | None:
        """What the job gets on this GPU; nothing where it does not go."""
        if not _sliced(gpu, self._strategy):
            if self._strategy is Strategy.MIG and not only_whole:
                return None
            wanted = job.memory_mib or (job.request.memory_mib if isinstance(job.request, ByMemory) else 0)
            return whole_profile(gpu) if wanted <= gpu.memory_mib else None
        if self._strategy is Strategy.SEQUENTIAL:
            return auto_candidates(gpu)[0]
        if isinstance(job.request, Auto):
            return auto_candidates(gpu)[-1]
        return options(job.request, gpu)

    def _with_cores(
        self,
        job: Job,
        weight: int,
        *,
        words: str,
        options: Mapping[str, Profile] | None = None,
        memory_mib: int = 0,
        instance_uuid: str | None = None,
    ) -> Wish:
        least = 0 if self._plan.oversubscribe else 1
        return Wish(
            words,
            options or {},
            memory_mib=memory_mib,
            cores=job.cpus if job.cpus is not None else self._share(weight),
            least_cores=job.cpus if job.cpus is not None else least,
            cpuset=job.cpuset,
            instance_uuid=instance_uuid,
        )

    def _share(self, weight: int) -> int:
        """The part of the cores that goes with so many compute slices, fixed by the first wave."""
        if self.threads or not self._wave:
            return 1
        if self._plan.cpu_split is CpuSplit.EQUAL:
            return max(1, self._cores // len(self._wave))
        return max(1, int(self._cores * Fraction(weight, max(sum(self._wave), weight))))


def _never(job: Job, allowed: Sequence[Gpu]) -> DoesNotFit:
    largest = max(allowed, key=lambda gpu: gpu.memory_mib)
    return DoesNotFit(
        "never-fits",
        f"{job.name} asks for more GPU memory than there is; {largest.name} has {largest.memory_mib} MiB",
        where=job.place("memory"),
        hint="ask for less, or choose a larger GPU",
        data={"jobs": [job.name]},
    )
