"""`.env` files that choose somebody's slice, as a plan of one job on it."""

from __future__ import annotations

from migctl.core.yaml_text import Noted, Value
from migctl.planfile.dotenv import parse
from migctl.planfile.importers.gpu_words import gpu_variable
from migctl.planfile.importers.sketch import PLACEHOLDER_IMAGE, Sketch, literal
from migctl.planfile.problems import Report
from migctl.planfile.source import Source


def plan_of(source: Source, report: Report) -> Sketch:
    """The plan: the device that the file names is used and never destroyed, every other variable goes to the job.

    Raises:
        PlanError: it names several devices.
        Problems: a line is no NAME=value.
    """
    sketch = Sketch(f"the variables in {source.name}")
    variables = parse(source, report, {})
    report.finish()
    job = sketch.job("train")
    kept: dict[str, Value] = {}
    for one in variables:
        value = one.value or ""
        if one.name == "COMPOSE_PROJECT_NAME":
            sketch.name(value)
        elif not gpu_variable(job, one.name, value):
            kept[one.name] = literal(value)
    sketch.defaults["image"] = Noted(PLACEHOLDER_IMAGE, beside="your image")
    sketch.defaults["command"] = Noted(["nvidia-smi", "-L"], beside="your training; this shows the job's GPU instance")
    if kept:
        job.keys["environment"] = kept
    return sketch
