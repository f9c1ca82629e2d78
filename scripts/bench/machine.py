"""A place of its own for a benchmark: simulated GPUs, private state, a Docker engine with a busybox image."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rounds import MIGCTL, ROOT

from migctl.nvml.simstate import SimState

IMAGE = "busybox:latest"


@contextmanager
def place() -> Iterator[dict[str, str]]:
    """The environment; DOCKER_HOST is used where it is set, else a private engine is started (root)."""
    with tempfile.TemporaryDirectory(prefix="migctl-bench-") as folder:
        environ = {
            **os.environ,
            "MIGCTL_NVML": "sim:a100-40gb:on",
            "MIGCTL_SIM_STATE": f"{folder}/gpu.json",
            "MIGCTL_STATE_DIR": f"{folder}/state",
            "MIGCTL_RUN_DIR": f"{folder}/run",
            "SEVEN_IMAGE": IMAGE,
            "SEVEN_PULL": "never",
        }
        # An installed package is compiled; this checkout may not be.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        subprocess.run([sys.executable, "-m", "compileall", "-q", ROOT / "migctl"], env=environ, check=True)
        dockerd, engine = ROOT / "scripts/dockerd", f"{folder}/docker"
        own = "DOCKER_HOST" not in os.environ
        if own:
            subprocess.run([dockerd, "start", engine], check=True, stdout=subprocess.DEVNULL)
            environ["DOCKER_HOST"] = f"unix://{engine}/docker.sock"
        else:
            import_image(environ)
        try:
            yield environ
        finally:
            leave = [*MIGCTL, "down", "--all", "--timeout", "0"]
            subprocess.run(leave, cwd=ROOT, env=environ, check=False, stdout=subprocess.DEVNULL)
            if own:
                subprocess.run([dockerd, "stop", engine], check=True)


def import_image(environ: Mapping[str, str]) -> None:
    """Give the engine the image where it lacks it."""
    there = subprocess.run(["docker", "image", "inspect", IMAGE], env=environ, capture_output=True, check=False)
    if there.returncode == 0:
        return
    busybox = shutil.which("busybox")
    if busybox is None:
        raise SystemExit(f"the engine has no {IMAGE} and there is no busybox to make it from")
    with tempfile.TemporaryDirectory() as folder:
        binaries = Path(folder, "bin")
        binaries.mkdir()
        shutil.copy(busybox, binaries / "busybox")
        for applet in ("sh", "sleep"):
            (binaries / applet).symlink_to("busybox")
        archive = subprocess.run(["tar", "-C", folder, "-c", "."], capture_output=True, check=True).stdout
        subprocess.run(
            ["docker", "import", "-", IMAGE], env=environ, input=archive, stdout=subprocess.DEVNULL, check=True
        )


def delays(environ: Mapping[str, str], **seconds: float) -> None:
    """Give the simulated GPU the time that hardware takes; nothing = none."""
    path = Path(environ["MIGCTL_SIM_STATE"])
    if not path.exists():
        SimState.create(path, environ["MIGCTL_NVML"].removeprefix("sim:"))
    with SimState.edit(path) as state:
        state.delays_s = dict(seconds)
