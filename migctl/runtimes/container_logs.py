"""What one container has written, and goes on to write."""

from __future__ import annotations

from collections.abc import Iterator

from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.engine_client import Engine
from migctl.runtimes.socket_client import SocketClient


def container_logs(
    engine: Engine, handle: str, *, follow: bool, tail: int | None, timestamps: bool, since: float | None
) -> Iterator[bytes]:
    """Standard output and error in the order in which the engine got them."""
    client = engine.client
    with engine_errors(engine.endpoint, handle[:12]):
        if not follow and isinstance(client, SocketClient):
            yield from client.read_log(handle, tail=tail, timestamps=timestamps, since=since)
            return
        stream = client.logs(
            handle,
            stream=True,
            follow=follow,
            tail="all" if tail is None else tail,
            timestamps=timestamps,
            since=since,
        )
        try:
            yield from stream
        finally:
            stream.close()
