"""The exporter over a store that is really there: it says when it cannot look, and goes on when it can again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from migctl.engine.session import Session
from migctl.render.exposition import exposition
from migctl.watch.exporter import Exporter


def session(folder: Path) -> Session:
    names = {"MIGCTL_STATE_DIR": "state", "MIGCTL_RUN_DIR": "run", "MIGCTL_SIM_STATE": "sim.json"}
    places = {name: str(folder / place) for name, place in names.items()}
    return Session(environ={**os.environ, **places}, nvml="sim:a100-40gb")


def until(done: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_store_that_cannot_be_read_is_told_and_the_exporter_goes_on(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with Exporter(session(tmp_path)) as exporter:
        exporter.start()
        until(lambda: "migctl_gpu_info{" in exposition(exporter.families()))
        state.chmod(0o777)
        until(lambda: "migctl_watch_up 0\n" in exposition(exporter.families()))
        broken = exposition(exporter.families())
        state.chmod(0o700)
        until(lambda: "migctl_watch_up 1\n" in exposition(exporter.families()))

    assert "migctl_watch_failures_total 0\n" not in broken
    assert "migctl_gpu_info{" in broken, "what was known stays, with the time from which it is"


def test_the_first_answer_is_there_before_anything_was_seen(tmp_path: Path) -> None:
    with Exporter(session(tmp_path)) as exporter:
        text = exposition(exporter.families())

    assert "migctl_build_info{" in text
    assert "migctl_watch_up 0\n" in text
    assert "migctl_job" not in text


def test_gpus_are_read_for_a_single_answer_too(tmp_path: Path) -> None:
    with Exporter(session(tmp_path)) as exporter:
        text = exposition(exporter.once())

    assert "migctl_gpu_power_watts{" in text
    assert 'migctl_watch_source_up{source="gpus"} 1\n' in text
