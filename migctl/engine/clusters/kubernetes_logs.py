"""The output of pods: followed while they are there, and kept before they are taken away, since a pod's log goes with it."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from migctl.core.cluster.kubernetes_states import Sight
from migctl.core.runs.record import JobState
from migctl.errors import Busy, MigctlError
from migctl.kubectl.client import Kubectl

_AT_ONCE = 16
"""kubectls that keep logs beside each other."""
_LONGEST_S = 60.0
"""For one log to be kept."""
_BEGUN = (JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)


def read(
    kubectl: Kubectl,
    look: Callable[[], Sight | None],
    kept: Path,
    *,
    follow: bool,
    tail: int | None,
    since: float | None,
    timestamps: bool,
    cancel: threading.Event,
    look_s: float,
) -> Iterator[bytes]:
    """What a job's newest pod has written, in chunks; with `follow` until the job has ended.

    Args:
        look: the job as it is now; `None`: the cluster knows nothing of it.
        kept: the file in which its log lies where its pods are gone.
        look_s: seconds between two looks.
    """
    last, broken = "", False
    while not cancel.is_set():
        sight = look()
        pod = sight.pods[-1] if sight is not None and sight.pods else ""
        if sight is not None and pod and sight.state in _BEGUN and (pod != last or broken):
            if pod == last:
                tail, since = None, time.time() - look_s
            last = pod
            moment = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if since is not None else None
            process = kubectl.log_process(pod, follow=follow, tail=tail, timestamps=timestamps, since=moment)
            failed = kubectl.log_failure(*(yield from _chunks(process, cancel)))
            broken = failed is not None
            if failed is not None and not (follow and isinstance(failed, Busy)):
                raise failed
            if follow and not broken:
                continue  # the job may have ended by now, or go on as another pod
        if sight is None or sight.state.ended or not follow:
            if not last:
                yield from _from(kept, tail)
            return
        cancel.wait(look_s)


def _chunks(process: subprocess.Popen[bytes], cancel: threading.Event) -> Generator[bytes, None, tuple[int, bytes]]:
    """All of its output; returns its exit code and its complaints; whoever reads no further ends it."""
    stream = process.stdout
    assert stream is not None
    try:
        while not cancel.is_set():
            ready, _, _ = select.select([stream], [], [], 0.5)
            if not ready:
                continue
            chunk = os.read(stream.fileno(), 1 << 16)
            if not chunk:
                break
            yield chunk
    finally:
        end = _end(process)
    return end if not cancel.is_set() else (0, b"")


def _end(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    if process.stdout is not None:
        process.stdout.close()
    try:
        _, errors = process.communicate(timeout=1.0)
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
    return process.returncode, errors


def keep(kubectl: Kubectl, pods: Sequence[tuple[str, Path]]) -> None:
    """Write the logs of pods that will go where they are kept; what has no log leaves none.

    A log that cannot be had is no reason not to end a job that somebody wants ended.
    """
    if pods:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda one: _keep(kubectl, *one), pods))


def path(folder: Path, unit: str, job: str) -> Path:
    """Where the log is kept of a job of this Job: each attempt is another."""
    return folder / f"{unit}.{job}.log"


def _keep(kubectl: Kubectl, pod: str, file: Path) -> None:
    try:
        process = kubectl.log_process(pod, follow=False, tail=None, timestamps=False)
    except (MigctlError, OSError):
        return
    try:
        output, _ = process.communicate(timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    if process.returncode != 0:
        return
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A new file of ours: nobody's link is followed, and a log that was kept before is replaced as a whole.
        new = file.with_name(f"{file.name}.new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(output)
        new.replace(file)


def _from(file: Path, tail: int | None) -> Iterator[bytes]:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as stream:
        if tail is None:
            while chunk := stream.read(1 << 16):
                yield chunk
            return
        lines = stream.read().splitlines(keepends=True)
        yield from lines[len(lines) - tail :] if tail and tail < len(lines) else lines if tail else ()
