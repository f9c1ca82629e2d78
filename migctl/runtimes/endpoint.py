"""Where the container engine listens, found in the order in which the docker command line looks, plus the rootless socket."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from migctl.errors import HostError

DEFAULT_SOCKET = "/var/run/docker.sock"


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files for an engine reached over TCP; `None` where there is none."""

    ca: str | None
    cert: str | None
    key: str | None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An engine's address and who named it."""

    url: str
    source: str
    """In words: `DOCKER_HOST`, `docker context lab`, `default socket`, `rootless socket`."""
    config: str
    """The caller's Docker configuration file, which also holds credentials; it need not exist."""
    owner: int
    """uid on whose behalf migctl acts."""
    home: str
    tls: Tls | None = None

    @property
    def socket(self) -> str | None:
        """Path of the socket on this machine, `None` for an engine elsewhere."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else None


def find_endpoint(environ: Mapping[str, str], *, default_socket: str = DEFAULT_SOCKET) -> Endpoint:
    """DOCKER_HOST, then the context (DOCKER_CONTEXT or the current one), then the default socket, then the rootless one.

    Under sudo the caller's own configuration counts, so that `sudo migctl` talks to the same engine as `migctl`.

    Raises:
        HostError: the context does not exist or cannot be read.
    """
    uid, home = _owner(environ)
    folder = Path(environ.get("DOCKER_CONFIG") or Path(home, ".docker"))
    config = folder / "config.json"

    def found(url: str, source: str, tls: Tls | None = None) -> Endpoint:
        # The command line also accepts a bare path behind unix: and writes tcp for https.
        return Endpoint(url=url, source=source, config=str(config), owner=uid, home=home, tls=tls)

    if host := environ.get("DOCKER_HOST"):
        return found(host, "DOCKER_HOST", _tls_of_environment(environ, folder) if host.startswith("tcp:") else None)
    context = environ.get("DOCKER_CONTEXT") or _current_context(config)
    if context and context != "default":
        return found(*_read_context(folder, context))
    rootless = str(Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}", "docker.sock"))
    if not os.access(default_socket, os.R_OK | os.W_OK) and os.access(rootless, os.R_OK | os.W_OK):
        return found(f"unix://{rootless}", "rootless socket")
    return found(f"unix://{default_socket}", "default socket")


def _owner(environ: Mapping[str, str]) -> tuple[int, str]:
    """SUDO_UID counts only for root: anybody else could set it to anything."""
    uid, asked = os.getuid(), environ.get("SUDO_UID", "")
    sudo = os.geteuid() == 0 and asked.isascii() and asked.isdigit() and int(asked) != 0
    uid = int(asked) if sudo else uid
    if environ.get("HOME") and not sudo:
        return uid, environ["HOME"]
    try:
        return uid, pwd.getpwuid(uid).pw_dir
    except KeyError:
        return uid, environ.get("HOME") or "/"


def _tls_of_environment(environ: Mapping[str, str], folder: Path) -> Tls | None:
    if not environ.get("DOCKER_TLS_VERIFY"):
        return None
    return _tls(Path(environ.get("DOCKER_CERT_PATH") or folder), verify=True)


def _tls(folder: Path, *, verify: bool) -> Tls | None:
    ca, cert, key = (
        str(p) if p.is_file() else None for p in (folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
    )
    return Tls(ca, cert, key, verify) if ca or cert else None


def _current_context(config: Path) -> str | None:
    try:
        content = json.loads(config.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise HostError(
            "docker-config",
            f"the Docker configuration cannot be read: {error}",
            where=str(config),
            hint="docker context ls",
        ) from None
    name = content.get("currentContext") if isinstance(content, dict) else None
    return name if isinstance(name, str) else None


def _read_context(folder: Path, name: str) -> tuple[str, str, Tls | None]:
    """Contexts lie in folders named after the SHA-256 of their name (docker/cli, cli/context/store)."""
    key = hashlib.sha256(name.encode()).hexdigest()
    path = folder / "contexts/meta" / key / "meta.json"
    try:
        engine = json.loads(path.read_text())["Endpoints"]["docker"]
        host, verify = str(engine["Host"]), not engine.get("SkipTLSVerify", False)
    except (OSError, ValueError, KeyError, TypeError):
        raise HostError(
            "no-context",
            f"the Docker context {name!r} does not exist or cannot be read",
            where=str(path),
            hint="docker context ls; docker context use NAME, or set DOCKER_HOST",
        ) from None
    return host, f"docker context {name}", _tls(folder / "contexts/tls" / key / "docker", verify=verify)
