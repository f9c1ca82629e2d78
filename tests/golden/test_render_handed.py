"""What `up` says it handed over to a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from migctl.core.cluster.clusterchoice import Choice
from migctl.core.cluster.clusterrun import ClusterJob, ClusterRun
from migctl.core.cluster.clusters import EngineName
from migctl.core.runs.run import Run
from migctl.errors import Notice
from migctl.render.cluster_text import handed_json, handed_text
from tests.support import exports
from tests.support.render_values import PLAIN

RUN = Run(name="night", plan_path="/p/night.yaml", owner_uid=1000, runtime="docker", strategy="mig", engine="slurm")
PLAN = exports.plan(
    "jobs:\n  base: {image: i, command: x, profile: 3g.20gb}\n"
    "  sweep: {image: i, command: x, profile: 1g.5gb, matrix: {lr: [1, 2, 3]}, environment: {LR: '${matrix.lr}'}, needs: [base]}\n"
)
TURNS = exports.cluster(PLAN)
IDS = {"base": "4711", "sweep": "4712"}
CLUSTER = ClusterRun(
    run="night",
    engine=EngineName.SLURM,
    token="t",
    place="north",
    jobs=tuple(
        ClusterJob(
            name=job.name,
            digest="",
            unit=IDS[turn.group.name],
            index=n if turn.group.array else None,
            profile=turn.group.profile,
            cpus=turn.group.cpus,
            num_workers=turn.group.num_workers,
        )
        for turn in TURNS
        for n, job in enumerate(turn.group.members)
    ),
)
ALL = tuple(job.name for job in PLAN.jobs)
NEW = Choice(handed=ALL, kept=(), changed=(), removed=(), leaving=(), taken_out=())
KEPT = replace(NEW, handed=(), kept=ALL)
SOME = replace(NEW, handed=ALL[1:], kept=ALL[:1], taken_out=("old",))
LOST = Notice("not-expressed", "ports of base is left out: the job shares the node's network")


def test_what_was_handed_over(golden: Callable[[str, str], None]) -> None:
    unborn = replace(CLUSTER, jobs=tuple(replace(job, unit="", index=None) for job in CLUSTER.jobs))
    shown = [
        handed_text(RUN, CLUSTER, TURNS, NEW, (LOST,), PLAIN, quiet=False),
        handed_text(RUN, CLUSTER, (), KEPT, (), PLAIN, quiet=False),
        handed_text(RUN, CLUSTER, TURNS[1:], SOME, (), PLAIN, quiet=False),
        handed_text(RUN, unborn, TURNS, NEW, (), PLAIN, quiet=False, would=True),
        handed_text(RUN, CLUSTER, TURNS, NEW, (LOST,), PLAIN, quiet=True),
    ]

    golden("render/handed", "\n".join(shown))


def test_the_same_as_json(golden: Callable[[str, str], None]) -> None:
    golden("render/handed_json", json.dumps(handed_json(RUN, CLUSTER, SOME, (LOST,)), indent=2) + "\n")
