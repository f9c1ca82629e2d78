"""What `up` makes sure of before it changes anything: the rules, the room, the rights, and that every image is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migctl.core.gpu.mig import Gpu
from migctl.core.plan import Job, Plan
from migctl.engine.apply import Workshop
from migctl.engine.decide import Considered, Decision, consider
from migctl.engine.rights import require_instances, require_mode
from migctl.engine.ruling import refuse, refuse_mode
from migctl.engine.upoptions import UpOptions


def ready(shop: Workshop, plan: Plan, options: UpOptions) -> Considered:
    """Look, decide, and stop where what was decided cannot be done here and now.

    Raises:
        MigctlError: a rule is broken, there is no room, or this user may not; nothing was changed.
    """
    found = consider(shop, plan, options)
    refuse(found.broken)
    require_instances(shop.session, found.decision.records)
    return found


def ready_for_mode(shop: Workshop, plan: Plan, options: UpOptions, off: Sequence[Gpu]) -> Mapping[str, str]:
    """Everything that can be known before the mode of these GPUs is changed, and while nobody is kept from the machine.

    Returns:
        Job → image of those that are there by now.

    Raises:
        MigctlError: as `ready`, and what keeps an image or a program from being used; nothing was changed.
    """
    refuse_mode(shop.session, off)
    require_mode(shop.session, off[0])
    if tells_profiles(off):
        return images_of(shop, plan, ready(shop, plan, options).decision, {})
    there = {record.job for record in shop.ledger.records(plan.name)}
    jobs = [job for job in plan.jobs if job.name not in there]
    return _prepared(shop, jobs)


def tells_profiles(off: Sequence[Gpu]) -> bool:
    """Whether the driver tells the profiles with the mode off, so that a plan that cannot fit is found out before a change."""
    return all(gpu.profiles for gpu in off)


def images_of(shop: Workshop, plan: Plan, decision: Decision, known: Mapping[str, str]) -> Mapping[str, str]:
    """The images of all jobs that will be started, now or later, those included that are there already (`known`)."""
    names = {*decision.starting, *decision.allocation.waiting} - known.keys()
    jobs = [job for job in plan.jobs if job.name in names]
    return {**known, **_prepared(shop, jobs)} if jobs else known


def _prepared(shop: Workshop, jobs: Sequence[Job]) -> Mapping[str, str]:
    return shop.runtime.prepare(jobs, simulated=shop.session.simulated, cancel=shop.cancel)
