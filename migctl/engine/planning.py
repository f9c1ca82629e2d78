"""The answer to `plan`: who would get what, on this machine or on a board that is only thought of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from migctl.core.allocation import Allocation
from migctl.core.cpu.topology import Topology, flat
from migctl.core.cpu.workers import reserved_cores
from migctl.core.gpu.administered import chosen_gpus
from migctl.core.gpu.contenders import conflict_view
from migctl.core.gpu.gpuplaces import in_place_of_others
from migctl.core.gpu.mig import Gpu
from migctl.core.machine import Machine
from migctl.core.pictures import gpu_pictures, pool_view
from migctl.core.plan import Plan
from migctl.core.queueing.entries import requeued
from migctl.core.queueing.forecast import Forecast, forecast
from migctl.core.queueing.progress import Progress
from migctl.core.queueing.run_layout import lay_out_run
from migctl.core.queueing.wave import Wave
from migctl.core.runs.steps import sentence
from migctl.core.views.plan import PlanView
from migctl.core.ways import ways
from migctl.engine.apply import read_only
from migctl.engine.datadevices import data_devices
from migctl.engine.decide import Decision, consider
from migctl.engine.session import Session
from migctl.engine.surroundings import surroundings
from migctl.engine.upoptions import UpOptions
from migctl.errors import Notice
from migctl.host.cpulimits import allowed_cpus, cpu_quota
from migctl.host.procfs import memory_total_mib
from migctl.host.sysfs import read_topology
from migctl.nvml.models import board_gpu, parse_boards


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What to plan for instead of this machine; nothing set = this machine as it is."""

    boards: str | None = None
    """`a100-40gbx2`"""
    cores: int | None = None
    root: Path | None = None


def view(session: Session, plan: Plan, elsewhere: Elsewhere) -> PlanView:
    """Plan, and show what came of it.

    Raises:
        DoesNotFit: a job can never run there.
        MigctlError: as `allocate`.
    """
    if elsewhere.boards is not None:
        machine = _thought_of(session, elsewhere)
        progress = Progress(queue=requeued(None, plan, session.now()))
        layout = lay_out_run(plan, machine, progress, now=session.now())
        return _view(plan, layout.allocation, machine, (), _label(elsewhere), "", layout.wave)
    with read_only(session, plan.runtime) as shop:
        found = consider(shop, plan, UpOptions(), lambda there: _with_cores(there, elsewhere))
        broken = tuple(Notice(e.id, e.message, hint=e.hint, where=e.where) for e in found.broken)
        allocation = found.decision.allocation
        return _view(
            plan,
            replace(allocation, notices=(*broken, *allocation.notices)),
            found.machine,
            steps_in_words(found.decision),
            _label(elsewhere),
            session.nvml,
            found.decision.wave,
        )


def machine_for(session: Session, plan: Plan, elsewhere: Elsewhere) -> tuple[Machine, str]:
    """What a plan can be written down for, and its name for people: this machine without this run, or one that is thought of.

    Raises:
        MigctlError: what is there cannot be seen.
    """
    if elsewhere.boards is not None:
        return _thought_of(session, elsewhere), _label(elsewhere)
    with read_only(session, plan.runtime) as shop:
        seen = shop.look(plan.name)
        here = surroundings(session, shop.runtime, shop.ledger, seen.observed, plan.name)
        here = _with_cores(replace(here, storage=data_devices(plan, shop.runtime)), elsewhere)
    label = _label(elsewhere) or (f"simulated {session.nvml}" if session.simulated else "this machine")
    return replace(here, gpus=tuple(_without(gpu, here, plan.name) for gpu in here.gpus)), label


def _without(gpu: Gpu, machine: Machine, run: str) -> Gpu:
    others = (i for i in gpu.instances if not machine.owners.get((gpu.uuid, i.gi_id), "").startswith(f"{run}/"))
    return replace(gpu, instances=tuple(others))


def _view(
    plan: Plan,
    allocation: Allocation,
    machine: Machine,
    steps: tuple[str, ...],
    label: str,
    simulated: str,
    wave: Wave | None,
) -> PlanView:
    gpus = chosen_gpus(plan, machine.usable)
    jobs = {a.job.name: a.cpu.cpus for a in allocation.assignments}
    reserved = reserved_cores(len(jobs), plan.reserve_cores)
    return PlanView(
        name=plan.name,
        allocation=allocation,
        gpus=gpu_pictures(allocation, machine, gpus, plan.name),
        cores=pool_view(machine.topology, allocation.pool, jobs, reserved=reserved),
        conflict=conflict_view(plan, allocation, gpus),
        ways=ways(allocation, gpus, len(plan.jobs)),
        steps=steps,
        machine=label,
        simulated=simulated,
        waits={job: reason.words for job, reason in wave.waits.items()} if wave is not None else {},
        course=_course(plan, wave),
        now=wave.situation.now if wave is not None else 0.0,
    )


def _course(plan: Plan, wave: Wave | None) -> Forecast | None:
    """How the queue is expected to run, where any job says how long it takes."""
    if wave is None or all(job.expect_s is None for job in plan.jobs):
        return None
    return forecast(wave.situation)


def steps_in_words(decision: Decision) -> tuple[str, ...]:
    """What `up` would do, a sentence a step."""
    return tuple(
        sentence(step, records.get(step.job))
        for chains, records in ((decision.undo, decision.leaving), (decision.chains, decision.records))
        for chain in chains
        for step in chain.steps
    )


def _label(elsewhere: Elsewhere) -> str:
    parts = [elsewhere.boards or ""]
    parts += [f"{elsewhere.cores} cores"] if elsewhere.cores is not None else []
    return ", ".join(part for part in parts if part)


def _thought_of(session: Session, elsewhere: Elsewhere) -> Machine:
    """An idle machine with these boards; its CPUs are this machine's unless said otherwise."""
    slots = parse_boards(elsewhere.boards or "")
    root = elsewhere.root or session.root
    gpus = tuple(board_gpu(slot.board, n, mig_on=slot.mig_on) for n, slot in enumerate(slots))
    topology = _topology(root, gpus)
    there = Machine(
        gpus=gpus,
        topology=topology,
        affinity=allowed_cpus(topology.online, root),
        quota=cpu_quota(root),
        memory_total_mib=memory_total_mib(root),
    )
    return _with_cores(there, replace(elsewhere, root=None))


def _with_cores(machine: Machine, elsewhere: Elsewhere) -> Machine:
    if elsewhere.cores is not None:
        topology = flat(elsewhere.cores)
    elif elsewhere.root is not None:
        topology = _topology(elsewhere.root, machine.gpus)
    else:
        return machine
    return replace(
        machine,
        topology=topology,
        affinity=topology.online if elsewhere.root is None else allowed_cpus(topology.online, elsewhere.root),
        engine=None,
        quota=None if elsewhere.root is None else cpu_quota(elsewhere.root),
        claimed={},
        foreign=(),
        memory_total_mib=None,
        storage={},
    )


def _topology(root: Path, gpus: Sequence[Gpu]) -> Topology:
    """Of a machine in which these GPUs are only thought to be."""
    return in_place_of_others(gpus, read_topology(root, pci_ids=[gpu.pci_bus_id for gpu in gpus]))
