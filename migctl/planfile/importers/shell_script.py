"""Shell scripts as plans: `docker run` lines, loops of them, and the queues of task-spooler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from migctl.core.yaml_text import Value
from migctl.errors import PlanError
from migctl.planfile.importers.docker_run import name_of_run, take, words_of_run
from migctl.planfile.importers.shell_syntax import Command, commands
from migctl.planfile.importers.sketch import JobSketch, Sketch, dollars, shown
from migctl.planfile.source import Source

_KEYWORDS = frozenset({"do", "then", "else", "{", "!", "time", "exec", "sudo", "nohup"})
_SILENT = frozenset({"done", "fi", "esac", "}", "wait", "set", "echo", "sleep", "cd", "true", "exit", "shift", ":"})
"""Words of the script's own order, which a plan has no use for; `cd` is looked at."""


@dataclass(slots=True)
class _Reading:
    """Where in the script we are."""

    sketch: Sketch
    loops: list[tuple[str, list[str]]] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    """Variables with a value that the script itself gives."""
    spooled: int = 0
    told: set[int] = field(default_factory=set)
    """Lines that stand in a comment already."""


def plan_of(source: Source) -> Sketch:
    """The plan of a script.

    Raises:
        PlanError: it starts nothing that a plan could start, or a container with several MIG devices.
    """
    sketch = Sketch(f"the shell script {source.name}")
    reading = _Reading(sketch)
    for command in commands(source.text):
        _command(reading, command)
    if not sketch.jobs:
        raise _nothing(source)
    return sketch


def _nothing(source: Source) -> PlanError:
    if re.search(r"nvidia-smi\s+mig\b|nvidia-smi\s+-mig\b", source.text):
        takes = not re.search(r"-cgi\b", source.text)
        return PlanError(
            "no-trainings",
            f"{source.name} {'takes GPU instances away' if takes else 'partitions GPUs'} and starts no training",
            where=source.name,
            hint="`migctl down` takes away what `up` made, and nothing of others"
            if takes
            else "write a job with its profile for each training: `up` makes the instances",
        )
    return PlanError(
        "no-trainings",
        f"{source.name} holds no `docker run`, `srun` or task-spooler line, so no training was found in it",
        where=source.name,
        hint="write a plan with the command of your training: migctl init, or migctl run -- COMMAND",
    )


def _command(reading: _Reading, command: Command) -> None:
    words = list(command.plain)
    while words and words[0] in _KEYWORDS:
        words.pop(0)
    if not words:
        reading.known |= {
            n: v for n, v in command.assignments.items() if "$" not in v and "`" not in v and "(" not in v
        }
        return
    if words[0] == "for" and "in" in words[:3]:
        reading.loops.append((words[1], words[3:]))
    elif words[0] == "done":
        if reading.loops:
            reading.loops.pop()
    elif words[0] == "while":
        reading.loops.append(("", []))
    elif (run := words_of_run(words)) is not None:
        _docker(reading, run, command)
    elif words[0] in ("ts", "tsp") and len(words) > 1:
        _spooler(reading, words[1:], command)
    elif words[0] == "export" and len(words) > 1 and "=" in words[1]:
        name, _, value = words[1].partition("=")
        if "$" not in value:
            reading.known[name] = value
        reading.sketch.leave(shown(command.source), f"line {command.line}")
    elif words[0] not in _SILENT and command.line not in reading.told:
        reading.told.add(command.line)
        reading.sketch.leave(shown(command.source), f"line {command.line}")


def _docker(reading: _Reading, run: Sequence[str], command: Command) -> None:
    job = reading.sketch.job(name_of_run(run) or _image_name(run) or "job")
    used: set[str] = set()
    take(job, run, lambda word: _resolved(reading, word, used))
    _matrix(reading, job, used)
    del command


def _image_name(run: Sequence[str]) -> str:
    """The last word before the command that looks like an image."""
    image = next((word for word in run if re.fullmatch(r"[a-z0-9][\w./-]*(?::[\w.-]+)?", word) and "/" in word), "")
    return image.rpartition("/")[2].partition(":")[0]


def _matrix(reading: _Reading, job: JobSketch, used: set[str]) -> None:
    """The loops around the line, of which it uses the variable."""
    matrix: dict[str, Value] = {}
    for name, values in reading.loops:
        if name not in used:
            if name:
                job.note(f"the loop over {name} is left out: the line does not use it")
            continue
        spread = list(_spread(values))
        if any(set(value) & set("*?[$`") for value in spread):
            job.note(f"matrix.{name}: write the values; a plan knows no patterns")
        matrix[name] = [*spread]
    if matrix:
        job.keys = {"matrix": matrix, **job.keys}


def _spread(values: Sequence[str]) -> Iterator[str]:
    """`{1..3}` and `$(seq 1 3)` are the numbers."""
    for value in values:
        found = re.fullmatch(r"\{(\d+)\.\.(\d+)\}|\$\(seq (?:(\d+) )?(\d+)\)", value)
        if found is None:
            yield value
            continue
        first, last = (found[1], found[2]) if found[1] else (found[3] or "1", found[4])
        yield from map(str, range(int(first), min(int(last), int(first) + 4096) + 1))


def _resolved(reading: _Reading, word: str, used: set[str]) -> str:
    """A loop's variable is the matrix's; what the script sets is its value; the rest is the environment's."""
    loops = {name for name, _ in reading.loops}

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name in loops:
            used.add(name)
            return f"${{matrix.{name}}}"
        return reading.known.get(name, f"${{{name}}}")

    return re.sub(r"\$\{([A-Za-z_]\w*)\}", value, dollars(word))


def _spooler(reading: _Reading, words: Sequence[str], command: Command) -> None:
    """https://github.com/justanhduc/task-spooler: -S slots, -N CPU slots, -G number of GPUs, -g GPUs, -L label."""
    rest = list(words)
    slots, gpu, label, cpu_only = None, None, "", False
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-S", "-N", "-G", "-g", "-L", "-D", "-O", "-E"):
            value = rest.pop(0) if rest else ""
            if option == "-S":
                reading.sketch.keys["max_parallel"] = int(value) if value.isdigit() else 1
                if reading.spooled == 0 and not rest:
                    reading.sketch.note(f"{shown(command.source)}: so many jobs at the same time")
            elif option == "-N":
                slots = value
            elif option == "-G":
                cpu_only = value == "0"
            elif option == "-g":
                gpu = value
            elif option == "-L":
                label = value
            else:
                reading.sketch.leave(shown(command.source), f"{option} in line {command.line}")
    if not rest:
        return
    reading.spooled += 1
    if cpu_only:
        reading.sketch.leave(
            shown(command.source), "a job without a GPU: run it beside migctl, or as part of a training"
        )
        return
    reading.sketch.keys["runtime"] = "process"
    job = reading.sketch.job(label or _script_name(rest))
    if gpu is not None and gpu.isdigit():
        job.keys["gpu"] = int(gpu)
    if slots is not None and slots.isdigit():
        job.keys["cpus"] = int(slots)
    used: set[str] = set()
    job.keys["command"] = [_resolved(reading, word, used) for word in rest]
    _matrix(reading, job, used)


def _script_name(words: Sequence[str]) -> str:
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0])
    return script.rpartition("/")[2].partition(".")[0]
