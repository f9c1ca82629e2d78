"""The proof's arithmetic, targets, tables and picture, on figures made up here: no training runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "scripts/bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The benchmark's modules, by their own names as its script imports them."""
    monkeypatch.syspath_prepend(str(BENCH))
    import overload_cases
    import overload_picture
    import overload_processes
    import overload_report
    import overload_runs

    return SimpleNamespace(
        cases=overload_cases,
        picture=overload_picture,
        processes=overload_processes,
        report=overload_report,
        runs=overload_runs,
    )


def outcome(bench: SimpleNamespace, **figures: Any) -> Any:
    given: dict[str, Any] = {
        "done_s": 4.0,
        "total_per_s": 400.0,
        "watched_per_s": 200.0,
        "p95_ms": 100.0,
        "processes": 18,
        "memory_mib": 1000.0,
        "switches_per_s": 900.0,
        "others": 0.01,
        "up_s": None,
    }
    return bench.runs.Outcome(**{**given, **figures})


def measured(bench: SimpleNamespace) -> list[Any]:
    """Two rounds of situation 1 on two cores, in which the second was slower for everybody."""
    slower = {"total_per_s": 200.0, "p95_ms": 200.0}
    own = {"total_per_s": 420.0, "p95_ms": 50.0, "memory_mib": 420.0, "processes": 6, "up_s": 0.4}
    row = bench.report.Measured
    return [
        row("equal-2-sleep", "naive-8", "naive, 8 workers", [outcome(bench), outcome(bench, **slower)]),
        row("equal-2-sleep", "careful", "by hand, 1 worker", [outcome(bench, p95_ms=60.0), outcome(bench, **slower)]),
        row(
            "equal-2-sleep",
            "migctl",
            "migctl up",
            [outcome(bench, **own), outcome(bench, **{**own, "total_per_s": 190.0, "p95_ms": 140.0})],
        ),
        row("equal-4-sleep", "naive-8", "naive, 8 workers", [outcome(bench), outcome(bench)]),
        row(
            "equal-4-sleep",
            "queue",
            "migctl up, queue",
            [outcome(bench, processes=None), outcome(bench, processes=None)],
        ),
    ]


@pytest.fixture
def machine(bench: SimpleNamespace) -> Any:
    return bench.report.Machine("Some CPU", 2, 2, 24, "6.1", "3.11.2", "2026-01-01", 2)


def titles(bench: SimpleNamespace) -> dict[str, Any]:
    return {situation.key: situation for situation in bench.cases.situations(2, 2, 1.0)}


def test_every_situation_of_the_proof_is_there_in_all_three_ways(bench: SimpleNamespace) -> None:
    found = bench.cases.situations(2, 2, 1.0)
    ways = {s.key: {a.key.split("-")[0] for a in s.arrangements} for s in found}

    assert len(ways) == len(found)
    for key in (
        "equal-2-sleep",
        "equal-2-spin",
        "equal-4-sleep",
        "equal-4-spin",
        "neighbour",
        "main-process",
        "numeric",
    ):
        assert ways[key] >= {"naive", "careful", "migctl"}
    assert "queue" in ways["equal-4-sleep"]
    assert {"parallel", "turns"} <= ways["turns"]
    for situation in found:
        for arrangement in situation.arrangements:
            by_hand = arrangement.how == "by hand"
            assert not by_hand or set(arrangement.workers) == {t.name for t in situation.trainings}


@pytest.mark.parametrize(
    ("cores", "logical", "by_hand", "oversubscribed"), [(2, 2, 1, True), (8, 8, 2, False), (2, 4, 1, False)]
)
def test_workers_by_hand_and_the_need_to_oversubscribe_follow_the_machine(
    bench: SimpleNamespace, cores: int, logical: int, by_hand: int, oversubscribed: bool
) -> None:
    four = next(s for s in bench.cases.situations(cores, logical, 1.0) if s.key == "equal-4-sleep")
    ways = {arrangement.key: arrangement for arrangement in four.arrangements}

    assert set(ways["careful"].workers.values()) == {by_hand}
    assert ("oversubscribe" in ways["migctl"].plan) is oversubscribed
    assert ("queue" in ways) is oversubscribed


def ran(begun: float, batches: list[float], cpus: list[int]) -> dict[str, Any]:
    return {
        "begun": begun,
        "ended": begun + sum(batches),
        "samples": 10 * len(batches),
        "batch_s": batches,
        "cpus": cpus,
    }


@pytest.mark.parametrize(
    ("results", "done_s", "why"),
    [
        ({"a": ran(0, [1, 1], [0, 1]), "b": ran(0.5, [1, 2], [0, 1])}, 3.5, "at once on the same CPUs"),
        ({"a": ran(0, [1, 1], [0]), "b": ran(0, [1, 2], [1])}, 3.0, "at once on CPUs of their own"),
        ({"a": ran(0, [1, 1], [0]), "b": ran(9, [1, 2], [0])}, 5.0, "in turn: the start between them does not count"),
    ],
)
def test_the_time_until_all_are_done(bench: SimpleNamespace, results: dict[str, Any], done_s: float, why: str) -> None:
    situation = bench.cases.Situation("x", "x", bench.cases.equal(2, 2), ())
    trainings = tuple(replace(t, name=name) for t, name in zip(situation.trainings, results, strict=True))

    speeds = bench.runs.speeds(replace(situation, trainings=trainings), results)

    assert speeds["done_s"] == pytest.approx(done_s), why
    assert speeds["total_per_s"] == pytest.approx(40 / done_s)
    assert speeds["watched_per_s"] == pytest.approx(20 / 3)


def test_an_endless_training_counts_until_the_others_are_done(bench: SimpleNamespace) -> None:
    light, heavy = bench.cases.Training("light", 2), bench.cases.Training("heavy", 0)
    situation = bench.cases.Situation("x", "x", (light, heavy), (), watched="light")
    results = {"light": ran(0, [1, 1], [0]), "heavy": ran(0, [0.9, 0.9, 0.9, 5], [1])}

    speeds = bench.runs.speeds(situation, results)

    assert speeds["done_s"] == 2
    assert speeds["total_per_s"] == (20 + 20) / 2
    assert speeds["watched_per_s"] == 10
    assert speeds["p95_ms"] == 1000


def test_targets_compare_within_a_round(bench: SimpleNamespace) -> None:
    found = bench.report.targets(measured(bench))
    texts = [line.text for line in found]

    assert len(texts) == 4
    assert [line.good for line in found] == [True, True, True, True]
    assert "samples/s in total: 1.00 × (0.95 to 1.05; at least 0.95 ×)" in texts[0]
    assert "p95 of the batch time: 0.60 × (0.50 to 0.70; at most 0.6 ×)" in texts[1]


def test_a_missed_target_is_said(bench: SimpleNamespace) -> None:
    rows = measured(bench)
    rows[2].outcomes = [replace(one, memory_mib=900.0) for one in rows[2].outcomes]

    missed = [line.text for line in bench.report.targets(rows) if not line.good]

    assert missed == ["MISS  equal-2-sleep: migctl against naive-8, memory: 0.90 × (0.90 to 0.90; at most 0.5 ×)"]


def test_the_summary_has_every_figure_or_says_that_there_is_none(bench: SimpleNamespace, machine: Any) -> None:
    shown = bench.report.summary(machine, measured(bench), titles(bench))

    assert "2026-01-01, Some CPU, 2 cores, 24 GiB, Linux 6.1, Python 3.11.2, 2 rounds" in shown
    assert "Others used 1.0% of the CPU time" in shown
    assert "| migctl up | 4.00 | 305 (190 to 420) | 200 | 95.0 (50.0 to 140) | 6.00 | 420 | 900 |" in shown
    assert "| migctl up, queue | 4.00 | 400 | 200 | 100 | n/a | 1000 | 900 |" in shown


def test_a_busy_machine_makes_its_figures_doubtful(bench: SimpleNamespace) -> None:
    rows = measured(bench)
    for one in rows:
        one.outcomes = [replace(o, others=0.4) for o in one.outcomes]

    assert "the machine was not quiet" in bench.report.quietness(rows)


def test_what_cannot_be_measured_is_not_a_number(bench: SimpleNamespace, machine: Any) -> None:
    rows = measured(bench)
    rows[0].outcomes = [replace(o, memory_mib=None) for o in rows[0].outcomes]

    assert "| n/a |" in bench.report.summary(machine, rows, titles(bench))
    assert "| n/a |" in bench.report.comparison(bench.report.Results(rows), titles(bench))


def test_the_picture_is_an_svg_with_a_bar_for_each_figure(bench: SimpleNamespace) -> None:
    groups = bench.report.groups(bench.report.Results(measured(bench)), titles(bench))
    tree = ET.fromstring(bench.picture.picture(groups, "a < b & c"))
    inside = "{http://www.w3.org/2000/svg}"
    words = [element.text for element in tree.iter(f"{inside}text")]

    assert "a < b & c" in words
    assert len(list(tree.iter(f"{inside}rect"))) == 1 + 2 + 3 * 4  # page, legend, three arrangements of four figures
    assert float(tree.get("width", 0)) < 1400


def test_the_readme_is_rewritten_between_its_marks_and_nowhere_else(
    bench: SimpleNamespace, machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.report, "ROOT", tmp_path)
    begin, end = bench.report.BEGIN, bench.report.END
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{begin}\nold \\1\n{end}\nafter\n", "utf-8")

    bench.report.write_docs(machine, measured(bench), titles(bench))
    first = readme.read_text("utf-8")
    bench.report.write_docs(machine, measured(bench), titles(bench))

    assert readme.read_text("utf-8") == first
    assert first.startswith(f"before\n{begin}\n![")
    assert first.endswith(f"{end}\nafter\n")
    assert "old" not in first
    assert "| 2 equal trainings, GPU step sleeps | by hand, 1 worker | " in first
    assert (tmp_path / "docs/overload.svg").read_text("utf-8").startswith("<svg ")
    assert "## " in (tmp_path / "docs/overload.md").read_text("utf-8")


def test_a_readme_without_marks_is_left_alone(
    bench: SimpleNamespace, machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.report, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text("mine\n", "utf-8")

    with pytest.raises(SystemExit, match="has no <!-- overload"):
        bench.report.write_docs(machine, measured(bench), titles(bench))
    assert (tmp_path / "README.md").read_text("utf-8") == "mine\n"


def test_saved_figures_can_be_shown_again_without_pytorch(bench: SimpleNamespace, machine: Any, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    saved.write_text(
        json.dumps({"machine": asdict(machine), "measured": [asdict(one) for one in measured(bench)]}), "utf-8"
    )

    shown = subprocess.run(
        [sys.executable, BENCH / "overload.py", "--load", saved], capture_output=True, text=True, check=False
    )

    assert shown.returncode == 0, shown.stderr
    assert bench.report.summary(machine, measured(bench), titles(bench)) in shown.stdout
    assert shown.stdout.count("\nok  ") == 4


def test_a_tree_of_processes_is_counted_with_its_memory_and_switches(bench: SimpleNamespace) -> None:
    script = "import os, time; [os.fork() for _ in range(2)]; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as child:
        try:
            while len(pids := bench.processes.tree([child.pid])) < 4:
                pass
            assert bench.processes.tree([child.pid, child.pid]) == pids
            memory = bench.processes.memory_mib(pids)
            assert memory is None or 1 < memory < 100
            assert bench.processes.switches(pids) >= 4
            assert 0 <= bench.processes.cpu_s(pids) < 5
            assert os.getpid() not in pids
        finally:
            os.killpg(child.pid, 9)


def test_nothing_is_said_of_processes_that_are_gone(bench: SimpleNamespace) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()

    assert bench.processes.tree([gone.pid]) == set()
    assert bench.processes.switches([gone.pid]) == 0
    assert bench.processes.cpu_s([gone.pid]) == 0
