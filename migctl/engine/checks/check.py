"""The answer to `check`: every precondition of `up`, each with its next step; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from migctl.core.choices import RuntimeName
from migctl.core.gpu.layout import pending_advice
from migctl.core.gpu.mig import Gpu
from migctl.core.plan import Plan
from migctl.core.views.findings import Finding, Level
from migctl.core.words import counted
from migctl.engine import rights
from migctl.engine.checks.check_access import engine_findings
from migctl.engine.checks.check_holders import holder_findings
from migctl.engine.checks.check_volumes import volume_findings
from migctl.engine.observe import boot
from migctl.engine.others import other_findings
from migctl.engine.ruling import ruling
from migctl.engine.session import Session
from migctl.engine.unrecorded import notices, unrecorded
from migctl.errors import MigctlError
from migctl.host.cpulimits import cpu_quota
from migctl.host.sudo import sudo_line
from migctl.host.sysfs import read_topology
from migctl.host.usable import file_problem


def check(session: Session, runtime: RuntimeName, plan: Plan | None) -> tuple[Finding, ...]:
    """Test everything; one failing test keeps no other from running."""
    findings: list[Finding] = []
    gpus: tuple[Gpu, ...] = ()
    boot_id = ""
    with _told(findings), session.driver() as driver:
        gpus = driver.gpus()
        boot_id = boot(session, driver)
        findings.append(_ok("driver", driver.label))
        findings += [_failure(error) for error in driver.failures]
        findings += _simulator(session)
    findings += [finding for gpu in gpus for finding in _gpu(gpu, sudo_line(session.environ))]
    with _told(findings):
        findings += holder_findings(session, gpus, boot_id)
    with _told(findings):
        findings += other_findings(session, boot_id)
    with _told(findings):
        findings += _unrecorded(session)
    with _told(findings):
        findings.append(_cpus(session))
    about_engine: list[Finding] = []
    with _told(about_engine):
        if runtime is RuntimeName.DOCKER:
            about_engine += engine_findings(session.runtime(runtime), gpus, simulated=session.simulated)
            if plan is not None:
                about_engine += volume_findings(plan, session.caller, session.runtime(runtime).facts())
        else:
            findings.append(_ok("runtime", session.runtime(runtime).facts().name))
    findings += [replace(finding, containers_only=True) for finding in about_engine]
    findings += rights.findings(session, _up(plan), real_gpus=bool(gpus) and not session.simulated)
    with _told(findings):
        findings += _policy(session)
    if plan is not None:
        with _told(findings):
            from migctl.engine.converge import preview
            from migctl.engine.mpsdaemons import mps_findings
            from migctl.engine.upoptions import UpOptions

            decision = preview(session, plan, UpOptions())
            blocked = decision.allocation.blocked
            count = len(decision.allocation.assignments)
            fit = f"{plan.name}: {counted(count, 'job')} {'fits' if count == 1 else 'fit at once'}"
            findings.append(_failure(blocked) if blocked is not None else _ok("plan", fit))
            findings += mps_findings(session, plan, decision.allocation.strategy)
    told: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        # What makes several tests fail is told once.
        told.setdefault((finding.id, finding.message), finding)
    return tuple(told.values())


def _up(plan: Plan | None) -> list[str]:
    return ["up", plan.path] if plan is not None and plan.path else ["up"]


def _simulator(session: Session) -> Iterator[Finding]:
    """A simulated machine changes in a file, which may lie where it can be read and not written."""
    path = session.paths.sim_state
    if session.simulated and path.parent != session.paths.state and (why := file_problem(path)) is not None:
        yield Finding(
            id="simulator-state",
            level=Level.FAILURE,
            message=f"{path}: its folder {why}",
            hint="set MIGCTL_SIM_STATE to another file",
        )


def _unrecorded(session: Session) -> Iterator[Finding]:
    """Processes that only themselves tell of."""
    with session.ledger(write=False) as ledger:
        for notice in notices(unrecorded(session, ledger)):
            yield Finding(id=notice.id, level=Level.WARNING, message=notice.message, hint=notice.hint)


def _policy(session: Session) -> Iterator[Finding]:
    """The administrator's rules, as far as they concern this user."""
    held = ruling(session)
    if held is None:
        yield _ok("policy", "this machine has no policy: everything is allowed")
        return
    names = ", ".join(rule.name for rule in held.rules.given) or "none of its rules concerns you"
    yield _ok("policy", f"{held.policy.file} of {held.policy.owner}: {names}")


def _ok(finding: str, message: str) -> Finding:
    return Finding(id=finding, level=Level.OK, message=message)


def _failure(error: MigctlError) -> Finding:
    # A place in a file is found by its message; that there are several GPUs is not seen from one's error.
    where = error.where
    place = f"{where}: " if isinstance(where, str) and where.startswith("GPU ") and where not in error.message else ""
    return Finding(id=error.id, level=Level.FAILURE, message=f"{place}{error.message}", hint=error.hint)


@contextmanager
def _told(findings: list[Finding]) -> Iterator[None]:
    """Turn the errors of one test into its findings."""
    try:
        yield
    except MigctlError as error:
        findings += [_failure(one) for one in error.all]


def _gpu(gpu: Gpu, as_root: str) -> Iterator[Finding]:
    name = f"GPU {gpu.index} ({gpu.name})"
    if gpu.mig is None:
        yield Finding(
            id="no-mig",
            level=Level.WARNING,
            message=f"{name} has no MIG",
            hint="strategy: shared runs several jobs on it, each with its own cores and workers",
        )
        return
    if not gpu.mig.settled:
        yield Finding(
            id="mig-mode-pending",
            level=Level.FAILURE,
            message=f"{name}: MIG mode is {_mode(gpu.mig.current)}, pending {_mode(gpu.mig.pending)}: "
            "that needs a GPU reset or a reboot",
            hint=pending_advice(gpu),
        )
        return
    if not gpu.mig.current:
        yield Finding(
            id="mig-mode-off",
            level=Level.WARNING,
            message=f"{name}: MIG mode is off",
            hint="migctl up --enable-mig turns it on while nobody uses the GPU",
        )
        return
    if gpu.instances_reason is not None:
        yield Finding(
            id="instances-hidden",
            level=Level.WARNING,
            message=f"{name}: {gpu.instances_reason}",
            hint="try again; if it stays, update the NVIDIA driver" if gpu.instances_doubtful else as_root,
        )
        return
    count = len(gpu.instances)
    yield _ok("mig", f"{name}: MIG mode is on, {counted(count, 'instance')}")
    yield from (
        Finding(
            id="unusable-instance",
            level=Level.WARNING,
            message=f"{name}: GPU instance {i.gi_id} ({i.profile} at {i.placement}) has no compute instance and is unusable",
            hint="migctl status tells whose it is",
        )
        for i in gpu.instances
        if not i.compute_instances
    )


def _mode(on: bool) -> str:
    return "on" if on else "off"


def _cpus(session: Session) -> Finding:
    topology = read_topology(session.root)
    mine = session.local_affinity(topology.online)
    cores = [core for core in topology.cores if core.cpus <= mine]
    text = f"{counted(len(cores), 'core')} with {counted(len(topology.online & mine), 'logical CPU')}"
    quota = cpu_quota(session.root)
    if quota is not None and quota < len(cores):
        text += f", of whose time a CPU quota allows {float(quota):g} CPUs"
    if topology.hidden:
        return Finding(
            id="topology-hidden",
            level=Level.WARNING,
            message=f"{text}; topology hidden: vCPUs counted as cores",
            hint="threads_per_core: 2 in the plan, where two vCPUs are one core",
        )
    return _ok("cpus", text)
