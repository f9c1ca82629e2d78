"""A real Docker engine for the tests: the one that DOCKER_HOST names, or a private one with its own PATH and runtimes."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

BUSYBOX = "busybox:latest"
SCRIPT = Path(__file__).parents[2] / "scripts/dockerd"


def missing(reason: str) -> NoReturn:
    """A full test run fails where something is missing; any other says what it leaves out."""
    if os.environ.get("MIGCTL_TEST_FULL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def reachable_engine(url: str | None = None) -> Iterator[Any]:
    """The SDK's low-level client of an engine that has busybox."""
    import docker

    url = url or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    try:
        # Before the SDK, which leaves its socket open where nobody listens.
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(url.removeprefix("unix://"))
    except OSError as error:
        missing(f"no Docker engine answers at {url}: {error.strerror} (scripts/dockerd start DIR starts one)")
    client = docker.APIClient(base_url=url, version="1.41")
    try:
        if not client.images(BUSYBOX):
            import_busybox(client, BUSYBOX, [])
        yield client
    finally:
        client.close()


def import_busybox(client: Any, name: str, changes: Sequence[str]) -> None:
    """Makes an image of the machine's static busybox; no registry is needed."""
    program = shutil.which("busybox")
    if program is None:
        missing("busybox-static is not installed")
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(Path(program).resolve(), "bin/busybox")
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    repository, _, tag = name.partition(":")
    client.import_image_from_data(buffer.getvalue(), repository=repository, tag=tag, changes=list(changes) or None)


@contextmanager
def private_engine(*options: str, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """An engine of our own; gives its DOCKER_HOST."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        missing("a private Docker engine needs root and Debian's docker.io")
    # Not pytest's folder: a socket's path has at most 107 characters.
    folder = tempfile.mkdtemp(prefix="migctl-engine-", dir="/tmp")
    variables = {**os.environ, **(environ or {})}
    try:
        subprocess.run([SCRIPT, "start", folder, *options], check=True, env=variables, stdout=subprocess.DEVNULL)
        yield f"unix://{folder}/docker.sock"
    finally:
        subprocess.run([SCRIPT, "stop", folder], check=False, env=variables)
        shutil.rmtree(folder, ignore_errors=True)
