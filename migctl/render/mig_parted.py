"""A layout as a mig-parted configuration, which the GPU operator's MIG manager reads too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from migctl.core.gpu.mig import Gpu, profile_order
from migctl.core.keytable import Lost
from migctl.core.queueing.rounds import Rounds
from migctl.core.yaml_text import Value, document
from migctl.render.exported import Exporter, heading
from migctl.render.nvidia_smi import by_gpu


def mig_parted_config(rounds: Rounds, lost: Iterable[Lost], exporter: Exporter) -> str:
    """The configuration, one named config a round.

    Args:
        rounds: the instances, round by round; each round is a configuration of its own.
        lost: keys that it cannot express.
        exporter: for the heading.
    """
    configs: dict[str, Value] = {}
    for number in range(len(rounds.rounds)):
        configs[_label(rounds.plan.name, number)] = _config(rounds, number)
    above = heading(f"plan {rounds.plan.name} for mig-parted, planned for {rounds.machine}", exporter.version, lost)
    label = _label(rounds.plan.name, 0)
    first = [
        f"On one machine: nvidia-mig-parted apply -f THIS-FILE -c {label}",
        f"GPU operator:   kubectl label node NODE nvidia.com/mig.config={label} --overwrite",
        "                with this file in the ConfigMap that its migManager.config.name names",
        "Both take all instances of these GPUs away first, and everything on them must have ended.",
    ]
    return document({"version": "v1", "mig-configs": configs}, (*above, "", *first))


def _label(name: str, round_: int) -> str:
    """A name that is also the value of a node's label."""
    plain = name if round_ == 0 else f"{name[:54]}.round-{round_ + 1}"
    return plain.strip("-_.")[:63] or "plan"


def _config(rounds: Rounds, number: int) -> list[Value]:
    """An entry for each GPU that is used in this round; equal ones are one entry."""
    alike: dict[tuple[tuple[str, int], ...], list[Gpu]] = {}
    for gpu in sorted(rounds.gpus.values(), key=lambda gpu: gpu.index):
        here = by_gpu(rounds.rounds[number]).get(gpu.uuid, [])
        counted = Counter(a.profile for a in here if a.profile is not None)
        devices = tuple((p.name, n) for p, n in sorted(counted.items(), key=lambda item: profile_order(item[0])))
        if devices or any(a.gpu_uuid == gpu.uuid for a in rounds.rounds[number]):
            alike.setdefault(devices, []).append(gpu)
    entries: list[Value] = []
    for devices, gpus in alike.items():
        entry: dict[str, Value] = {"devices": [gpu.index for gpu in gpus], "mig-enabled": bool(devices)}
        if devices:
            entry["mig-devices"] = dict(devices)
        entries.append(entry)
    return entries
