"""Whoever wants to know is really told: by a command's standard input, and by a POST to a real server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from migctl.errors import HostError
from migctl.host.messenger import tell

ENVIRON = {"PATH": "/usr/bin:/bin", "GREETING": "hello"}
TEXT = json.dumps({"event": "job", "job": "ä"})


@contextmanager
def server(code: int) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    got: list[tuple[str, bytes]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the base class calls it by this name
            got.append((self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(code)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with HTTPServer(("127.0.0.1", 0), Answer) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}/hook?key=secret", got
        finally:
            listening.shutdown()
            thread.join()


def test_a_command_gets_the_text_its_folder_and_the_environment(tmp_path: Path) -> None:
    tell(("sh", "-c", 'cat >told; echo "$GREETING" >>told'), "", TEXT, environ=ENVIRON, folder=str(tmp_path))

    assert (tmp_path / "told").read_text() == f"{TEXT}hello\n"


def test_no_shell_stands_between(tmp_path: Path) -> None:
    tell(("touch", "$(echo no); *"), "", TEXT, environ=ENVIRON, folder=str(tmp_path))

    assert [path.name for path in tmp_path.iterdir()] == ["$(echo no); *"]


def test_a_webhook_gets_it_by_post() -> None:
    with server(204) as (url, got):
        tell((), url, TEXT, environ=ENVIRON, folder="/")

    assert got == [("application/json", TEXT.encode())]


FAILURES = (
    (("sh", "-c", "echo why >&2; exit 3"), "exit code 3: why"),
    (("no-such-program",), "No such file"),
    (("nul\0", ""), "null byte"),
)


@pytest.mark.parametrize(("command", "words"), FAILURES, ids=[command[0][:8] for command, _ in FAILURES])
def test_a_command_that_does_not_take_it_is_named(tmp_path: Path, command: tuple[str, ...], words: str) -> None:
    with pytest.raises(HostError) as failed:
        tell(command, "", TEXT, environ=ENVIRON, folder=str(tmp_path))

    assert words in failed.value.message


@pytest.mark.parametrize("code", [404, 500])
def test_a_webhook_that_refuses_is_named_without_its_key(code: int) -> None:
    with server(code) as (url, _), pytest.raises(HostError) as failed:
        tell((), url, TEXT, environ=ENVIRON, folder="/")

    assert str(code) in failed.value.message
    assert "/… was not told" in failed.value.message
    assert "hook" not in failed.value.message, "of many services the path is the key"
    assert "secret" not in failed.value.message


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/hook", "no url", "http://[", "file:///etc/hostname"])
def test_a_webhook_that_is_not_there_is_named(url: str) -> None:
    with pytest.raises(HostError) as failed:
        tell((), url, TEXT, environ=ENVIRON, folder="/")

    assert failed.value.id == "not-told"


def test_a_command_that_reads_nothing_is_told_all_the_same(tmp_path: Path) -> None:
    tell(("true",), "", "x" * 1_000_000, environ=ENVIRON, folder=str(tmp_path))
