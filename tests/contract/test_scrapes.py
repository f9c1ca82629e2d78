"""The exporter's server over real sockets: what it answers, to whom, and where it refuses to listen."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from migctl.core.views.metrics import Family, MetricKind, family
from migctl.errors import Busy, HostError, PlanError
from migctl.watch.scrapes import Address, Scrapes, address

ONE = (family("migctl_x", MetricKind.GAUGE, "One.", [((), 1)]),)


@pytest.fixture
def scrapes() -> Iterator[Scrapes]:
    here = Scrapes(Address(port=0), lambda: ONE)
    yield here
    here.close()


def ask(scrapes: Scrapes, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(scrapes.address.host, scrapes.address.port, timeout=5)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


def test_metrics_are_answered_in_both_formats(scrapes: Scrapes) -> None:
    code, kind, text = ask(scrapes, "/metrics")
    _, open_kind, open_text = ask(scrapes, "/metrics?x=1", Accept="application/openmetrics-text;version=1.0.0")

    assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert text == "# HELP migctl_x One.\n# TYPE migctl_x gauge\nmigctl_x 1\n"
    assert open_kind.startswith("application/openmetrics-text")
    assert open_text.endswith("# EOF\n")


def test_everything_else_is_refused(scrapes: Scrapes) -> None:
    assert ask(scrapes, "/")[0] == 200
    assert ask(scrapes, "/etc/passwd")[0] == 404
    assert ask(scrapes, "/metrics", "POST")[0] == 501
    assert ask(scrapes, "/metrics", "HEAD")[2] == ""


def test_a_client_that_hangs_keeps_nobody_waiting(scrapes: Scrapes) -> None:
    with socket.create_connection((scrapes.address.host, scrapes.address.port)) as silent:
        silent.sendall(b"GET /met")
        begun = time.monotonic()

        assert ask(scrapes, "/metrics")[0] == 200
        assert time.monotonic() - begun < 2


def test_too_many_at_once_are_told_so() -> None:
    gate, inside = threading.Event(), threading.Semaphore(0)

    def slow() -> tuple[Family, ...]:
        inside.release()
        gate.wait(10)
        return ONE

    here = Scrapes(Address(port=0), slow)
    codes: list[int] = []
    threads = [threading.Thread(target=lambda: codes.append(ask(here, "/metrics")[0])) for _ in range(16)]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            assert inside.acquire(timeout=5)

        assert ask(here, "/metrics")[0] == 503
    finally:
        gate.set()
        for thread in threads:
            thread.join()
        here.close()
    assert set(codes) == {200}


def test_a_port_that_is_taken_is_named(scrapes: Scrapes) -> None:
    with pytest.raises(Busy) as found:
        Scrapes(scrapes.address, lambda: ONE)

    assert found.value.id == "address-in-use"
    assert str(scrapes.address.port) in found.value.message


def test_an_address_of_somebody_else_cannot_be_used() -> None:
    with pytest.raises(HostError) as found:
        Scrapes(Address("192.0.2.1", 9835), lambda: ONE)

    assert found.value.id == "cannot-listen"


@pytest.mark.parametrize(
    ("text", "read", "loopback"),
    [
        ("127.0.0.1:9835", "127.0.0.1:9835", True),
        ("localhost:0", "127.0.0.1:0", True),
        ("[::1]:9", "[::1]:9", True),
        ("0.0.0.0:9835", "0.0.0.0:9835", False),
        ("[::]:9835", "[::]:9835", False),
    ],
)
def test_an_address_is_given_in_figures(text: str, read: str, loopback: bool) -> None:
    found = address(text)

    assert (str(found), found.loopback) == (read, loopback)


@pytest.mark.parametrize(
    "text", [":9835", "9835", "", "*:9835", "example.org:80", "127.0.0.1", "127.0.0.1:x", "1.2.3.4:99999"]
)
def test_nobody_opens_a_port_by_omission(text: str) -> None:
    with pytest.raises(PlanError):
        address(text)
