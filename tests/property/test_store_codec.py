"""Any record survives its JSON, and no text whatever makes the reader do anything but refuse."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.core.runs.record import Action, JobState, Ownership, Record
from migctl.core.runs.run import Run
from migctl.store.codec import TooNew, decode_record, decode_records, decode_run, encode_record, encode_run

whole = st.integers(-(2**63), 2**63 - 1)
number = st.floats(allow_nan=False, allow_infinity=False)
text = st.text(max_size=20)
cpus = st.frozensets(st.integers(0, 65535), max_size=8).map(CpuSet)
placements = st.builds(Placement, whole, whole.map(MemorySlices))
owned = st.builds(
    Ownership,
    gpu_uuid=text,
    gi_id=whole,
    profile_id=whole,
    placement=placements,
    boot_id=text,
    ci_id=st.none() | whole,
    mig_uuid=st.none() | text,
    foreign=st.booleans(),
)
records = st.builds(
    Record,
    run=text,
    job=text,
    attempt=whole,
    revision=whole,
    token=text,
    runtime=text,
    strategy=text,
    state=st.sampled_from(JobState),
    digest=text,
    spec=text,
    gpu_uuid=st.none() | text,
    profile=st.none() | text,
    profile_id=st.none() | whole,
    placement=st.none() | placements,
    memory_mib=st.none() | whole,
    cpus=cpus,
    mems=st.none() | cpus,
    cores=whole,
    num_workers=whole,
    grace_s=number,
    boot_id=text,
    intent=st.none() | st.sampled_from(Action),
    instance=st.none() | owned,
    container_id=st.none() | text,
    container_name=st.none() | text,
    pid=st.none() | whole,
    pid_start=st.none() | whole,
    exit_code=st.none() | whole,
    reason=st.none() | text,
    created_at=st.none() | number,
    started_at=st.none() | number,
    finished_at=st.none() | number,
)
runs = st.builds(
    Run,
    name=text,
    plan_path=text,
    owner_uid=whole,
    runtime=text,
    strategy=text,
    nvml=text,
    boot_id=text,
    revision=whole,
    created_at=st.none() | number,
    ended_at=st.none() | number,
    mig_enabled=st.lists(text, max_size=3).map(tuple),
)
FULL = Record(
    run="r",
    job="j",
    token="t",
    runtime="docker",
    strategy="mig",
    digest="d",
    spec="s",
    cpus=CpuSet({0, 1}),
    exit_code=0,
)
VALUES = st.recursive(
    st.none() | st.booleans() | whole | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@given(records)
def test_a_record_is_the_same_after_its_json(value: Record) -> None:
    assert decode_record(encode_record(value)) == value


@settings(max_examples=25)
@given(st.lists(records, max_size=3))
def test_many_records_read_at_once_are_the_same_as_one_by_one(values: list[Record]) -> None:
    assert decode_records([encode_record(value) for value in values]) == values


@given(runs)
def test_a_run_is_the_same_after_its_json(value: Run) -> None:
    assert decode_run(encode_run(value)) == value


@given(records)
def test_the_json_is_one_line_of_ascii(value: Record) -> None:
    line = encode_record(value)

    assert line.isascii()
    assert "\n" not in line


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_bytes_are_a_record_or_a_value_error(data: bytes | str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- every kind of garbage has its own text
        decode_record(data)


@given(st.sampled_from([f.name for f in fields(Record)]), VALUES)
def test_a_field_with_any_value_is_read_exactly_or_refused(name: str, item: object) -> None:
    value = json.loads(encode_record(FULL))
    value["record"][name] = item
    line = json.dumps(value)
    try:
        found = decode_record(line)
    except ValueError:
        return

    assert decode_record(encode_record(found)) == found


@given(st.integers(0, len(encode_record(FULL)) - 1))
def test_a_cut_record_is_refused(length: int) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- depends on where it is cut
        decode_record(encode_record(FULL)[:length])


REFUSED = [
    ("[]", "expected a JSON object"),
    ("{}", "without a version number"),
    ('{"version": true, "record": {}}', "without a version number"),
    ('{"version": 1}', "expected the keys version and record"),
    ('{"version": 1, "record": {}, "more": 1}', "expected the keys version and record"),
    ('{"version": 1, "record": []}', "expected a JSON object, got []"),
    ('{"version": 1, "record": {"run": "r"}}', "without digest, job"),
    ('{"version": 1, "record": {"colour": "red"}}', "unknown field 'colour'"),
    ('{"version": 1, "record": {"attempt": true}}', "attempt: expected an integer, got True"),
    ('{"version": 1, "record": {"attempt": 9223372036854775808}}', "attempt: expected an integer"),
    ('{"version": 1, "record": {"grace_s": NaN}}', "NaN is not a number"),
    ('{"version": 1, "record": {"grace_s": 1e999}}', "grace_s: expected a number, got inf"),
    ('{"version": 1, "record": {"state": "flying"}}', "state: 'flying' is not a valid JobState"),
    ('{"version": 1, "record": {"cpus": "3-1"}}', "cpus: the CPU range '3-1' runs backwards"),
    ('{"version": 1, "record": {"placement": {"start": 0}}}', "placement: without size"),
    ("[" * 100_000, "nested too deeply"),
]


@pytest.mark.parametrize(("line", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_a_refusal_says_where_it_is_wrong(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        decode_record(line)

    assert str(caught.value).startswith(why)


def test_a_newer_format_is_named_as_such() -> None:
    with pytest.raises(TooNew, match="has format 2, this migctl reads up to 1"):
        decode_record('{"version": 2, "record": {"of": "tomorrow"}}')
