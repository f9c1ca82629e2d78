"""A command in a running container, attached to this terminal: bytes both ways, window size, exit code."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import ssl
import struct
import sys
import termios
import threading
import tty as terminal
from collections.abc import Iterator, Sequence
from types import FrameType
from urllib.parse import urlsplit

from migctl.errors import HostError
from migctl.runtimes.docker_errors import engine_errors, translate
from migctl.runtimes.endpoint import Endpoint
from migctl.runtimes.engine_client import Engine

_BLOCK = 1 << 16
_HEADER = 8
"""Without a terminal each piece has a header: stream number, three zeros, length (Engine API, "Attach to a container")."""


def exec_attached(engine: Engine, container: str, command: Sequence[str], *, tty: bool) -> int:
    """Run it with this process' standard streams until it ends; returns its exit code.

    Raises:
        HostError: the container does not run, or the engine is reached by ssh.
    """
    client = engine.client
    with engine_errors(engine.endpoint, container[:12]):
        made = client.exec_create(container, list(command), stdin=True, tty=tty)["Id"]
    with (
        _hijack(engine, made, tty=tty) as (connection, first),
        _raw_terminal() if tty else contextlib.nullcontext(),
        _sized(engine, made) if tty else contextlib.nullcontext(),
    ):
        _pump(connection, first, tty=tty)
    with engine_errors(engine.endpoint, container[:12]):
        code = client.exec_inspect(made)["ExitCode"]
    return int(code) if code is not None else 0


@contextlib.contextmanager
def _hijack(engine: Engine, exec_id: str, *, tty: bool) -> Iterator[tuple[socket.socket, bytes]]:
    """Start the command on a connection of its own, and what came right behind the answer's head.

    The SDK's own way reads the head through a buffer and drops output that arrived with it.
    """
    body = json.dumps({"Detach": False, "Tty": tty}).encode()
    head = (
        f"POST /v{engine.client.api_version}/exec/{exec_id}/start HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
        f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    with _connection(engine.endpoint) as connection:
        connection.sendall(head + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = connection.recv(_BLOCK)
            if not piece:
                break
            answer += piece
        head, _, rest = answer.partition(b"\r\n\r\n")
        status = head.split(b" ", 2)[1:2]
        if status not in ([b"101"], [b"200"]):
            code = int(status[0]) if status and status[0].isdigit() else None
            raise translate(code, rest.decode(errors="replace") or "no answer", where=exec_id[:12])
        yield connection, rest


def _connection(endpoint: Endpoint) -> socket.socket:
    try:
        if endpoint.socket is not None:
            unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            unix.connect(endpoint.socket)
            return unix
        parts = urlsplit(endpoint.url)
        if parts.scheme not in ("tcp", "http", "https") or parts.hostname is None:
            raise HostError(
                "no-attach", f"exec cannot attach over {parts.scheme}", where=endpoint.url, hint="docker exec -it"
            )
        plain = socket.create_connection((parts.hostname, parts.port or (2376 if endpoint.tls else 2375)))
        if endpoint.tls is None:
            return plain
        context = ssl.create_default_context(cafile=endpoint.tls.ca)
        if not endpoint.tls.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if endpoint.tls.cert and endpoint.tls.key:
            context.load_cert_chain(endpoint.tls.cert, endpoint.tls.key)
        return context.wrap_socket(plain, server_hostname=parts.hostname)
    except OSError as error:
        raise HostError("no-engine", f"the container engine does not answer: {error}", where=endpoint.url) from error


def _pump(connection: socket.socket, first: bytes, *, tty: bool) -> None:
    """Copy until the command closes its output. Our input's end is passed on; a TLS connection cannot be half closed."""
    out, err = sys.stdout.fileno(), sys.stderr.fileno()
    split = _Split(out, err, tty=tty)
    split.feed(first)
    source = sys.stdin.fileno()
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.register(source, select.POLLIN)
    pending = getattr(connection, "pending", lambda: 0)
    while True:
        ready = [fd for fd, _ in poll.poll(0 if pending() else None)]
        if connection.fileno() in ready or pending():
            piece = connection.recv(_BLOCK)
            if not piece:
                return
            split.feed(piece)
        if source in ready:
            typed = os.read(source, _BLOCK)
            if typed:
                connection.sendall(typed)
            else:
                poll.unregister(source)
                if not isinstance(connection, ssl.SSLSocket):
                    connection.shutdown(socket.SHUT_WR)


class _Split:
    """Takes the engine's stream apart into our two outputs."""

    def __init__(self, out: int, err: int, *, tty: bool) -> None:
        self._targets = {1: out, 2: err}
        self._tty = tty
        self._rest = b""

    def feed(self, data: bytes) -> None:
        if self._tty:
            _write(self._targets[1], data)
            return
        self._rest += data
        while len(self._rest) >= _HEADER:
            stream, size = struct.unpack(">BxxxL", self._rest[:_HEADER])
            if len(self._rest) < _HEADER + size:
                return
            _write(self._targets.get(stream, self._targets[1]), self._rest[_HEADER : _HEADER + size])
            self._rest = self._rest[_HEADER + size :]


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Every key goes to the container, Ctrl-C too; the terminal is as before afterwards."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        terminal.setraw(fd, termios.TCSADRAIN)  # what was typed ahead is kept
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _sized(engine: Engine, exec_id: str) -> Iterator[None]:
    """The container's terminal has the size of ours, also after a change (signals only reach the main thread)."""

    def resize(_signal: int | None = None, _frame: FrameType | None = None) -> None:
        size = shutil.get_terminal_size()
        try:
            with engine_errors(engine.endpoint):
                engine.client.exec_resize(exec_id, height=size.lines, width=size.columns)
        except HostError:
            pass  # the command has ended already, or ends in the next moment

    if threading.current_thread() is not threading.main_thread():
        resize()
        yield
        return
    before = signal.signal(signal.SIGWINCH, resize)
    try:
        resize()
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
