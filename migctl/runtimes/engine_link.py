"""The engine as one command sees it: connected when first needed, everything it says of itself asked once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.endpoint import find_endpoint
from migctl.runtimes.engine_client import Engine, connect
from migctl.runtimes.engine_kind import is_podman, where_else


class EngineLink:
    """Safe to use from several threads: the first one asks, the others wait for its answer."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._lock = threading.RLock()
        self._connected: Engine | None = None
        self._asked: Mapping[str, Any] | None = None

    @property
    def engine(self) -> Engine:
        """The connection."""
        with self._lock:
            if self._connected is None:
                self._connected = connect(find_endpoint(self._environ))
            return self._connected

    @property
    def info(self) -> Mapping[str, Any]:
        """Answer of `GET /info`."""
        with self._lock:
            if self._asked is None:
                with engine_errors(self.engine.endpoint):
                    self._asked = self.engine.client.info()
            return self._asked

    @property
    def local(self) -> bool:
        """Its pids and paths are this machine's."""
        return not self.elsewhere

    @property
    def elsewhere(self) -> str:
        """Where it runs if not on this machine, in words."""
        return where_else(self.engine.endpoint.url, self.engine.version)

    @property
    def podman(self) -> bool:
        """It is podman, behind Docker's API."""
        return is_podman(self.engine.version)

    def close(self) -> None:
        """Give the connections back; the next call opens new ones."""
        with self._lock:
            if self._connected is not None:
                self._connected.client.close()
            self._connected = None
