"""mig-parted's configurations, which the GPU operator's MIG manager reads too, as plans: a job for each instance."""

from __future__ import annotations

from migctl.core.yaml_text import Value
from migctl.errors import PlanError
from migctl.planfile.gpu_fields import profile
from migctl.planfile.importers.sketch import Sketch, entries, items, plain, shown
from migctl.planfile.nodes import Node, Scalar
from migctl.planfile.problems import Refusal, Report


def plan_of(root: Node, report: Report, config: str | None, gpus: int) -> Sketch:
    """The plan of one configuration.

    Args:
        root: the file.
        report: knows the places.
        config: the configuration's name; `None`: the only one.
        gpus: how many GPUs `devices: all` means.

    Raises:
        PlanError: it is none, several, or makes no instance.
    """
    configs = entries(entries(root).get("mig-configs"))
    if not configs:
        raise PlanError("nothing-to-import", "mig-configs is empty", where=report.source.name)
    if config is None and len(configs) > 1:
        raise PlanError(
            "several-configurations",
            f"the file has {len(configs)} configurations: {', '.join(configs)}",
            where=report.source.name,
            hint=f"name one: --config {list(configs)[-1]}",
        )
    name = config or next(iter(configs))
    if name not in configs:
        raise PlanError(
            "no-such-configuration", f"there is no configuration {name}", where=report.source.name,
            hint=f"there are {', '.join(configs)}",
        )  # fmt: skip
    sketch = Sketch(f"configuration {name} of the mig-parted file {report.source.name}")
    sketch.name(name)
    sketch.keys["strategy"] = "mig"
    for entry in items(configs[name]):
        _entry(sketch, entry, gpus)
    if not sketch.jobs:
        raise PlanError(
            "nothing-to-import",
            f"configuration {name} makes no GPU instance, so there is nothing for jobs to run on",
            where=report.place(configs[name].start),
            hint="migctl mode disable --gpu N turns MIG off",
        )
    sketch.placeholders()
    return sketch


def _entry(sketch: Sketch, entry: Node, gpus: int) -> None:
    keys = entries(entry)
    devices = _devices(sketch, keys.get("devices"), gpus)
    told = "all GPUs" if devices is None else f"GPU {', '.join(map(str, devices))}"
    for key in keys:
        if key not in ("devices", "mig-enabled", "mig-devices"):
            sketch.leave(f"{key}: {shown(plain(keys[key]))} of {told}", "write gpu: {model: NAME} for a kind of GPU")
    if plain(keys.get("mig-enabled")) != "true":
        sketch.note(f"{told}: no MIG; migctl leaves it as it is")
        return
    made = entries(keys.get("mig-devices"))
    if not made:
        sketch.note(f"{told}: MIG mode without any instance")
    for spelt, count in made.items():
        try:
            wanted = profile(Scalar(spelt))
        except Refusal as refused:
            sketch.leave(f"{spelt}: {plain(count)} of {told}", refused.message)
            continue
        number = int(plain(count)) if str(plain(count)).isdigit() else 0
        if number:
            _jobs(sketch, wanted, number, devices, gpus)


def _jobs(sketch: Sketch, wanted: str, number: int, devices: list[int] | None, gpus: int) -> None:
    """One entry for a GPU's instances of a profile; the same on several GPUs is a matrix over them."""
    where = list(range(gpus)) if devices is None else devices
    for gpu in where:
        sketch.layout.setdefault(gpu, []).extend([wanted] * number)
    keys: dict[str, Value] = {"profile": wanted}
    if len(where) == 1:
        job = sketch.job(f"gpu{where[0]}-{wanted}")
        keys["gpu"] = where[0]
    else:
        job = sketch.job(f"each-{wanted}")
        keys |= {"matrix": {"gpu": list(where)}, "gpu": "${matrix.gpu}"}
    if number > 1:
        keys["replicas"] = number
    job.keys |= keys


def _devices(sketch: Sketch, node: Node | None, gpus: int) -> list[int] | None:
    """Numbers of GPUs; `None` for all of them."""
    spelt = plain(node)
    words = spelt if isinstance(spelt, list) else [spelt]
    if words == ["all"] or node is None:
        if gpus == 1:
            sketch.note("devices: all is read as GPU 0 alone; --gpus N reads it as N GPUs")
        return None
    numbers = [int(word) for word in words if isinstance(word, str) and word.isdigit()]
    for word in words:
        if not (isinstance(word, str) and word.isdigit()):
            sketch.leave(f"devices: {shown(word)}", "GPUs are named by their numbers")
    return numbers
