"""The questions before a first plan, at most four: what is asked, what is proposed, and what an answer means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from migctl.core.choices import RuntimeName, Strategy
from migctl.core.proposing.proposal import DEFAULT_IMAGE, Seen, Wishes, propose

MOST_RUNS = 1000
_HERE = "here"
_ALL = "all"
_NOTHING = "a stand-in"


class Question(StrEnum):
    """One question; its value is the option that answers it beforehand."""

    COMMANDS = "--command"
    RUNS = "--runs"
    PLACE = "--image (or --runtime)"
    STRATEGY = "--strategy"


class Unanswered(Exception):  # noqa: N818 -- asked again, and never leaves the asking
    """What was answered is no answer; the message says what is."""


@dataclass(frozen=True, slots=True)
class Wording:
    """A question as it is put."""

    told: tuple[str, ...]
    """Lines before it."""
    text: str
    proposed: str
    """What an empty answer means."""


def open_questions(seen: Seen, wishes: Wishes) -> tuple[Question, ...]:
    """What the wishes leave open, in the order of asking; what this machine leaves no choice about is not asked."""
    found = []
    if not wishes.commands:
        found.append(Question.COMMANDS)
    if wishes.runs is None:
        found.append(Question.RUNS)
    if wishes.image is None and wishes.runtime is None and seen.engine:
        found.append(Question.PLACE)
    if wishes.strategy is None:
        found.append(Question.STRATEGY)
    return tuple(found)


def wording(question: Question, seen: Seen, wishes: Wishes) -> Wording:
    """How to put it."""
    proposal = propose(seen, wishes)
    match question:
        case Question.COMMANDS:
            files = [training.file for training in seen.trainings]
            if not files:
                return Wording((), "What shall run? A command line, as python train.py --lr 0.1", _NOTHING)
            listed = ("Here are " + ", ".join(f"{number} {file}" for number, file in enumerate(files, 1)),)
            return Wording(listed, "What shall run? Numbers, all, or a command line", _ALL if len(files) > 1 else "1")
        case Question.RUNS:
            return Wording((), "How many runs of each?", str(proposal.jobs[0].runs))
        case Question.PLACE:
            active = f" (in {seen.environment})" if seen.environment else ""
            return Wording((), f"Where? An image's name, or here, without containers{active}", proposal.image or _HERE)
        case Question.STRATEGY:
            told = (f"How shall they share {proposal.gpu.name}?", *_ways(proposal.gpu.mig is not None))
            return Wording(told, "", proposal.strategy.value)
        case _:
            assert_never(question)


def _ways(able: bool) -> tuple[str, ...]:
    ways = (
        ("  mig         a GPU instance each, at the same time; memory and compute are each one's own",) if able else ()
    )
    return (
        *ways,
        "  sequential  one after another, each with all of it; best where one training fills the GPU",
        "  shared      all at once on the whole of it, with few workers and small batches",
    )


def answered(question: Question, text: str, seen: Seen, wishes: Wishes) -> Wishes:
    """The wishes with this answer.

    Raises:
        Unanswered: it is none.
    """
    text = text.strip() or wording(question, seen, wishes).proposed
    match question:
        case Question.COMMANDS:
            return replace(wishes, commands=_commands(text, [training.file for training in seen.trainings]))
        case Question.RUNS:
            if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= MOST_RUNS:
                raise Unanswered(f"a number from 1 to {MOST_RUNS}")
            return replace(wishes, runs=int(text))
        case Question.PLACE:
            if text == _HERE:
                return replace(wishes, runtime=RuntimeName.PROCESS)
            if " " in text:
                raise Unanswered(f"one name, as {DEFAULT_IMAGE}; or {_HERE}")
            return replace(wishes, image=text)
        case Question.STRATEGY:
            if text.lower() not in {strategy.value for strategy in Strategy}:
                raise Unanswered("mig, sequential or shared")
            return replace(wishes, strategy=Strategy(text.lower()))
        case _:
            assert_never(question)


def _commands(text: str, files: Sequence[str]) -> tuple[str, ...]:
    if text == _NOTHING:
        return ()
    if text == _ALL and files:
        return tuple(files)
    if re.fullmatch(r"[0-9]+(?:[ ,]+[0-9]+)*,?", text):
        numbers = [int(number) for number in re.findall(r"[0-9]{1,6}", text)]
        if not all(1 <= number <= len(files) for number in numbers):
            raise Unanswered(f"numbers from 1 to {len(files)}" if files else "a command line")
        return tuple(dict.fromkeys(files[number - 1] for number in numbers))
    return (text,)
