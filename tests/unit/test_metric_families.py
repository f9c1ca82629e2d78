"""What is exported: conventional names and units, unknown figures absent, joins that a reused id cannot mislead."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from migctl.core.runs.record import JobState
from migctl.core.seeing.figure_metrics import figure_families
from migctl.core.seeing.run_metrics import MOST_JOBS, jobs_holding, run_families
from migctl.core.seeing.tallies import added, kept
from migctl.core.views.metrics import Family, MetricKind, family, labels
from migctl.core.views.status import StatusView
from migctl.render.exposition import OPEN_METRICS, TEXT, content_type, exposition, metrics_json
from tests.support import metric_values as values

UNITS = ("seconds", "bytes", "ratio", "watts", "celsius", "hertz")


def everything(jobs: int = 7) -> tuple[Family, ...]:
    seen = values.reading(jobs)
    return (
        *run_families(values.status(jobs), supervised=True),
        *figure_families(seen, values.diagnosis(), added({}, seen)),
    )


def points(families: tuple[Family, ...], name: str) -> Mapping[tuple[tuple[str, str], ...], float]:
    return {p.labels: p.value for one in families if one.name == name for p in one.points}


def test_every_name_says_its_unit_and_kind() -> None:
    for one in everything():
        assert re.fullmatch(r"migctl_[a-z][a-z0-9_]*", one.name)
        assert one.help.endswith(".")
        assert one.name.endswith("_total") is (one.kind is MetricKind.COUNTER)
        assert one.name.endswith("_info") is (one.kind is MetricKind.INFO)
        assert not re.search(r"_(mib|mhz|ms|percent|kb)\b", one.name)
        assert not re.search(r"(bytes|seconds|ratio|watts|hertz)_", one.name.removesuffix("_total")), one.name


def test_a_name_stands_once_and_no_label_is_prometheus_own() -> None:
    names = [one.name for one in everything()]
    used = {name for one in everything() for p in one.points for name, _ in p.labels}

    assert len(names) == len(set(names))
    assert used & {"job", "instance", "le", "quantile", "__name__"} == set()
    assert {"run", "job_name", "UUID", "GPU_I_ID", "GPU_I_PROFILE", "cpuset"} <= used


def test_no_series_stands_twice() -> None:
    for one in everything():
        assert len({p.labels for p in one.points}) == len(one.points), one.name


def test_only_who_has_a_place_is_joined_by_it() -> None:
    found = points(everything(), "migctl_job_info")

    assert {dict(k)["job_name"] for k in found} == {f"job-{n}" for n in range(1, 6)}
    assert set(found.values()) == {1.0}
    places = [(dict(k)["UUID"], dict(k)["GPU_I_ID"]) for k in found]
    assert len(places) == len(set(places))
    first = dict(next(iter(found)))
    assert first["cpuset"] == "2-3"
    assert first["GPU_I_PROFILE"] == "1g.5gb"


def test_a_state_and_a_verdict_are_one_of_a_set() -> None:
    states = points(everything(), "migctl_job_state")
    verdicts = points(everything(), "migctl_job_verdict")
    of_failed = {dict(k)["state"]: v for k, v in states.items() if dict(k)["job_name"] == "job-0"}

    assert of_failed == {state.value: float(state is JobState.FAILED) for state in JobState}
    assert {dict(k)["verdict"]: v for k, v in verdicts.items() if dict(k)["job_name"] == "job-1"}["cpu-bound"] == 1.0
    assert sum(verdicts.values()) == 1.0


def test_what_is_not_known_is_absent_and_not_zero() -> None:
    families = everything()

    assert len(points(families, "migctl_job_samples_per_second")) == 1
    assert points(families, "migctl_job_throttled_seconds_total") == {}
    assert points(families, "migctl_gpu_power_limit_watts") == {}
    assert "migctl_job_throttled_seconds_total" not in exposition(families)
    assert set(points(families, "migctl_job_figures_unknown").values()) == {1.0}
    assert {dict(k)["job_name"] for k in points(families, "migctl_job_exit_code")} == {"job-0"}


def test_units_are_base_units() -> None:
    families = everything()

    assert set(points(families, "migctl_job_memory_bytes").values()) == {float(1 << 30)}
    assert set(points(families, "migctl_gpu_sm_clock_hertz").values()) == {1.41e9}
    assert set(points(families, "migctl_instance_memory_size_bytes").values()) == {4864.0 * (1 << 20)}
    assert set(points(families, "migctl_gpu_throttled").values()) == {0.0}


def test_an_instance_bears_the_name_of_its_job_and_a_strangers_none() -> None:
    found = points(everything(), "migctl_instance_memory_used_bytes")
    strange = [dict(k) for k in found if "run" not in dict(k)]

    assert [one["GPU_I_ID"] for one in strange] == ["13"]
    assert {dict(k)["job_name"] for k in found if "run" in dict(k)} == {f"job-{n}" for n in range(1, 6)}


def test_an_instance_that_several_jobs_share_bears_no_name() -> None:
    seen = values.reading(4)
    first, *_ = seen.jobs
    both = replace(seen, jobs=(*seen.jobs, replace(first, job="another")))
    found = points(figure_families(both, values.diagnosis(), {}), "migctl_instance_memory_used_bytes")

    assert {dict(k).get("job_name") for k in found if dict(k)["GPU_I_ID"] == "2"} == {None}


def test_counters_grow_by_what_happened_and_end_with_their_job() -> None:
    sums = added(added({}, values.reading(seconds=2.0)), values.reading(seconds=1.0))

    assert sums["migctl_job_cpu_seconds_total", "night", "job-1"] == pytest.approx(4.5)
    assert sums["migctl_job_read_bytes_total", "night", "job-1"] == pytest.approx(6 * (1 << 20))
    assert sums["migctl_job_cpu_busy_seconds_total:2", "night", "job-1"] == pytest.approx(1.5)
    assert {key[2] for key in kept(sums, jobs_holding(values.status(4)))} == {"job-1", "job-2"}


def test_the_queue_is_told() -> None:
    families = run_families(values.status(held=True), supervised=False)

    assert points(families, "migctl_queue_held") == {(("run", "night"),): 1.0}
    assert points(families, "migctl_supervisor_up") == {(): 0.0}
    assert points(families, "migctl_drift_differences") == {(): 1.0}
    assert points(families, "migctl_run_jobs")[(("run", "night"), ("state", "queued"))] == 1.0
    assert points(families, "migctl_gpu_memory_slices_used") == {(("UUID", values.GPU),): 6.0}


def test_of_ten_thousand_jobs_those_that_run_have_series_and_the_rest_is_counted() -> None:
    view: StatusView = values.status(10_000)
    jobs = tuple(replace(job, state=JobState.QUEUED) if n > 5 else job for n, job in enumerate(view.runs[0].jobs))
    many = run_families(replace(view, runs=(replace(view.runs[0], jobs=jobs),)), supervised=True)

    assert points(many, "migctl_jobs_left_out") == {(): 10_000.0 - MOST_JOBS}
    assert len(points(many, "migctl_job_info")) == 5
    assert len(points(many, "migctl_job_state")) == 7 * MOST_JOBS
    assert points(many, "migctl_run_jobs")[(("run", "night"), ("state", "queued"))] == 10_000 - 6


def test_a_scrape_of_seven_jobs_is_written_in_a_few_milliseconds() -> None:
    begun = time.process_time()
    for _ in range(5):
        exposition(everything())

    assert (time.process_time() - begun) / 5 < 0.05


def test_the_text_is_escaped_and_ordered() -> None:
    odd = family(
        "migctl_x", MetricKind.GAUGE, 'back\\slash "quoted"\nline', [(labels(run='a"b\\c\nd'), 1.5), ((), None)]
    )

    assert exposition([odd]) == (
        '# HELP migctl_x back\\\\slash "quoted"\\nline\n# TYPE migctl_x gauge\nmigctl_x{run="a\\"b\\\\c\\nd"} 1.5\n'
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0, "0"),
        (1e6, "1000000"),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (2.0**60, "1.152921504606847e+18"),
    ],
)
def test_numbers_are_written_as_prometheus_reads_them(value: float, written: str) -> None:
    assert exposition([family("x", MetricKind.GAUGE, "h", [((), value)])]).splitlines()[-1] == f"x {written}"


def test_openmetrics_names_families_without_their_endings_and_ends() -> None:
    text = exposition(everything(), OPEN_METRICS)

    assert text.endswith("\n# EOF\n")
    assert "# TYPE migctl_job_cpu_seconds counter\n# UNIT migctl_job_cpu_seconds seconds\n" in text
    assert "# TYPE migctl_job info\n" in text
    assert "\nmigctl_job_cpu_seconds_total{" in text
    families = re.findall(r"(?m)^# TYPE (\S+)", text)
    assert len(families) == len(set(families))


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", OPEN_METRICS),
    ],
)
def test_a_scraper_gets_the_format_it_asks_for(accept: str, kind: str) -> None:
    assert content_type(accept) == kind


def test_the_object_has_the_same_points() -> None:
    value = metrics_json(everything())
    metrics = value["metrics"]
    assert isinstance(metrics, list)

    assert value["version"] == 1
    assert {one["name"] for one in metrics} == {one.name for one in everything() if one.points}
