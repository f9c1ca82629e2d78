"""The dozen engine calls of an `up`, a `status` and a `down`, spoken directly over the engine's local socket.

The SDK takes a quarter of a second to load, longer than all these calls together. It stays for everything else (pulls with their
credentials, logs that are followed, exec, waiting) and for engines that are reached over TCP; this client has its method names and
hands over to it whatever it does not know itself. API: docs.docker.com/reference/api/engine.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode

from migctl.runtimes.engine_answers import (
    CONTAINER,
    IMAGE,
    INFO,
    LISTED,
    VERSION,
    Strange,
    all_checked,
    checked,
    needed,
)

_TIMEOUT_S = 60.0
_CHUNK = 1 << 16


class Refused(Exception):  # noqa: N818 -- the engine's answer, turned into an error of ours in one place
    """The engine answered with an error."""

    def __init__(self, status: int, explanation: str) -> None:
        super().__init__(explanation)
        self.status = status
        self.explanation = explanation


def is_missing(error: Exception) -> bool:
    """Whether the engine, asked directly or through the SDK, said that it does not have it."""
    if isinstance(error, Refused):
        return error.status == 404
    return getattr(getattr(error, "response", None), "status_code", None) == 404


class SocketClient:
    """A connection a call, so that any number of threads may use it.

    Args:
        path: the engine's socket.
        sdk: makes the SDK's client of an API version, when it is first needed.
    """

    def __init__(self, path: str, sdk: Callable[[str | None], Any]) -> None:
        self._path = path
        self._make = sdk
        self._made: Any = None
        self.api_version: str | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- the SDK's methods have no types either
        if self._made is None:
            self._made = self._make(self.api_version)
        return getattr(self._made, name)

    def close(self) -> None:
        """Nothing stays open here between calls; the SDK's client has its pool."""
        if self._made is not None:
            self._made.close()

    def version(self) -> Any:  # noqa: ANN401 -- JSON
        """What the engine is, and which API versions it speaks."""
        return checked(self._json("GET", "/version"), VERSION, "its version")

    def info(self) -> Any:  # noqa: ANN401 -- JSON
        """What the engine's host is like."""
        return checked(self._json("GET", "/info"), INFO, "its description")

    def containers(self, *, all: bool = False, filters: Mapping[str, object] | None = None) -> Any:  # noqa: A002, ANN401 -- the SDK's
        """Containers in short, running ones or all."""
        query = {"all": int(all)} | ({"filters": json.dumps(filters)} if filters else {})
        listed = all_checked(self._json("GET", f"/containers/json?{urlencode(query)}"), LISTED, "container")
        return [{**needed(one, "Id"), "Labels": one.get("Labels")} for one in listed]

    def inspect_container(self, handle: str) -> Any:  # noqa: ANN401 -- JSON
        """A container in full."""
        found = checked(self._json("GET", f"/containers/{quote(handle, safe='')}/json"), CONTAINER, "a container")
        return needed(found, "Id", "Name", "Config", "HostConfig", "State")

    def images(self) -> Any:  # noqa: ANN401 -- JSON
        """All images in short."""
        return self._json("GET", "/images/json")

    def inspect_image(self, name: str) -> Any:  # noqa: ANN401 -- JSON
        """An image in full."""
        return needed(checked(self._json("GET", f"/images/{quote(name, safe='/:@')}/json"), IMAGE, "an image"), "Id")

    def create_container_from_config(self, config: Mapping[str, object], name: str) -> Any:  # noqa: ANN401 -- JSON
        """Make a container."""
        return self._json("POST", f"/containers/create?{urlencode({'name': name})}", config)

    def create_podman_container(self, spec: Mapping[str, object]) -> Any:  # noqa: ANN401 -- JSON
        """Make a container by podman's own API, of which every podman since 4.0 speaks this version."""
        return json.loads(self._ask("POST", "/v4.0.0/libpod/containers/create", spec, prefix=""))

    def start(self, handle: str) -> None:
        """Start it; running already is fine."""
        self._ask("POST", f"/containers/{quote(handle, safe='')}/start")

    def kill(self, handle: str) -> None:
        """SIGKILL to its main process."""
        self._ask("POST", f"/containers/{quote(handle, safe='')}/kill")

    def stop(self, handle: str, timeout: int) -> None:
        """SIGTERM, so many seconds, SIGKILL; returns when it has ended."""
        self._ask("POST", f"/containers/{quote(handle, safe='')}/stop?t={timeout}", wait_s=timeout + _TIMEOUT_S)

    def remove_container(self, handle: str, *, v: bool = False) -> None:
        """Remove an ended one; `v` with its anonymous volumes."""
        self._ask("DELETE", f"/containers/{quote(handle, safe='')}?v={int(v)}")

    def read_log(self, handle: str, *, tail: int | None, timestamps: bool, since: float | None) -> Iterator[bytes]:
        """What a container without a terminal has written so far: pieces of both streams in the order in which they came."""
        query = {"stdout": 1, "stderr": 1, "tail": "all" if tail is None else tail, "timestamps": int(timestamps)}
        if since is not None:
            query["since"] = str(since)
        path = f"/containers/{quote(handle, safe='')}/logs?{urlencode(query)}"
        with self._request("GET", path) as line, line.makefile("rb") as answer:
            status = _status(answer.readline())
            while answer.readline().strip():
                pass  # of the headers nothing is needed
            if status >= 400:
                raise Refused(status, _message(answer.read()))
            yield from _pieces(answer)

    def run_inside(self, handle: str, command: Sequence[str], *, wait_s: float) -> tuple[int | None, str]:
        """Run a command in a running container, as its user: its exit code and what it printed.

        Raises:
            Refused: the container does not run, or is paused.
            TimeoutError: the command says nothing for so long; it goes on in there.
        """
        wish = {"Cmd": list(command), "AttachStdout": True, "AttachStderr": True}
        made = str(self._json("POST", f"/containers/{quote(handle, safe='')}/exec", wish)["Id"])
        answer = self._ask("POST", f"/exec/{made}/start", {"Detach": False, "Tty": False}, wait_s=wait_s)
        text = b"".join(_pieces(BytesIO(answer))).decode(errors="replace")
        return self._json("GET", f"/exec/{made}/json").get("ExitCode"), text

    def _json(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401 -- JSON
        answer = self._ask(method, path, body)
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise Strange(f"what it says of {path.partition('?')[0]} is no JSON") from error

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        wait_s: float = _TIMEOUT_S,
        prefix: str | None = None,
    ) -> bytes:
        with self._request(method, path, body, wait_s=wait_s, prefix=prefix) as line:
            parts: list[bytes] = []
            while part := line.recv(_CHUNK):
                parts.append(part)
        status, answer = _parsed(b"".join(parts))
        if status >= 400:
            raise Refused(status, _message(answer))
        return answer

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        wait_s: float = _TIMEOUT_S,
        prefix: str | None = None,
    ) -> socket.socket:
        """A connection on which the request has been sent."""
        data = b"" if body is None else json.dumps(body).encode()
        if prefix is None:
            prefix = f"/v{self.api_version}" if self.api_version else ""
        # HTTP/1.0: the answer ends where the connection does, never in chunks.
        head = (
            f"{method} {prefix}{path} HTTP/1.0\r\nHost: docker\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.settimeout(wait_s)
            line.connect(self._path)
            line.sendall(head.encode() + data)
        except BaseException:
            line.close()
            raise
        return line


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    """What was written, of a stream of frames: stream number, three zeros, length (docs.docker.com, "attach to a container")."""
    while len(head := stream.read(8)) == 8:
        yield stream.read(int.from_bytes(head[4:], "big"))


def _parsed(response: bytes) -> tuple[int, bytes]:
    head, _, answer = response.partition(b"\r\n\r\n")
    return _status(head.split(b"\r\n", 1)[0]), answer


def _status(first_line: bytes) -> int:
    words = first_line.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ConnectionError("the engine's socket gave no HTTP answer")
    return int(words[1])


def _message(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace")
