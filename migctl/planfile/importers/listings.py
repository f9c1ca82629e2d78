"""Listings of devices that are there, as plans that use them: `nvidia-smi -L`, and CDI specifications."""

from __future__ import annotations

import re

from migctl.errors import PlanError
from migctl.planfile.importers.gpu_words import MIG_UUID
from migctl.planfile.importers.sketch import Sketch, entries, items, plain
from migctl.planfile.nodes import Node
from migctl.planfile.problems import Report
from migctl.planfile.source import Source

GPU_LINE = re.compile(r"^GPU (?P<index>\d+): (?P<name>.+?) \(UUID: (?P<uuid>GPU-[^)]+)\)", re.MULTILINE)
_MIG_LINE = re.compile(r"^\s+MIG (?P<profile>\S+)\s+Device\s+(?P<number>\d+): \(UUID: (?P<uuid>MIG-[^)]+)\)")


def plan_of_listing(source: Source) -> Sketch:
    """A job for each MIG device of `nvidia-smi -L`.

    Raises:
        PlanError: it lists none.
    """
    sketch = Sketch(f"the listing of nvidia-smi -L in {source.name}")
    gpu, without = "", []
    for line in source.text.splitlines():
        if found := GPU_LINE.match(line):
            gpu = found["index"]
            without.append(f"GPU {gpu} ({found['name']})")
        elif found := _MIG_LINE.match(line):
            without = [told for told in without if not told.startswith(f"GPU {gpu} ")]
            job = sketch.job(f"gpu{gpu}-device{found['number']}-{found['profile']}")
            job.keys["instance"] = found["uuid"]
        elif line.strip() and not line.startswith("#"):
            sketch.leave(line.strip())
    for told in without:
        sketch.note(f"{told}: no MIG device on it")
    if not sketch.jobs:
        raise PlanError(
            "nothing-to-import", f"{source.name} lists no MIG device", where=source.name,
            hint="write jobs with profile: `migctl up` makes the instances",
        )  # fmt: skip
    sketch.note("these devices are used as they are, and never destroyed")
    sketch.placeholders()
    return sketch


def plan_of_cdi(root: Node, report: Report) -> Sketch:
    """A job for each MIG device of a CDI specification that can work.

    Raises:
        PlanError: there is none.
    """
    sketch = Sketch(f"the CDI specification {report.source.name}")
    for device in items(entries(root).get("devices")):
        name = str(plain(entries(device).get("name")))
        edits = entries(entries(device).get("containerEdits"))
        nodes = [str(plain(entries(node).get("path"))) for node in items(edits.get("deviceNodes"))]
        capabilities = [path for path in nodes if "/nvidia-caps/" in path]
        if not MIG_UUID.fullmatch(name):
            sketch.leave(f"device {name}", "no MIG UUID")
        elif len(capabilities) < 2:
            sketch.leave(
                f"device {name}",
                f"it has {len(capabilities)} of the 2 nodes in /dev/nvidia-caps, so a container would see no MIG device: "
                "nvidia-ctk cdi generate, after nvidia-smi -L has made the nodes",
            )
        else:
            sketch.job(f"device-{len(sketch.jobs) + 1}").keys["instance"] = name
    if not sketch.jobs:
        raise PlanError(
            "nothing-to-import", f"no device in {report.source.name} is a MIG device that would work",
            where=report.source.name, hint="migctl writes a specification of its own for each job",
        )  # fmt: skip
    sketch.note("these devices are used as they are, and never destroyed")
    sketch.placeholders()
    return sketch
