"""Which of the administrator's rules a plan would break; every broken rule is told with its line and its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

from migctl.core.allocation import Allocation
from migctl.core.choices import RuntimeName
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.topology import Topology
from migctl.core.gpu.mig import Gpu
from migctl.core.gpu.selection import select_gpus
from migctl.core.machine import Machine
from migctl.core.plan import GpuSelector, Job, Plan
from migctl.core.policy import Policy, Rule, Rules, V
from migctl.core.words import counted
from migctl.errors import HostError, MigctlError


def reserved_cpus(rules: Rules, topology: Topology) -> CpuSet:
    """The logical CPUs that no job gets: the lowest cores, so that all users leave the same ones."""
    count = rules.reserve_cores.value if rules.reserve_cores is not None else 0
    return CpuSet(cpu for core in sorted(topology.cores, key=lambda core: core.id)[:count] for cpu in core.cpus)


def allowed_gpus(rules: Rules, gpus: Sequence[Gpu]) -> frozenset[str] | None:
    """UUIDs of the GPUs that may be used; `None`: all. A policy may also name boards that only other machines have."""
    if rules.gpu is None:
        return None
    chosen: set[str] = set()
    for selector in rules.gpu.value:
        with suppress(MigctlError):
            chosen |= {gpu.uuid for gpu in select_gpus((selector,), gpus)}
    return frozenset(chosen)


def judge_gpus(policy: Policy, rules: Rules, plan: Plan, gpus: Sequence[Gpu]) -> tuple[MigctlError, ...]:
    """GPUs that the plan names and its user may not use. `gpu: all`, a model, and no `gpu` mean the allowed ones."""
    allowed = allowed_gpus(rules, gpus)
    if rules.gpu is None or allowed is None or not gpus:
        return ()
    if not allowed:
        return (_broken(policy, rules.gpu, "gpu", "none of the GPUs that you may use is in this machine", None),)
    named: list[tuple[GpuSelector, Job | None]] = [(selector, None) for selector in plan.gpus]
    named += [(selector, job) for job in plan.jobs for selector in job.gpus]
    found: dict[tuple[str, str], MigctlError] = {}
    for selector, job in named:
        try:
            chosen = select_gpus((selector,), gpus)
        except MigctlError:
            continue  # planning says what is wrong with it
        if allowed.isdisjoint(gpu.uuid for gpu in chosen):
            for gpu in chosen:
                error = _not_yours(policy, rules.gpu, gpu, [g for g in gpus if g.uuid in allowed], job)
                found.setdefault((gpu.uuid, job.origin if job is not None else ""), error)
    return tuple(found.values())


def judge_mode(policy: Policy, rules: Rules, gpus: Sequence[Gpu]) -> tuple[MigctlError, ...]:
    """Whether the MIG mode of these GPUs may be changed."""
    found: list[MigctlError] = []
    if gpus and rules.enable_mig is not None and not rules.enable_mig.value:
        found.append(
            _broken(
                policy,
                rules.enable_mig,
                "enable-mig",
                f"the MIG mode of GPU {', '.join(str(gpu.index) for gpu in gpus)} may not be changed",
                "leave --enable-mig out",
            )
        )
    return tuple(found)


def judge_plan(policy: Policy, rules: Rules, plan: Plan, real: Callable[[str], str]) -> tuple[MigctlError, ...]:
    """Rules that the plan breaks by itself, whatever the machine is like now.

    Args:
        policy: the file, for its name and owner.
        rules: what holds for the caller.
        plan: what he wants.
        real: a path with its links resolved: a link below an allowed folder allows nothing else.
    """
    if plan.runtime is not RuntimeName.DOCKER:
        return ()  # a process has no image and no mounts: it is the user himself, with his own rights
    found = [*_images_judged(policy, rules, plan), *_mounts_judged(policy, rules, plan, real)]
    return tuple(dict.fromkeys(found))


def judge_allocation(
    policy: Policy, rules: Rules, plan: Plan, allocation: Allocation, machine: Machine
) -> tuple[MigctlError, ...]:
    """Rules that the plan would break with what it would get here, beside what its user holds already."""
    return (
        *_slices_judged(policy, rules, plan, allocation, machine),
        *_cores_judged(policy, rules, plan, allocation, machine),
        *_memory_judged(policy, rules, plan, machine),
    )


def _not_yours(
    policy: Policy, rule: Rule[tuple[GpuSelector, ...]], gpu: Gpu, instead: Sequence[Gpu], job: Job | None
) -> HostError:
    whose = f" ({job.origin})" if job is not None else ""
    indexes = ", ".join(str(other.index) for other in instead)
    hint = f"gpu: {indexes}" if len(instead) == 1 else f"gpu: [{indexes}]"
    return _broken(policy, rule, "gpu", f"GPU {gpu.index} ({gpu.name}) is not one that you may use{whose}", hint, job)


def _slices_judged(
    policy: Policy, rules: Rules, plan: Plan, allocation: Allocation, machine: Machine
) -> Iterator[MigctlError]:
    rule = rules.max_slices
    if rule is None:
        return
    slices = {(gpu.uuid, p.id): p.compute_slices for gpu in machine.gpus for p in gpu.profiles}
    whole = {gpu.uuid: gpu.compute_slices for gpu in machine.gpus}
    made = {  # jobs that share an instance have its place
        (a.gpu_uuid, a.placement or a.job.name): a.profile.compute_slices
        for a in allocation.assignments
        if a.profile is not None
    }
    wanted: int = sum(made.values())
    wanted += sum(whole.get(uuid, 0) for uuid in {a.gpu_uuid for a in allocation.assignments if a.profile is None})
    wanted += sum(
        slices.get((record.gpu_uuid or "", record.profile_id or 0), 0)
        for name, record in machine.held.items()
        if record.profile_id is not None and name not in {job.name for job in plan.jobs}
    )
    if wanted + machine.holdings.slices > rule.value:
        yield _broken(
            policy,
            rule,
            "max-slices",
            f"{plan.name} takes {_count(wanted, 'slice')}{_beside(machine.holdings.slices)}; one user may hold {rule.value}",
            "a smaller profile, fewer jobs at once, or `migctl down` of another run",
        )


def _cores_judged(
    policy: Policy, rules: Rules, plan: Plan, allocation: Allocation, machine: Machine
) -> Iterator[MigctlError]:
    rule = rules.max_cores
    if rule is None:
        return
    mine = CpuSet(cpu for a in allocation.assignments for cpu in a.cpu.cpus)
    for record in machine.held.values():
        mine |= record.cpus if not record.state.ended else CpuSet()
    wanted, others = (
        sum(bool(core.cpus & cpus) for core in machine.topology.cores) for cpus in (mine, machine.holdings.cpus)
    )
    if wanted + others > rule.value:
        yield _broken(
            policy,
            rule,
            "max-cores",
            f"{plan.name} takes {_count(wanted, 'core')}{_beside(others)}; one user may hold {rule.value}",
            "cpus: N in the jobs, fewer jobs at once, or `migctl down` of another run",
        )


def _memory_judged(policy: Policy, rules: Rules, plan: Plan, machine: Machine) -> Iterator[MigctlError]:
    rule = rules.reserve_memory
    if rule is None or plan.runtime is not RuntimeName.DOCKER or machine.memory_total_mib is None:
        return
    unlimited = [job.name for job in plan.jobs if job.mem_limit_bytes is None]
    if unlimited:
        yield _broken(
            policy,
            rule,
            "reserve-memory",
            f"{_names(unlimited)} {'has' if len(unlimited) == 1 else 'have'} no memory limit, and "
            f"{_gib(rule.value)} must stay free",
            "mem_limit: 16g in the job, or under defaults",
        )
        return
    wanted = sum((job.mem_limit_bytes or 0) >> 20 for job in plan.jobs)
    allowed = max(0, machine.memory_total_mib - rule.value)
    if wanted + machine.holdings.memory_mib > allowed:
        beside = f" beside {_gib(machine.holdings.memory_mib)} of other runs" if machine.holdings.memory_mib else ""
        yield _broken(
            policy,
            rule,
            "reserve-memory",
            f"{plan.name} may take {_gib(wanted)} of memory{beside}; {_gib(allowed)} are for jobs, {_gib(rule.value)} stay free",
            "a smaller mem_limit, or fewer jobs at once",
        )


def _images_judged(policy: Policy, rules: Rules, plan: Plan) -> Iterator[MigctlError]:
    rule = rules.images
    for job in plan.jobs if rule is not None else ():
        if rule is not None and job.image is not None and not any(matches(job.image, p) for p in rule.value):
            yield _broken(
                policy,
                rule,
                "images",
                f"the image {job.image} ({job.origin}) is none of those allowed: {', '.join(rule.value) or 'none'}",
                "an allowed image",
                job,
            )


def matches(image: str, pattern: str) -> bool:
    """Whether an image's name is one of a pattern; a pattern without tag and digest takes any."""
    if fnmatchcase(image, pattern):
        return True
    name, _, _ = image.partition("@")
    folder, slash, last = name.rpartition("/")
    tagless = f"{folder}{slash}{last.partition(':')[0]}"
    own = pattern.rpartition("/")[2]
    return ":" not in own and "@" not in own and fnmatchcase(tagless, pattern)


def _mounts_judged(policy: Policy, rules: Rules, plan: Plan, real: Callable[[str], str]) -> Iterator[MigctlError]:
    rule = rules.mounts
    for job in plan.jobs if rule is not None else ():
        for volume in job.volumes:
            if rule is None or volume.kind != "bind" or volume.source is None:
                continue
            source = real(volume.source)
            below = [allowed for allowed in rule.value if _is_below(source, allowed.path)]
            if any(volume.read_only or not allowed.read_only for allowed in below):
                continue
            link = f", which is {source}" if source != volume.source else ""
            what = f"{volume.source}{link} ({job.origin})"
            yield _broken(
                policy,
                rule,
                "mounts",
                f"{what} may be mounted read-only at most"
                if below
                else f"{what} is below none of the folders that may be mounted: "
                f"{', '.join(allowed.path for allowed in rule.value) or 'none'}",
                f"{volume.source}:{volume.target}:ro" if below else "a folder below these",
                job,
            )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or folder == "/" or path.startswith(folder.rstrip("/") + "/")


def _broken(
    policy: Policy, rule: Rule[V], topic: str, what: str, instead: str | None, job: Job | None = None
) -> HostError:
    ask = f"ask {policy.ask}"
    return HostError(
        f"policy-{topic}",
        f"{what} (rule {rule.name} of {policy.owner}, {rule.where.file}:{rule.where.line})",
        where=rule.where,
        hint=f"{instead}; or {ask}" if instead else ask,
        data={
            "rule": rule.name,
            "file": rule.where.file,
            "line": rule.where.line,
            "owner": policy.owner,
            "contact": policy.contact,
            "job": job.name if job is not None else None,
        },
    )


def _count(number: int, what: str) -> str:
    return counted(number, what)


def _beside(others: int) -> str:
    return f" beside {others} of your other runs" if others else ""


def _names(jobs: Sequence[str]) -> str:
    return ", ".join(jobs[:5]) + (" …" if len(jobs) > 5 else "")


def _gib(mib: int) -> str:
    return f"{mib / 1024:.3g} GiB"
