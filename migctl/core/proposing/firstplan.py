"""The text of a first plan: what it says, and in comments why, and what to change."""

from __future__ import annotations

import re
from collections.abc import Iterator

from migctl.core.choices import Strategy
from migctl.core.gpu.mig import Gpu
from migctl.core.proposing.proposal import STAND_IN, FirstJob, Proposal, Seen
from migctl.core.words import counted
from migctl.core.yaml_text import comment, scalar

# Words that need no quotes wherever they stand in a command of several words.
_SIMPLE = re.compile(r"[A-Za-z0-9_./@+=-]+|\$\{[A-Z_]+\}")

_STRATEGIES = {
    Strategy.MIG: "a GPU instance for each training, at the same time",
    Strategy.SEQUENTIAL: "one training after another, each with the whole GPU",
    Strategy.SHARED: "all at once on the whole GPU, kept apart by CPU cores and the size of their batches only",
}


def first_plan(proposal: Proposal, seen: Seen, *, on: str = "") -> str:
    """The plan file.

    Args:
        proposal: what it says.
        seen: the machine it is written for.
        on: the boards that are only thought of; nothing: this machine's own GPUs.
    """
    blocks = [
        _head(proposal, seen, on),
        [f"name: {scalar(proposal.name)}"],
        _gpu(proposal, seen),
        _strategy(proposal),
        _place(proposal, seen),
        ["jobs:", *_jobs(proposal)],
        _more(),
    ]
    return "\n".join("".join(f"{line}\n" for line in block) for block in blocks if block)


def _head(proposal: Proposal, seen: Seen, on: str) -> list[str]:
    told = (
        (f"migctl plan{f' --on {on}' if on else ''}", "who would get what; changes nothing"),
        (
            "migctl up --wait",
            f"starts the trainings on cores{_and_instances(proposal)} of their own, and waits for them",
        ),
        ("migctl status", "who runs where, and what holds it back"),
        ("migctl down", "takes away exactly what `up` made"),
    )
    width = max(len(words) for words, _ in told)
    lines = [
        f"Written by `migctl init` for {_named(proposal.gpu)} and {counted(seen.cores, 'core')}; it is yours to change.",
        "",
        *(f"  {words:<{width}}   {means}" for words, means in told),
    ]
    return [comment(line) for line in lines]


def _and_instances(proposal: Proposal) -> str:
    return " and GPU instances" if proposal.strategy is Strategy.MIG else ""


def _named(gpu: Gpu) -> str:
    if gpu.mig is None:
        mode = "it has no MIG"
    elif not gpu.mig.settled:
        mode = "a change of its MIG mode is outstanding"
    else:
        mode = f"MIG mode is {'on' if gpu.mig.current else 'off'}"
    return f"GPU {gpu.index}, {gpu.name} ({mode})"


def _gpu(proposal: Proposal, seen: Seen) -> list[str]:
    """Needed only where several GPUs would do."""
    if len(seen.gpus) == 1:
        return []
    there = ", ".join(f"{gpu.index} {gpu.name}" for gpu in seen.gpus[:8]) + (" …" if len(seen.gpus) > 8 else "")
    return [
        comment(f"There are {there}."),
        comment("A list (gpu: [0, 1]) takes several, `all` every one, {model: A100} those of a name."),
        f"gpu: {proposal.gpu.index}",
    ]


def _strategy(proposal: Proposal) -> list[str]:
    lines = [comment(f"{strategy.value}: {means}.") for strategy, means in _STRATEGIES.items()]
    gpu = proposal.gpu
    if proposal.enabling:
        lines += [f"strategy: {Strategy.MIG.value}"]
        lines += [
            comment(
                "MIG mode is off: `up` turns it on while nobody uses the GPU, which takes root. This concerns everybody there."
            )
        ]
        return [*lines, "enable_mig: true"]
    if gpu.mig is None:
        lines.append(comment("This GPU has no MIG, so mig is not among the choices here."))
    elif not gpu.mig.current:
        lines.append(
            comment(
                "For mig its mode has to be turned on, which concerns everybody: strategy: mig, and enable_mig: true."
            )
        )
    elif proposal.strategy is not Strategy.SHARED:
        lines.append(comment("(shared takes a GPU whose MIG mode is off.)"))
    return [*lines, f"strategy: {proposal.strategy.value}"]


def _place(proposal: Proposal, seen: Seen) -> list[str]:
    if proposal.image is None:
        where = f"in the environment {seen.environment}" if seen.environment else "with the programs of this machine"
        return [
            comment(f"Without containers, {where}. For containers: take this line away, and give each job an image."),
            "runtime: process",
        ]
    return [
        comment(
            "Each training runs in a container that sees its own part of the GPU only, as your user, in this folder."
        ),
        "defaults:",
        f"  image: {scalar(proposal.image)}",
        '  volumes: ["./:/workspace"]',
        "  working_dir: /workspace",
    ]


def _jobs(proposal: Proposal) -> Iterator[str]:
    for number, job in enumerate(proposal.jobs):
        yield f"  {scalar(job.name)}:"
        profiles = [profile.name for profile in proposal.gpu.profiles if not profile.attribute]
        if number == 0 and proposal.strategy is Strategy.MIG and profiles:
            yield f"    {comment('Without a profile all get the largest with which they run at once. There are here:')}"
            yield f"    {comment(', '.join(dict.fromkeys(profiles)))}"
            yield f"    {comment(f'profile: {profiles[0]}')}"
        yield from (f"    {comment(line)}" for line in _about(job))
        yield f"    command: {_command(job.command)}"
        if job.runs > 1:
            yield f"    replicas: {job.runs}"
            yield f"    {comment('In place of replicas a job for each value, spelt in the command as --lr ${matrix.lr}:')}"
            yield f"    {comment('matrix: {lr: [0.1, 1e-3]}')}"


def _about(job: FirstJob) -> Iterator[str]:
    """How the job gets its number of loader workers, or what to do for that."""
    if job.command == STAND_IN:
        yield "A stand-in: put your training's command here, as in: python train.py --lr 0.1"
    elif job.training is None or job.training.shell:
        yield "MIGCTL_NUM_WORKERS in its environment is the number of loader workers that its cores can carry."
    elif job.training.workers_option:
        yield "migctl gives the number of loader workers that the job's cores can carry."
    elif not job.training.reads_workers:
        yield f"{job.training.file} has to take its number of workers from migctl, with `import os` at its top:"
        yield "DataLoader(…, num_workers=int(os.environ.get('MIGCTL_NUM_WORKERS', 4)))"


def _command(command: str | tuple[str, ...]) -> str:
    """As one line where that needs no quotes, else as it has to be."""
    words = tuple(command.split(" ")) if isinstance(command, str) else command
    if len(words) > 1 and all(_SIMPLE.fullmatch(word) for word in words) and words[0][0].isalpha():
        return " ".join(words)
    if isinstance(command, str):
        return scalar(command)
    return f"[{', '.join(scalar(word) for word in command)}]"


def _more() -> list[str]:
    return [
        comment(line)
        for line in (
            "More keys: needs, stage, priority, retries, timeout (the queue), batch_size with batch_size_memory (scaled to each",
            "part of the GPU), storage: nvme (more workers), stop_grace_period. `migctl schema >plan.schema.json` writes them all",
            "down; with `yaml-language-server: $schema=plan.schema.json` in a comment at the top, editors complete and check.",
        )
    ]
