"""sbatch scripts as plans, with the site's words kept in `slurm:`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from migctl.core.yaml_text import Value
from migctl.planfile.importers.gpu_words import profile_in
from migctl.planfile.importers.shell_syntax import Command, commands
from migctl.planfile.importers.sketch import JobSketch, Sketch, dollars, shown
from migctl.planfile.source import Source

_LONG = {
    "-J": "job-name", "-p": "partition", "-A": "account", "-q": "qos", "-C": "constraint", "-c": "cpus-per-task", "-t": "time",
    "-o": "output", "-e": "error", "-a": "array", "-n": "ntasks", "-N": "nodes", "-G": "gpus", "-D": "chdir", "-d": "dependency",
}  # fmt: skip
_SETTINGS = ("partition", "account", "qos", "constraint", "reservation")
_OURS = frozenset({
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_MAX_THREADS", "NUMEXPR_NUM_THREADS",
})  # fmt: skip
_WORKERS = re.compile(r"^--?(?:num[_-]?workers|workers|j)(=.*)?$")
_SILENT = frozenset({"set", "module", "source", ".", "echo", "hostname", "date", "nvidia-smi", "conda", "cd"})


def plan_of(source: Source) -> Sketch:
    """The plan of one batch script."""
    sketch = Sketch(f"the sbatch script {source.name}")
    options = _options(source)
    name = options.pop("job-name", "") or "job"
    sketch.name(name)
    sketch.keys["runtime"] = "process"
    slurm: dict[str, Value] = {key: options.pop(key) for key in _SETTINGS if key in options}
    job = sketch.job(name)
    _gres(job, options, slurm)
    _amounts(sketch, job, options, slurm)
    for key, value in options.items():
        job.leave(
            f"--{key}{'=' if value else ''}{shown(value)}", "no key of a plan; slurm: {options: […]} keeps it for Slurm"
        )
    if slurm:
        sketch.keys["slurm"] = slurm
    _body(job, source)
    return sketch


def _options(source: Source) -> dict[str, str]:
    """The #SBATCH lines, which end at the first command (sbatch(1))."""
    found: dict[str, str] = {}
    for line in source.text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if not line.startswith("#SBATCH"):
            continue
        try:
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError:
            words = line.split()[1:]
        while words:
            word = words.pop(0)
            option, equals, value = word.partition("=")
            if not option.startswith("--"):
                option, equals, value = option[:2], option[2:] + equals, option[2:] + equals + value
            if not equals and words and not words[0].startswith("-"):
                value = words.pop(0)
            found[_LONG.get(option, option.lstrip("-"))] = value
    return found


def _gres(job: JobSketch, options: dict[str, str], slurm: dict[str, Value]) -> None:
    """`gpu:a100_3g.40gb:1` is a profile, and the site's word for it."""
    for key in ("gres", "gpus", "gpus-per-node", "gpus-per-task"):
        if key not in options:
            continue
        spelt = options.pop(key)
        parts = [part for part in spelt.split(":") if part != "gpu"]
        count = parts.pop() if parts and parts[-1].isdigit() else "1"
        kind = parts[0] if parts else ""
        profile = profile_in(kind)
        if count != "1":
            job.leave(f"--{key}={spelt}", "one job gets one GPU instance: write replicas, or a larger profile")
        if profile is not None:
            job.keys["profile"] = profile
            if kind != profile:
                slurm["gres"] = {profile: kind}
        elif kind:
            job.keys["gpu"] = {"model": kind}
            job.note(f"--{key}={spelt}: {kind} names no profile; here it is a part of the GPU's product name")


def _amounts(sketch: Sketch, job: JobSketch, options: dict[str, str], slurm: dict[str, Value]) -> None:
    if (cpus := options.pop("cpus-per-task", options.pop("cpus-per-gpu", ""))).isdigit():
        job.keys["cpus"] = int(cpus)
        job.note(f"cpus: {cpus} were CPUs as Slurm counts them (often hardware threads); here they are physical cores")
    for key in ("ntasks", "nodes", "ntasks-per-node"):
        if options.get(key) == "1":
            del options[key]
    if memory := options.pop("mem", ""):
        job.note(f"--mem={memory}: a process has no limit of memory; in a container: mem_limit: {memory.lower()}")
    if "time" in options and (limit := _time(options["time"])):
        del options["time"]
        job.keys["timeout"] = limit
    if "array" in options:
        _array(sketch, job, options.pop("array"))
    if "chdir" in options:
        job.keys["working_dir"] = options.pop("chdir")
    if mail := [f"--{key}={options.pop(key)}" for key in ("mail-type", "mail-user") if key in options]:
        slurm["options"] = list(mail)


def _time(spelt: str) -> str | None:
    """minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]] (sbatch(1), --time)."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", spelt)
    if found is None:
        return None
    days, *rest = found.groups()
    numbers = [int(part) for part in rest if part is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        hours += 24 * int(days)
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, minutes, seconds = 0, numbers[0], (numbers[1] if len(numbers) > 1 else 0)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or None


def _array(sketch: Sketch, job: JobSketch, spelt: str) -> None:
    numbers, _, at_once = spelt.partition("%")
    values: list[int] = []
    for part in numbers.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if found is None:
            job.leave(f"--array={spelt}")
            return
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        values += range(first, min(last, first + 4096 * step) + 1, step)
    job.keys["matrix"] = {"task": list(values)}
    if at_once.isdigit():
        sketch.keys["max_parallel"] = int(at_once)


def _body(job: JobSketch, source: Source) -> None:
    """Variables and the one command, where there is no more; else the whole body goes to a shell as it stands."""
    environment: dict[str, Value] = {}
    runs: list[tuple[str, ...]] = []
    whole = True
    for command in commands(source.text):
        words = command.plain
        if words[:1] == ("export",):
            _export(job, words[1:], environment)
        elif not words or words[0] in _SILENT:
            job.leave(shown(command.source), f"line {command.line}")
        elif words[0] in ("srun", "python", "python3", "torchrun", "bash", "sh", "apptainer", "singularity"):
            runs.append(_command(job, command))
        else:
            whole = False
    if len(runs) == 1 and whole:
        job.keys["command"] = list(runs[0])
    else:
        job.note("the script's body goes to bash as it stands: it holds more than one command")
        body = "\n".join(line for line in source.text.splitlines() if not line.startswith("#"))
        job.keys["command"] = ["bash", "-c", re.sub(r"\$(?=[${])", "$$", body.strip())]
        environment.clear()
    if environment:
        job.keys["environment"] = environment


def _export(job: JobSketch, words: Sequence[str], environment: dict[str, Value]) -> None:
    for word in words:
        name, equals, value = word.partition("=")
        if name in _OURS:
            job.note(f"{word}: migctl sets it from the job's cores")
        elif equals:
            environment[name] = _slurm_words(job, value)
            if name == "PYTORCH_CUDA_ALLOC_CONF" and "expandable_segments:True" in value:
                job.note(
                    f"{word}: with it PyTorch fails on MIG devices (pytorch#112377); expandable_segments:False works"
                )


def _command(job: JobSketch, command: Command) -> tuple[str, ...]:
    """Without srun and its own options."""
    words = list(command.plain)
    if words[0] == "srun":
        words.pop(0)
        while words and words[0].startswith("-"):
            option = words.pop(0)
            if "=" not in option and not option.startswith(("--unbuffered", "-u", "-l", "--label")) and words:
                option += f" {words.pop(0)}"
            job.leave(f"srun {option}", "one process a job")
    made: list[str] = []
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""
        if _WORKERS.match(before) and "SLURM_" in word:
            job.note(f"{before} {word}: the workers that the job's cores can carry")
            made.append("${MIGCTL_NUM_WORKERS}")
        else:
            made.append(_slurm_words(job, word))
    return tuple(made)


_SAME: Mapping[str, str] = {
    "SLURM_CPUS_PER_TASK": "${MIGCTL_CPUS}",
    "SLURM_CPUS_ON_NODE": "${MIGCTL_CPUS}",
    "SLURM_JOB_NAME": "${MIGCTL_JOB}",
    "SLURM_ARRAY_TASK_ID": "${matrix.task}",
}


def _slurm_words(job: JobSketch, text: str) -> str:
    """Slurm's variables in migctl's words."""
    if "$((" in text:
        job.note(f"{text}: a plan does not calculate; write the number")
        return re.sub(r"\$\(\((.*?)\)\)", _SAME["SLURM_CPUS_PER_TASK"], text)

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name in _SAME:
            return _SAME[name]
        if name.startswith("SLURM_"):
            job.note(f"${name} is not there without Slurm")
            return f"$${{{name}}}"
        return f"${{{name}}}"

    return re.sub(r"\$\{([A-Za-z_]\w*)\}", value, dollars(text))
