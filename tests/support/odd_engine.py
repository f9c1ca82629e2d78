# ruff: noqa: E501 -- tables of odd texts
"""A container engine whose answers are spoilt: JSON of another shape, other text, broken HTTP, or an answer that ends too early."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.support.fuzz import Shoot
from tests.support.in_process import say, standing_in, tree
from tests.support.spoil import json_text, spoilt_bytes

_IMAGE = "sha256:" + "1" * 64


class OddEngine:
    """Answers on a socket; which answer is how spoilt follows from the seed of the input alone, however many threads ask."""

    def __init__(self, path: Path, container: Mapping[str, Any]) -> None:
        self.seed = ""
        self.chance = 0.0
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        labels = container["Config"]["Labels"]
        foreign = {**container, "Id": "f" * 64, "Name": "/other", "Config": {"Labels": None, "Env": []}}
        short = [
            {"Id": one["Id"], "Names": [one["Name"]], "Labels": one["Config"]["Labels"]} for one in (container, foreign)
        ]
        self._answers: Mapping[str, Any] = {
            "/version": {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Platform": {"Name": "Docker"},
                         "KernelVersion": "6.1.0", "Components": [{"Name": "Engine", "Version": "20.10.24"}]},
            "/info": {"Runtimes": {"runc": {"path": "runc"}, "nvidia": {"path": "n"}}, "CgroupDriver": "cgroupfs", "CgroupVersion": "2",
                      "SecurityOptions": ["name=seccomp"], "NCPU": 16, "MemTotal": 1 << 34, "OperatingSystem": "Debian"},
            "/containers/json": short,
            f"/containers/{container['Id']}/json": container,
            f"/containers/{foreign['Id']}/json": foreign,
            "/images/": {"Id": _IMAGE, "RepoTags": ["i:latest"], "Architecture": "amd64", "Os": "linux",
                         "Config": {"Env": ["PATH=/bin"], "Cmd": ["sh"], "Labels": labels}},
        }  # fmt: skip
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(path))
        self._door.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def begin(self, seed: str, chance: float) -> None:
        """A new input."""
        with self._lock:
            self.seed, self.chance = seed, chance
            self._asked.clear()

    def close(self) -> None:
        """No more answers."""
        self._door.close()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with line, suppress(OSError):
            line.settimeout(5)
            head = b""
            while b"\r\n\r\n" not in head:
                if not (piece := line.recv(4096)):
                    return
                head += piece
            line.sendall(self._text(head.split(b" ")[1].decode()))

    def _text(self, asked: str) -> bytes:
        path = asked.partition("?")[0]
        if path.startswith("/v1."):
            path = path[path.index("/", 1) :]
        with self._lock:
            self._asked[asked] += 1
            random = Random(f"{self.seed}/{asked}/{self._asked[asked]}")
        known = "/images/" if path.startswith("/images/") else path
        whole = self._answers.get(known)
        status = 404 if whole is None else 200
        whole = {"message": "page not found"} if whole is None else whole
        spoil = random.random() < self.chance
        body = json_text(random, whole) if spoil else json.dumps(whole).encode()
        if spoil and random.random() < 0.2:
            status = random.choice((200, 204, 301, 400, 403, 404, 409, 500, 503, 999))
        answer = b"HTTP/1.0 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
            status,
            len(body),
            body,
        )
        return spoilt_bytes(random, answer) if spoil and random.random() < 0.15 else answer


@contextmanager
def odd_engine(folder: Path, container: Mapping[str, Any]) -> Iterator[Shoot]:
    """Commands that look, with such an engine; they change nothing."""
    (folder / "plan.yaml").write_text("jobs: {a: {image: i, profile: 1g.5gb, command: 'true'}}\n")
    lines = (("status",), ("status", "--json"), ("check",), ("plan",), ("adopt", "--dry-run"), ("up", "--dry-run"))
    door = Path(f"/tmp/migctl-odd-{os.getpid()}.sock")  # a socket's path has at most 107 characters
    door.unlink(missing_ok=True)
    engine = OddEngine(door, container)

    def shoot(random: Random) -> None:
        engine.begin(str(random.random()), random.choice((0.1, 0.3, 0.7)))
        before = tree(folder)
        said = say(*random.choice(lines))
        assert tree(folder) == before, said

    try:
        with standing_in(folder, DOCKER_HOST=f"unix://{door}"):
            yield shoot
    finally:
        engine.close()
        door.unlink(missing_ok=True)
