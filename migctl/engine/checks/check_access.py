"""What `check` says about the container engine: which one it is, how its containers get their instance, what lies in the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migctl.core.gpu.mig import Gpu
from migctl.core.views.findings import Finding, Level
from migctl.runtimes.api import Runtime
from migctl.runtimes.facts import CdiEntry, RuntimeFacts


def engine_findings(runtime: Runtime, gpus: Sequence[Gpu], *, simulated: bool) -> Iterator[Finding]:
    """All findings about a container engine.

    Args:
        runtime: asked for its facts and for the CDI specifications it reads.
        gpus: as they are now.
        simulated: nothing is at stake: what a real GPU would lack is a warning, and nothing of CDI is looked at.
    """
    facts = runtime.facts()
    yield _which(facts)
    yield _access(facts, simulated=simulated)
    if facts.cpus is not None:
        yield Finding(id="engine-cpus", level=Level.OK, message=f"the engine may use CPUs {facts.cpus}")
    if simulated:
        return
    for note in facts.notes:
        yield Finding(id=note.id, level=Level.WARNING, message=note.message, hint=note.hint)
    known = _devices(gpus)
    for entry in runtime.cdi_entries():
        finding = entry_finding(entry, known)
        if finding is not None:
            yield finding


def entry_finding(entry: CdiEntry, known: frozenset[str] | None) -> Finding | None:
    """What is wrong about a device in a CDI specification; `None` for a good one.

    Args:
        entry: the device.
        known: UUIDs of all MIG devices there are; `None` where they cannot be read.
    """
    if entry.error:
        return _warn("cdi-unreadable", f"{entry.file} cannot be read: {entry.error}", f"sudo rm {entry.file}")
    if entry.ours and (entry.orphan or entry.missing):
        why = f"{entry.missing[0]} does not exist" if entry.missing else "this engine has no container of it"
        return _warn("cdi-left-over", f"{entry.file} is left over from a job: {why}", f"sudo rm {entry.file}")
    device = entry.name.partition("=")[2]
    gone = device.startswith("MIG-") and known is not None and not entry.ours and device not in known
    if gone or (entry.missing and not entry.ours):
        why = "that MIG device does not exist" if gone else f"{', '.join(entry.missing)} does not exist"
        return _warn(
            "cdi-stale",
            f"{entry.name} in {entry.file} is stale: {why}. migctl does not use it, docker run --gpus may",
            f"sudo nvidia-ctk cdi generate --output={entry.file}",
        )
    return None


def _which(facts: RuntimeFacts) -> Finding:
    where = f" at {facts.endpoint}" if facts.endpoint else ""
    source = f" ({facts.source})" if facts.source else ""
    kind = (
        ", rootless" if facts.rootless else ", users of its own in containers (userns-remap)" if _remaps(facts) else ""
    )
    return Finding(id="runtime", level=Level.OK, message=f"{facts.name}{where}{source}{kind}")


def _remaps(facts: RuntimeFacts) -> bool:
    return facts.ids is None or facts.ids.shifts


def _access(facts: RuntimeFacts, *, simulated: bool) -> Finding:
    text = facts.gpu_access
    if text.startswith("none"):
        return Finding(
            id="no-gpu-access",
            level=Level.WARNING if simulated else Level.FAILURE,
            message=f"containers get no GPU device: {text.removeprefix('none').lstrip(': ') or 'the engine has no way'}",
            hint=facts.gpu_hint or "migctl check --runtime process",
        )
    return Finding(id="gpu-access", level=Level.OK, message=f"containers get their instance by {text}")


def _devices(gpus: Sequence[Gpu]) -> frozenset[str] | None:
    if any(gpu.instances_reason is not None for gpu in gpus):
        return None
    return frozenset(
        compute.mig_uuid for gpu in gpus for instance in gpu.instances for compute in instance.compute_instances
    )


def _warn(finding: str, message: str, hint: str) -> Finding:
    return Finding(id=finding, level=Level.WARNING, message=message, hint=hint)
