"""Whether a job is the same job in a later plan."""

from __future__ import annotations

from dataclasses import replace

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.plan import ByProfile, Job
from migctl.core.runs.sameness import digest, spec

KEY = b"k" * 32
JOB = Job(name="a", origin="a", request=ByProfile("1g.5gb"), environment=(("LR", "0.1"), ("HF_TOKEN", "secret-value")))


def test_a_changed_environment_value_makes_another_job() -> None:
    assert digest(replace(JOB, environment=(("LR", "0.2"), ("HF_TOKEN", "secret-value"))), KEY) != digest(JOB, KEY)


def test_where_a_job_stands_in_the_file_does_not_matter() -> None:
    assert digest(replace(JOB, origin="other"), KEY) == digest(JOB, KEY)


def test_the_digest_is_keyed() -> None:
    assert digest(JOB, b"x" * 32) != digest(JOB, KEY)


def test_the_spec_names_variables_and_never_their_values() -> None:
    text = spec(JOB)

    assert "HF_TOKEN" in text
    assert "secret-value" not in text


def test_requests_of_different_kinds_with_equal_numbers_differ() -> None:
    from migctl.core.plan import ByMemory, BySlices

    assert digest(replace(JOB, request=ByMemory(4)), KEY) != digest(replace(JOB, request=BySlices(4)), KEY)


def test_a_cpuset_is_written_as_a_linux_list() -> None:
    assert '"cpuset":"0-3"' in spec(replace(JOB, cpuset=CpuSet({0, 1, 2, 3})))
