"""The answer to `check`: every precondition of `up`, each with its next step; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from migctl.core.choices import RuntimeName
from migctl.core.mig import Gpu
from migctl.core.plan import Plan
from migctl.core.views.findings import Finding, Level
from migctl.engine.session import Session
from migctl.errors import MigctlError
from migctl.host.sysfs import read_topology

_CONFIG_CAPABILITY = Path("/proc/driver/nvidia/capabilities/mig/config")


def check(session: Session, runtime: RuntimeName, plan: Plan | None) -> tuple[Finding, ...]:
    """Test everything; one failing test keeps no other from running."""
    findings: list[Finding] = []
    gpus: tuple[Gpu, ...] = ()
    with _told(findings), session.driver() as driver:
        gpus = driver.gpus()
        findings.append(_ok("driver", driver.label))
        findings += [_failure(error) for error in driver.failures]
    findings += [finding for gpu in gpus for finding in _gpu(gpu)]
    if not session.simulated and gpus:
        findings.append(_rights())
    with _told(findings):
        findings.append(_cpus(session))
    with _told(findings):
        facts = session.runtime(runtime).facts()
        where = f" at {facts.endpoint}" if facts.endpoint else ""
        findings.append(_ok("runtime", f"{facts.name}{where}"))
        if runtime is RuntimeName.DOCKER:
            findings.append(_access(facts.gpu_access, simulated=session.simulated))
            if facts.cpus is not None:
                findings.append(_ok("engine-cpus", f"the engine may use CPUs {facts.cpus}"))
    findings.append(_writable("state-dir", session.paths.state))
    findings.append(_writable("run-dir", session.paths.run))
    if plan is not None:
        with _told(findings):
            from migctl.engine.converge import preview
            from migctl.engine.decide import UpOptions

            decision = preview(session, plan, UpOptions())
            blocked = decision.allocation.blocked
            count = len(decision.allocation.assignments)
            findings.append(
                _failure(blocked) if blocked is not None else _ok("plan", f"{plan.name}: {count} jobs fit at once")
            )
    return tuple(findings)


def _ok(finding: str, message: str) -> Finding:
    return Finding(id=finding, level=Level.OK, message=message)


def _failure(error: MigctlError) -> Finding:
    return Finding(id=error.id, level=Level.FAILURE, message=error.message, hint=error.hint)


@contextmanager
def _told(findings: list[Finding]) -> Iterator[None]:
    """Turn the errors of one test into its findings."""
    try:
        yield
    except MigctlError as error:
        findings += [_failure(one) for one in error.all]


def _gpu(gpu: Gpu) -> Iterator[Finding]:
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
            hint=f"free the GPU, then sudo nvidia-smi --gpu-reset -i {gpu.index} (in a virtual machine: reboot it)",
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
            hint="run it with sudo",
        )
        return
    count = len(gpu.instances)
    yield _ok("mig", f"{name}: MIG mode is on, {count} instance{'' if count == 1 else 's'}")
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


def _rights() -> Finding:
    """Creating instances needs root, or read access to the mig/config capability (NVIDIA MIG User Guide, "Device nodes")."""
    if os.geteuid() == 0 or os.access(_CONFIG_CAPABILITY, os.R_OK):
        return _ok("rights", "GPU instances may be created and destroyed")
    return Finding(
        id="no-permission",
        level=Level.FAILURE,
        message=f"uid {os.geteuid()} may not create GPU instances: {_CONFIG_CAPABILITY} is not readable",
        hint="sudo --preserve-env=DOCKER_HOST,MIGCTL_STATE_DIR migctl up",
    )


def _cpus(session: Session) -> Finding:
    topology = read_topology(session.root)
    mine = session.local_affinity(topology.online)
    cores = [core for core in topology.cores if core.cpus <= mine]
    text = f"{len(cores)} cores with {len(topology.online & mine)} logical CPUs"
    if topology.hidden:
        return Finding(
            id="topology-hidden",
            level=Level.WARNING,
            message=f"{text}; topology hidden: vCPUs counted as cores",
            hint="threads_per_core: 2 in the plan, where two vCPUs are one core",
        )
    return _ok("cpus", text)


def _access(text: str, *, simulated: bool) -> Finding:
    if text.startswith("none"):
        level = Level.WARNING if simulated else Level.FAILURE
        return Finding(
            id="no-gpu-access",
            level=level,
            message=f"containers get no GPU device: {text.removeprefix('none').lstrip(': ') or 'the engine has no way'}",
            hint="install the NVIDIA Container Toolkit: nvidia-ctk runtime configure --runtime=docker",
        )
    return _ok("gpu-access", f"containers get their instance by {text}")


def _writable(finding: str, folder: Path) -> Finding:
    """Whether it can be written, or made where it is missing."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    if os.access(there, os.W_OK | os.X_OK):
        return _ok(finding, str(folder))
    return Finding(
        id=f"{finding}-unwritable",
        level=Level.FAILURE,
        message=f"{folder} cannot be written",
        hint="--state-dir DIR" if finding == "state-dir" else "MIGCTL_RUN_DIR",
    )
