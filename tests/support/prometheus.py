"""A real Prometheus with a folder of its own, and its promtool."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.engines import missing

_DEADLINE_S = 20.0


def promtool(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Prometheus' own checker."""
    program = shutil.which("promtool")
    if program is None:
        missing("rules and metrics are checked by Debian's prometheus")
    return subprocess.run([program, *words], input=text, capture_output=True, text=True, check=False)


@dataclass(frozen=True, slots=True)
class Prometheus:
    """Where it answers."""

    port: int

    def get(self, path: str, **parameters: str) -> Any:
        """One question of its HTTP API."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", f"{path}?{urllib.parse.urlencode(parameters)}")
            answer = connection.getresponse()
            data = answer.read()
            return json.loads(data) if path.startswith("/api/") else (answer.status, data)
        finally:
            connection.close()

    def query(self, expression: str) -> Sequence[Mapping[str, Any]]:
        """What an expression gives now; an error fails the test with its text."""
        answer = self.get("/api/v1/query", query=expression)
        assert answer["status"] == "success", (expression, answer)
        return answer["data"]["result"]

    def until(self, expression: str, seconds: float = _DEADLINE_S) -> Sequence[Mapping[str, Any]]:
        """What it gives once it gives something."""
        end = time.monotonic() + seconds
        while not (found := self.query(expression)):
            assert time.monotonic() < end, f"nothing came of {expression}"
            time.sleep(0.2)
        return found


def free_port() -> int:
    """One that nobody uses just now."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


@contextmanager
def prometheus(folder: Path, configuration: Path) -> Iterator[Prometheus]:
    """Started, and ended by its own process id."""
    program = shutil.which("prometheus")
    if program is None:
        missing("metrics are scraped by Debian's prometheus")
    port = free_port()
    words = [
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([program, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        here = Prometheus(port)
        end = time.monotonic() + _DEADLINE_S
        while True:
            assert process.poll() is None, (folder / "prometheus.log").read_text("utf-8")
            try:
                if here.get("/-/ready")[0] == 200:
                    break
            except OSError:
                pass
            assert time.monotonic() < end, (folder / "prometheus.log").read_text("utf-8")
            time.sleep(0.1)
        yield here
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
