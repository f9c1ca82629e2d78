"""What each job needs to start, one object for all jobs that need the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from migctl.core.allocation import WHOLE_GPU_SLICES
from migctl.core.choices import CpuSplit, Strategy
from migctl.core.cpu.pool import Pool
from migctl.core.cpu.workers import reserved_cores
from migctl.core.gpu.company import Company, company, instance_request, weight
from migctl.core.gpu.layout import hidden_error, mode_error
from migctl.core.gpu.mig import Gpu, Profile
from migctl.core.gpu.selection import job_gpus
from migctl.core.gpu.sizes import auto_candidates, options
from migctl.core.machine import Machine
from migctl.core.plan import Auto, ByInstance, ByMemory, Job, Plan
from migctl.core.queueing.turn import WHOLE_GPU, Site, Wish, whole_profile
from migctl.errors import DoesNotFit, MigctlError


def sliced(gpu: Gpu, strategy: Strategy) -> bool:
    """Whether jobs get instances there rather than the GPU itself."""
    if gpu.mig is None or strategy is Strategy.SHARED:
        return False
    return gpu.mig.current or strategy is Strategy.MIG


class Wishes:
    """One wish for all jobs that ask for the same, so that the queue can group them.

    Args:
        plan: all jobs of the run.
        machine: what is there.
        sites: the GPUs on which jobs can be started now.
        strategy: what the plan's automatic choice came to.
        wave: compute slices of the first wave's jobs.
        pool: the run's cores.
    """

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
        """What this job needs."""
        memory = job.memory_mib if self._strategy is Strategy.SHARED else 0
        key = (job.request, job.gpus, job.cpus, job.cpuset, memory, self._company(job))
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
        kept = self._company(job)
        if kept is not None:
            words = f"a seat on {words}"
        return self._with_cores(
            job,
            WHOLE_GPU_SLICES if whole else weight(largest.compute_slices, kept.seats if kept is not None else 1),
            words=f"{memory} MiB of GPU memory" if memory else words,
            options=found,
            memory_mib=memory,
        )

    def _company(self, job: Job) -> Company | None:
        return company(job) if self._strategy is Strategy.MIG else None

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
        if not sliced(gpu, self._strategy):
            if self._strategy is Strategy.MIG and (not only_whole or self._company(job) is not None):
                return None
            wanted = job.memory_mib or (job.request.memory_mib if isinstance(job.request, ByMemory) else 0)
            return whole_profile(gpu) if wanted <= gpu.memory_mib else None
        if self._strategy is Strategy.SEQUENTIAL:
            return auto_candidates(gpu)[0]
        if isinstance(job.request, Auto):
            return auto_candidates(gpu)[-1]
        return options(instance_request(job), gpu)

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
            company=self._company(job) if instance_uuid is None else None,
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
