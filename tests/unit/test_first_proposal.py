"""What is proposed for a first plan, which questions are open, and what their answers mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.core.choices import RuntimeName, Strategy
from migctl.core.gpu.mig import GpuProcess
from migctl.core.proposing.proposal import DEFAULT_IMAGE, STAND_IN, Seen, Wishes, best_gpu, propose
from migctl.core.proposing.questions import Question, Unanswered, answered, open_questions, wording
from migctl.core.proposing.trainings import Training, scripts, trainings
from migctl.nvml.models import board_gpu, parse_boards

LEARNS = "import torch\nif __name__ == '__main__':\n    loss.backward()\n"


def seen(boards: str = "a100-40gb", **more: object) -> Seen:
    gpus = tuple(board_gpu(slot.board, n, mig_on=slot.mig_on) for n, slot in enumerate(parse_boards(boards)))
    return replace(Seen(gpus=gpus, cores=8), **more)  # type: ignore[arg-type]  # a table of fields


FILES = [
    ({"train.py": LEARNS, "models.py": "import torch\nclass Net: pass\n"}, ["train.py"]),
    ({"a.py": LEARNS, "test_a.py": LEARNS, "conftest.py": LEARNS}, ["a.py"]),
    ({"lib.py": "import torch\noptimizer = 1\n"}, []),
    ({"train.py": "from mylib import go\ngo()\n"}, ["train.py"]),
    ({"train.py": "from mylib import go\n", "other.py": LEARNS}, ["other.py"]),
    ({"run.sh": "set -e\npython x.py\n", "setup.sh": "pip install x\n"}, ["run.sh"]),
    ({"keras_fit.py": "from keras import Model\nmodel.fit(x)\n"}, ["keras_fit.py"]),
    ({"notes.py": "# import torch, then loss.backward()\n"}, []),
    ({}, []),
]


@pytest.mark.parametrize(("files", "expected"), FILES, ids=[str(list(files)) for files, _ in FILES])
def test_what_looks_like_a_training_is_found(files: dict[str, str], expected: list[str]) -> None:
    assert [training.file for training in trainings(files)] == expected


@pytest.mark.parametrize(
    ("text", "option", "reads"),
    [
        ("parser.add_argument('--num-workers', type=int)", "--num-workers", False),
        ('@click.option("--num_workers", "-w")', "--num_workers", False),
        ('add_argument("-j", "--workers")', "--workers", False),
        ('os.environ.get("MIGCTL_NUM_WORKERS")', "", True),
        ("num_workers=8", "", False),
        ('"--workers-per-node"', "", False),
    ],
)
def test_how_a_script_takes_its_workers_is_read_from_its_text(text: str, option: str, reads: bool) -> None:
    assert scripts({"x.py": text}) == (Training("x.py", option, reads),)


@pytest.mark.parametrize(
    ("boards", "index"),
    [("t4,a100-40gb", 1), ("a100-40gb:off,a30", 1), ("a100-40gb:off,t4", 0), ("t4x2", 0), ("a100-40gbx2", 0)],
)
def test_a_first_plan_goes_where_instances_can_be_made(boards: str, index: int) -> None:
    assert best_gpu(seen(boards).gpus).index == index


def test_of_equal_gpus_the_idle_one_is_taken() -> None:
    first, second = seen("a100-40gbx2").gpus

    assert best_gpu((replace(first, processes=(GpuProcess(7, None, None),)), second)) is second


STRATEGIES = {"a100-40gb": Strategy.MIG, "a100-40gb:off": Strategy.SHARED, "t4": Strategy.SHARED}


@pytest.mark.parametrize("boards", STRATEGIES)
def test_the_mig_mode_is_changed_for_nobody_who_did_not_ask(boards: str) -> None:
    proposal = propose(seen(boards), Wishes())

    assert proposal.strategy is STRATEGIES[boards]
    assert not proposal.enabling
    assert propose(seen("a100-40gb:off"), Wishes(strategy=Strategy.MIG)).enabling


PLACES = [
    ({}, Wishes(), None),
    ({"engine": "docker", "images": ("busybox",)}, Wishes(), None),
    ({"engine": "docker", "images": ("busybox", "lab/torch:1")}, Wishes(), "lab/torch:1"),
    ({"engine": "docker", "images": ("nvidia/cuda:12", "a/pytorch:2")}, Wishes(), "a/pytorch:2"),
    ({"engine": "docker", "images": ("lab/torch:1",), "environment": "venv"}, Wishes(), None),
    ({"engine": "docker"}, Wishes(runtime=RuntimeName.DOCKER), DEFAULT_IMAGE),
    ({"engine": "docker", "images": ("lab/torch:1",)}, Wishes(runtime=RuntimeName.PROCESS), None),
    ({}, Wishes(image="mine:1"), "mine:1"),
]


@pytest.mark.parametrize(("there", "wishes", "image"), PLACES)
def test_containers_are_proposed_where_an_image_for_trainings_is_there(
    there: dict[str, object], wishes: Wishes, image: str | None
) -> None:
    assert propose(seen(**there), wishes).image == image


def test_a_single_script_is_compared_with_itself_and_several_run_once() -> None:
    one = trainings({"train.py": LEARNS})
    two = trainings({"train.py": LEARNS, "other.py": LEARNS})

    assert [job.runs for job in propose(seen(trainings=one), Wishes()).jobs] == [2]
    assert [job.runs for job in propose(seen(trainings=two), Wishes()).jobs] == [1, 1]
    assert propose(seen(), Wishes()).jobs[0].command == STAND_IN


def test_files_whose_names_become_one_are_two_jobs() -> None:
    jobs = propose(seen(), Wishes(commands=("python a/train.py", "python b/train.py", "sh train.sh"))).jobs

    assert [job.name for job in jobs] == ["train", "train-2", "train-3"]


def test_at_most_four_questions_are_asked_and_none_that_is_answered() -> None:
    everything = Wishes(commands=("x",), runs=1, image="i", strategy=Strategy.MIG)

    assert open_questions(seen(engine="docker"), Wishes()) == tuple(Question)
    assert len(Question) == 4
    assert open_questions(seen(), Wishes()) == (Question.COMMANDS, Question.RUNS, Question.STRATEGY)
    assert open_questions(seen(engine="docker"), everything) == ()


TWO = trainings({"a_train.py": LEARNS, "b_train.py": LEARNS})
ANSWERS = [
    (Question.COMMANDS, "", Wishes(commands=("a_train.py", "b_train.py"))),
    (Question.COMMANDS, "2", Wishes(commands=("b_train.py",))),
    (Question.COMMANDS, "2, 1 2", Wishes(commands=("b_train.py", "a_train.py"))),
    (Question.COMMANDS, "python x.py --lr 1", Wishes(commands=("python x.py --lr 1",))),
    (Question.RUNS, "7", Wishes(runs=7)),
    (Question.RUNS, "\n", Wishes(runs=1)),
    (Question.PLACE, "here", Wishes(runtime=RuntimeName.PROCESS)),
    (Question.PLACE, "lab/train:2", Wishes(image="lab/train:2")),
    (Question.STRATEGY, "Sequential", Wishes(strategy=Strategy.SEQUENTIAL)),
    (Question.STRATEGY, "", Wishes(strategy=Strategy.MIG)),
]


@pytest.mark.parametrize(("question", "text", "expected"), ANSWERS)
def test_an_answer_is_a_wish(question: Question, text: str, expected: Wishes) -> None:
    assert answered(question, text, seen(trainings=TWO, engine="docker"), Wishes()) == expected


@pytest.mark.parametrize(
    ("question", "text", "told"),
    [
        (Question.COMMANDS, "3", "numbers from 1 to 2"),
        (Question.COMMANDS, "0", "numbers from 1 to 2"),
        (Question.RUNS, "0", "a number from 1 to 1000"),
        (Question.RUNS, "many", "a number from 1 to 1000"),
        (Question.PLACE, "two words", "one name"),
        (Question.STRATEGY, "mps", "mig, sequential or shared"),
    ],
)
def test_what_is_no_answer_is_asked_again(question: Question, text: str, told: str) -> None:
    with pytest.raises(Unanswered, match=told):
        answered(question, text, seen(trainings=TWO), Wishes())


def test_a_gpu_without_mig_is_not_offered_it() -> None:
    assert "  mig " not in "\n".join(wording(Question.STRATEGY, seen("t4"), Wishes()).told)
