"""What is kept of readings: thinned as it grows old, never lost, and small however long a run is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migctl.core.seeing.readings import CpusReading, InstanceReading, JobReading, Reading
from migctl.core.seeing.tracks import Said, Sample, merged, sample, thinned
from migctl.core.seeing.verdicts import Diagnosis, Kind, Verdict
from migctl.store.samples import FILE, TrackWriter, read_track, said_now
from migctl.watch.recorder import Recorder
from migctl.watch.watcher import Seen

NOW = 1_800_000_000.0
FIGURES = {"own_cpus": 3.217, "memory_mib": 2048.0, "wait_share": 0.031, "gpu_memory_mib": 4100.0}


def folder(tmp_path: Path) -> Path:
    """A state directory with a run."""
    (tmp_path / "state/runs/night").mkdir(parents=True, mode=0o700)
    (tmp_path / "state").chmod(0o700)
    return tmp_path / "state"


def one(at_s: float, seconds: float = 10.0, **figures: float) -> Sample:
    return Sample(
        at_s=at_s, seconds=seconds, jobs={"a": figures or FIGURES}, cpus={0: 0.5}, gpus={"GPU-1": {"power_w": 90.0}}
    )


def test_of_a_reading_a_run_keeps_its_own_jobs_cpus_and_gpus() -> None:
    place = InstanceReading(at_s=NOW, gpu_uuid="GPU-1", gi_id=7, memory_used_mib=100, activity_share=0.5)
    jobs = (
        JobReading(run="night", job="a", cpus=frozenset({1}), own_cpus=0.0, instance=place),  # type: ignore[arg-type]  # a set of CPUs
        JobReading(run="other", job="b", own_cpus=1.0),
    )
    kept = sample(
        Reading(at_s=NOW, seconds=1.0, jobs=jobs, cpus=CpusReading(cpus=(0, 1), busy=(0.9, 0.1), iowait=(0.0, 0.0))),
        "night",
    )

    assert kept.jobs == {"a": {"own_cpus": 0.0, "gpu_memory_mib": 100.0, "gpu_activity_share": 0.5}}
    assert kept.cpus == {1: 0.1}


def test_several_become_one_by_their_time_and_memory_by_its_highest() -> None:
    both = merged(
        [one(10.0, 10.0, own_cpus=1.0, memory_mib=5.0), one(15.0, 5.0, own_cpus=4.0, memory_mib=3.0, wait_share=0.5)]
    )

    assert (both.at_s, both.seconds) == (15.0, 15.0)
    assert both.jobs["a"] == {"own_cpus": 2.0, "memory_mib": 5.0, "wait_share": 0.5}


def test_a_figure_that_was_never_known_stays_unknown() -> None:
    assert "wait_share" not in merged([one(10.0, own_cpus=1.0), one(20.0, own_cpus=1.0)]).jobs["a"]


def test_old_samples_are_thinned_and_their_time_is_kept() -> None:
    day = [one(NOW - 86400 + 10 * (n + 1)) for n in range(8640)]

    kept = thinned(day, NOW)

    assert sum(s.seconds for s in kept) == pytest.approx(86400)
    assert 6 * 360 + 18 * 60 <= len(kept) <= 6 * 360 + 18 * 60 + 3
    assert thinned(kept, NOW) == kept


def test_thinning_again_and_again_is_thinning_once() -> None:
    kept: list[Sample] = []
    for hour in range(0, 60, 3):
        kept += [one(NOW + 3600 * hour + 10 * (n + 1)) for n in range(1080)]
        kept = thinned(kept, NOW + 3600 * (hour + 3))

    assert sum(s.seconds for s in kept) == pytest.approx(60 * 3600)
    assert len(kept) <= 6 * 360 + 42 * 60 + 12 * 6 + 80


def test_a_week_of_seven_jobs_stays_under_fifty_mebibytes(tmp_path: Path) -> None:
    state = folder(tmp_path)
    figures = {f"some_figure_{n}": 1234.5678 / (n + 1) for n in range(21)}
    jobs, cpus = {f"job-with-a-name-{n}": figures for n in range(7)}, dict.fromkeys(range(32), 0.51)
    kept: list[Sample] = []
    for step_s, number in ((600.0, 5 * 144), (60.0, 42 * 60), (10.0, 7 * 360)):  # an hour waits to be thinned
        begin = kept[-1].at_s if kept else NOW
        # Every tenth sample stands for ten.
        kept += [
            Sample(at_s=begin + step_s * n, seconds=step_s, jobs=jobs, cpus=cpus) for n in range(10, number + 1, 10)
        ]
    assert 10 * sum(one.seconds for one in kept) >= 7 * 86400 - 3600

    TrackWriter(state, "night").add(kept)

    assert 10 * (state / "runs/night" / FILE).stat().st_size < 25 << 20


def test_what_is_written_is_read_back_by_whoever_looks(tmp_path: Path) -> None:
    state = folder(tmp_path)
    said = Said(at_s=NOW, job="a", gpu="", kind="gpu-bound", title="GPU-bound", message="fine", hint="")

    TrackWriter(state, "night").add([one(NOW)], [said])

    track = read_track(state, "night")
    assert track.samples == (
        Sample(at_s=NOW, seconds=10.0, jobs={"a": FIGURES}, cpus={0: 0.5}, gpus={"GPU-1": {"power_w": 90.0}}),
    )
    assert track.said == (said,)
    assert (state / "runs/night" / FILE).stat().st_mode & 0o777 == 0o600


def test_two_who_watch_write_a_time_once(tmp_path: Path) -> None:
    state = folder(tmp_path)
    first, second = TrackWriter(state, "night"), TrackWriter(state, "night")

    for n in range(5):
        first.add([one(NOW + 10 * n)])
        second.add([one(NOW + 10 * n + 3)])

    assert [s.at_s for s in read_track(state, "night").samples] == [NOW + 10 * n for n in range(5)]


def test_half_a_line_spoils_nothing(tmp_path: Path) -> None:
    state = folder(tmp_path)
    path = state / "runs/night" / FILE
    TrackWriter(state, "night").add([one(NOW)])
    with path.open("ab") as file:
        file.write(b'{"at":1800000010.0,"s":10.0,"jo')

    TrackWriter(state, "night").add([one(NOW + 20)])

    assert [s.at_s for s in read_track(state, "night").samples] == [NOW, NOW + 20]


def test_what_does_not_exist_is_an_empty_track_and_is_not_made(tmp_path: Path) -> None:
    assert read_track(tmp_path / "none", "night").samples == ()
    assert read_track(folder(tmp_path), "other").samples == ()

    TrackWriter(tmp_path / "state", "gone").add([one(NOW)])

    assert not (tmp_path / "state/runs/gone").exists()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    state = folder(tmp_path)
    target = tmp_path / "precious"
    target.write_text("mine")
    (state / "runs/night" / FILE).symlink_to(target)

    with pytest.raises(Exception, match=FILE):
        TrackWriter(state, "night").add([one(NOW)])

    assert target.read_text() == "mine"


def seen(at_s: float, *verdicts: Verdict) -> Seen:
    job = JobReading(run="night", job="a", own_cpus=1.0)
    return Seen(Reading(at_s=at_s, seconds=1.0, jobs=(job,)), Diagnosis(jobs={"night/a": verdicts}))


def test_a_recorder_writes_every_ten_seconds_and_verdicts_as_they_change(tmp_path: Path) -> None:
    state = folder(tmp_path)
    recorder = Recorder(state)
    bound = Verdict(kind=Kind.GPU_BOUND, title="GPU-bound", message="fine")
    for n in range(25):
        recorder.add(seen(NOW + n, *([bound] if 5 <= n < 15 else [])))
    recorder.close()

    track = read_track(state, "night")
    assert sum(s.seconds for s in track.samples) == 25
    assert [len(s.jobs) for s in track.samples] == [1, 1, 1]
    assert [(s.at_s - NOW, s.kind, s.over) for s in track.said] == [(5, "gpu-bound", False), (15, "gpu-bound", True)]


def test_a_file_that_cannot_be_written_keeps_nobody_from_watching(tmp_path: Path) -> None:
    state = folder(tmp_path)
    (state / "runs/night" / FILE).mkdir()
    recorder = Recorder(state)

    for n in range(25):
        recorder.add(seen(NOW + n))

    assert recorder.trouble is not None
    (state / "runs/night" / FILE).rmdir()
    recorder.close()
    assert recorder.trouble is None


def test_a_line_of_the_file_is_json_that_others_can_read(tmp_path: Path) -> None:
    state = folder(tmp_path)
    TrackWriter(state, "night").add([one(NOW)])

    row = json.loads((state / "runs/night" / FILE).read_text().splitlines()[0])

    assert row["jobs"]["a"]["own_cpus"] == 3.217


def test_what_is_said_at_present_is_found_while_somebody_watches(tmp_path: Path) -> None:
    state = folder(tmp_path)
    recorder = Recorder(state)
    bound = Verdict(kind=Kind.GPU_BOUND, title="GPU-bound", message="fine")
    idle = Verdict(kind=Kind.CPU_IDLE, title="CPU idle", message="fine")
    for n in range(25):
        recorder.add(seen(NOW + n, bound, *([idle] if n < 9 else [])))

    assert [one.kind for one in said_now(state, "night", NOW + 30)] == ["gpu-bound"]
    assert said_now(state, "night", NOW + 90) == ()
    assert said_now(state, "other", NOW) == ()
