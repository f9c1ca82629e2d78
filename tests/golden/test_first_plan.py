"""The first plans of several machines, comments included; each is read and planned by our own reader and planner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from migctl import planfile
from migctl.core.choices import RuntimeName, Strategy
from migctl.core.proposing.firstplan import first_plan
from migctl.core.proposing.proposal import Seen, Wishes, propose
from migctl.core.proposing.trainings import scripts, trainings
from migctl.engine.planning import Elsewhere, view
from migctl.engine.session import Session
from migctl.nvml.models import board_gpu, parse_boards

TORCH = "import argparse\nimport torch\nfrom torch.utils.data import DataLoader\nloss.backward()\n"
READING = TORCH + 'workers = int(os.environ["MIGCTL_NUM_WORKERS"])\n'
OPTION = TORCH + 'parser.add_argument("--num-workers", type=int)\n'
EIGHT = {f"train_{name}.py": OPTION for name in ("bert", "cnn", "gan", "gru", "mlp", "rnn", "unet", "vit")}
HOSTILE = {
    "train ${HOME}.py": TORCH,
    "train'\"\\`$(id)$$.py": TORCH,
    "-train.py": TORCH,
    "train: #x.py": TORCH,
    "train\nx.py": TORCH,
    "훈련_train.py": TORCH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    boards: str
    files: dict[str, str]
    wishes: Wishes = Wishes()
    cores: int = 16
    engine: str = ""
    images: tuple[str, ...] = ()
    environment: str = ""

    def seen(self, folder: str) -> Seen:
        return Seen(
            gpus=tuple(board_gpu(s.board, n, mig_on=s.mig_on) for n, s in enumerate(parse_boards(self.boards))),
            cores=self.cores,
            trainings=trainings(self.files),
            scripts=scripts(self.files),
            engine=self.engine,
            images=self.images,
            environment=self.environment,
            python="python",
            folder=folder,
        )


CASES = {
    "eight-scripts-on-a100": Case(boards="a100-40gb", files=EIGHT, environment=".venv", cores=32),
    "one-script-in-containers": Case(
        boards="h100-sxm5-80gb", files={"main.py": READING}, engine="docker 27.1",
        images=("busybox:latest", "lab/cuda-tools:1", "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"),
    ),
    "mode-off": Case(boards="a100-40gb:off", files={"train.py": TORCH}),
    "mode-off-and-mig-wished": Case(boards="a100-40gb:off", files={"train.py": TORCH}, wishes=Wishes(strategy=Strategy.MIG)),
    "no-mig": Case(boards="t4", files={"finetune.sh": "#!/bin/sh\npython finetune.py\n"}, cores=4),
    "mixed-boards": Case(boards="t4,a30,a100-40gb:off", files={"train.py": OPTION}),
    "no-script": Case(boards="a30", files={"notes.py": "print('hello')\n"}),
    "one-after-another": Case(
        boards="a100-40gb", files={}, wishes=Wishes(strategy=Strategy.SEQUENTIAL, commands=("python a.py --lr 0.1", "python b.py"))
    ),
    "hostile-names": Case(boards="a100-40gb", files=HOSTILE, wishes=Wishes(runtime=RuntimeName.PROCESS, runs=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_first_plan_says_what_it_does_and_can_be_planned(
    name: str, golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    case = CASES[name]
    folder = tmp_path / "my project"
    folder.mkdir()
    seen = case.seen(folder.name)
    proposal = propose(seen, case.wishes)

    text = first_plan(proposal, seen, on=case.boards)

    golden(f"init/{name}", text)
    assert max(len(line) for line in text.splitlines() if not line.startswith("    command")) <= 132
    plan = planfile.loads(text, "plan.yaml", folder, {"HOME": "/root"})
    assert len(plan.jobs) == proposal.runs
    answer = view(Session(environ={}), plan, Elsewhere(boards=case.boards, cores=case.cores))
    assert len(answer.allocation.assignments) + len(answer.waits) == proposal.runs


def test_what_a_hostile_file_is_called_reaches_the_program_as_it_is() -> None:
    case = CASES["hostile-names"]
    seen = case.seen("x")

    text = first_plan(propose(seen, case.wishes), seen)

    plan = planfile.loads(text, "plan.yaml", Path("/"), {"HOME": "/root"})
    called = {job.command[1].removeprefix("./") for job in plan.jobs if job.command}
    assert called == set(HOSTILE)
