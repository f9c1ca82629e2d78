"""A private podman behind Docker's API: own storage, cgroupfs, no network, its service's socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.engines import missing

CONFIG = """
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


@contextmanager
def private_podman() -> Iterator[str]:
    """A podman service of our own; gives its DOCKER_HOST. Debian's crun refuses hybrid cgroups, so runc runs the containers."""
    runc = shutil.which("runc", path="/usr/sbin:/usr/bin:/sbin")
    if os.geteuid() != 0 or shutil.which("podman") is None or runc is None:
        missing("a private podman needs root, and Debian's podman, catatonit and runc")
    folder = Path(tempfile.mkdtemp(prefix="migctl-podman-", dir="/tmp"))
    (folder / "containers.conf").write_text(CONFIG)
    places = [f"--{name}={folder / name}" for name in ("root", "runroot", "tmpdir")]
    command = ["podman", *places, f"--runtime={runc}", "--storage-driver=vfs", "system", "service", "--time=0"]
    url = f"unix://{folder}/podman.sock"
    with (folder / "log").open("wb") as log:
        service = subprocess.Popen(
            [*command, url],
            env={**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            deadline = time.monotonic() + 20
            while not (folder / "podman.sock").exists():
                if service.poll() is not None or time.monotonic() > deadline:
                    missing(f"podman's service does not start: {(folder / 'log').read_text()[-500:]}")
                time.sleep(0.05)
            yield url
        finally:
            service.terminate()
            service.wait(20)
            subprocess.run(["podman", *places, "rm", "--all", "--force"], capture_output=True, check=False)
            _end_leftovers(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _end_leftovers(folder: Path) -> None:
    """Podman's watchers of an exec stay for five minutes; these are the ones of the containers below the folder."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            ours = str(folder).encode() in line.read_bytes()
            if ours and (line.parent / "comm").read_text().strip() == "conmon":
                os.kill(int(line.parent.name), signal.SIGKILL)
        except OSError:
            continue
