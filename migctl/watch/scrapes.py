"""Answers scrapes over HTTP: `/metrics`, and a page that leads there; nothing else, and nothing is changed by asking."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Final

from migctl.core.views.metrics import Family
from migctl.errors import Busy, HostError, PlanError
from migctl.render.exposition import content_type, exposition

PORT: Final = 9835
_TIMEOUT_S: Final = 10.0
"""A client that says nothing for so long is hung up on."""
_AT_ONCE: Final = 16
"""Connections; more get 503."""
_PAGE: Final = '<!DOCTYPE html><title>migctl</title><h1>migctl</h1><p><a href="/metrics">metrics</a></p>\n'


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str = "127.0.0.1"
    port: int = PORT

    @property
    def loopback(self) -> bool:
        """Whether only this machine can ask."""
        return ip_address(self.host).is_loopback

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """Read `127.0.0.1:9835`, `[::1]:9835`, `localhost:9835`; the address must be there, so that nobody opens a port by omission.

    Raises:
        PlanError: it is none.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    host = "127.0.0.1" if host == "localhost" else host
    try:
        known = str(ip_address(host)) if colon else ""
    except ValueError:
        known = ""
    if not known or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise PlanError(
            "usage",
            f"--listen is ADDRESS:PORT with the address in figures, not {text!r}",
            hint="--listen 127.0.0.1:9835; 0.0.0.0:9835 would let everybody ask",
        )
    return Address(known, int(port))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 32

    def __init__(self, where: Address, families: Callable[[], Sequence[Family]]) -> None:
        self.address_family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        self.families = families
        self.free = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__((where.host, where.port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _TIMEOUT_S
    server_version = "migctl"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(whole=True)

    def do_HEAD(self) -> None:
        self._answer(whole=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- http.server's own name
        """A line every fifteen seconds helps nobody."""

    def _answer(self, *, whole: bool) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            self._send(200, "text/html; charset=utf-8", _PAGE, whole=whole)
        elif path != "/metrics":
            self._send(404, "text/plain; charset=utf-8", "metrics are at /metrics\n", whole=whole)
        elif not self.server.free.acquire(blocking=False):
            self._send(503, "text/plain; charset=utf-8", "too many ask at once\n", whole=whole)
        else:
            try:
                form = content_type(self.headers.get("Accept", ""))
                self._send(200, form, exposition(self.server.families(), form), whole=whole)
            finally:
                self.server.free.release()

    def _send(self, code: int, kind: str, text: str, *, whole: bool) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if whole:
            self.wfile.write(data)


class Scrapes:
    """A server that is up as soon as it is made.

    Args:
        where: to listen; port 0 = any free one.
        families: what to answer, asked anew for every scrape.

    Raises:
        Busy: somebody else listens there.
        HostError: this machine has no such address, or it may not be used.
    """

    def __init__(self, where: Address, families: Callable[[], Sequence[Family]]) -> None:
        try:
            self._server = _Server(where, families)
        except OSError as error:
            raise _not_bound(where, error) from error
        self.address = Address(where.host, self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="migctl-scrapes")
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()


def _not_bound(where: Address, error: OSError) -> Busy | HostError:
    import errno

    if error.errno == errno.EADDRINUSE:
        return Busy(
            "address-in-use",
            f"somebody listens at {where} already",
            where=str(where),
            hint="--listen with another port",
        )
    return HostError(
        "cannot-listen", f"{where} cannot be listened at: {error.strerror}", where=str(where), hint="--listen"
    )
