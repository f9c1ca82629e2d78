"""Whatever bytes stand in a plan file: a plan, or errors of the plan; never anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from migctl import planfile
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.names import LONGEST, expanded, problem, sanitised
from migctl.core.plan import Plan
from migctl.errors import PlanError, Problems
from migctl.planfile.models import JOB_KEYS, PLAN_KEYS

PLANS = Path(__file__).parents[1] / "data" / "plans"

_SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
FAST = settings(max_examples=100, deadline=None, suppress_health_check=_SLOW)

# fmt: off
WORDS = st.sampled_from([
    "1g.5gb", "012", "0", "-1", "1e-4", "on", "~", "", "8g", "1m", "1.10", "2026-11-30", "1:30", "all", "auto",
    "${A}", "${A:-x}", "${", "${matrix.m}", "${MIGCTL_JOB}", "$$", "*a", "'", "a: b", "a b", "\t", "é", "\U0001f600",
    "./x:/y", "80:80", "x" * 70,
])
# fmt: on
KEYS = st.sampled_from(["source", "target", "type", "path", "soft", "hard", "model", "m", "A"]) | WORDS
SCALARS = WORDS | st.text(max_size=12) | st.integers(-3, 99).map(str) | st.floats(allow_nan=True).map(str)
QUOTED = SCALARS.map(lambda text: "'" + "".join(c for c in text if c.isprintable()).replace("'", "''") + "'")


def flow_list(items: list[str]) -> str:
    return "[" + ", ".join(items) + "]"


def flow_mapping(pairs: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"


VALUES = st.recursive(
    SCALARS | QUOTED,
    lambda inner: (
        st.lists(inner, max_size=3).map(flow_list) | st.dictionaries(KEYS, inner, max_size=3).map(flow_mapping)
    ),
    max_leaves=5,
)
TOP = st.dictionaries(st.sampled_from([key for key in PLAN_KEYS if key != "jobs"]), VALUES, max_size=3)
JOBS = st.dictionaries(st.sampled_from(JOB_KEYS), VALUES, max_size=5)


def outcome(text: str | bytes, folder: Path, **overrides: planfile.Value) -> Plan | Problems:
    """The plan or its mistakes; any other exception goes through."""
    try:
        if isinstance(text, bytes):
            path = folder / "plan.yaml"
            path.write_bytes(text)
            made = planfile.load(path, {"A": "1"}, **overrides)
        else:
            made = planfile.loads(text, "plan.yaml", folder, {"A": "1"}, **overrides)
    except Problems as problems:
        if not all(type(one) is PlanError and one.message and "\n" not in one.message for one in problems.all):
            pytest.fail(repr(problems.all))
        return problems
    assert all(problem(job.name) is None for job in made.jobs)
    return made


@FAST
@given(data=st.binary(max_size=200))
@example(data=b"\xff\xfe\x00")
@example(data=b"[" * 100_000)
@example(data=b"- " * 50_000)
@example(data=b"? " * 50_000)
@example(data=b"&a " * 1000)
@example(data=b"jobs: &a {b: *a}")
def test_bytes(data: bytes, tmp_path: Path) -> None:
    outcome(data, tmp_path)


@FAST
@given(text=st.text(max_size=200) | st.text(alphabet="jobs: a{}[]&*<!|>%@`'\"#-?,.\n\t$", max_size=120))
def test_text(text: str, tmp_path: Path) -> None:
    outcome(text, tmp_path)


@FAST
@given(job=JOBS, plan=TOP, runtime=st.sampled_from(["docker", "process"]))
def test_values_of_every_key(job: dict[str, str], plan: dict[str, str], runtime: str, tmp_path: Path) -> None:
    lines = [f"{key}: {value}" for key, value in plan.items()]
    lines += ["jobs:", "  a:", "    x-a: &a 1", *(f"    {key}: {value}" for key, value in job.items())]

    outcome("\n".join(lines), tmp_path, runtime=runtime)


@FAST
@given(position=st.integers(0, 900), junk=st.text(max_size=3), length=st.integers(0, 9))
def test_a_good_plan_with_a_damaged_place(position: int, junk: str, length: int, tmp_path: Path) -> None:
    text = (PLANS / "sweep.yaml").read_text("utf-8")

    outcome(text[:position] + junk + text[position + length :], tmp_path)


@FAST
@given(lines=st.lists(st.text(alphabet="AB= '\"\\$#{}\t:x-", max_size=20), max_size=6))
def test_env_files(lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.env").write_text("\n".join(lines), encoding="utf-8")

    outcome("jobs: {a: {image: i, env_file: x.env}}", tmp_path)


@FAST
@given(
    job=st.text(max_size=80),
    matrix=st.lists(st.tuples(st.text(max_size=9), st.text(max_size=40)), max_size=4),
    replica=st.none() | st.integers(1, 9999),
)
def test_expanded_names_are_names(job: str, matrix: list[tuple[str, str]], replica: int | None) -> None:
    name = expanded(sanitised(job, "job"), matrix, replica)

    assert problem(name) is None
    assert len(name) <= LONGEST
    assert problem(sanitised(job, "job")) is None


@FAST
@given(values=st.lists(st.text(alphabet="ab", min_size=80, max_size=90), min_size=2, max_size=9, unique=True))
def test_long_names_that_differ_at_their_ends_stay_different(values: list[str]) -> None:
    names = [expanded("job", [("k", "c" * 60 + value)]) for value in values]

    assert len(set(names)) == len(names)
    assert all(len(name) == LONGEST for name in names)


@FAST
@given(cpus=st.sets(st.integers(0, 300), min_size=1))
def test_a_cpuset_reads_the_same_as_text_and_as_a_list(cpus: set[int], tmp_path: Path) -> None:
    wanted = CpuSet(cpus)
    forms = [f'"{wanted}"', "[" + ", ".join(map(str, cpus)) + "]"]

    for form in forms:
        made = outcome(f"jobs: {{a: {{image: i, cpuset: {form}}}}}", tmp_path)
        assert isinstance(made, Plan)
        assert made.jobs[0].cpuset == wanted
