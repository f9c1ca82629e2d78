"""Host paths of volumes: made absolute, and refused where they are missing or would break the isolation."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from migctl.core.plan import Volume
from migctl.planfile.problems import Refusal

_SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
)
_SOCKET_NAMES = ("docker.sock", "podman.sock", "containerd.sock", "crio.sock")
_HOLD_SOCKETS = ("/", "/run", "/var", "/var/run", "/run/podman", "/run/containerd", "/run/crio")
_DEVICES = ("/dev", "/dev/char", "/dev/dri")


def absolute(path: str, folder: str, environ: Mapping[str, str]) -> str:
    """A path of the plan: `~` is the caller's home, a relative one starts at the plan's folder.

    `..` is resolved by text, as in Compose.

    Raises:
        Refusal: `~name` of an unknown user.
    """
    if path.startswith("~"):
        name, _, rest = path[1:].partition("/")
        try:
            home = pwd.getpwnam(name).pw_dir if name else environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
        except (KeyError, ValueError):
            raise Refusal(f"names the home of an unknown user: {path!r}") from None
        path = f"{home}/{rest}"
    joined = os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 -- pathlib keeps '..', Compose does not
    return "/" + joined.lstrip("/")


class Mounts:
    """Looks at each volume once, whatever number of jobs mounts it."""

    def __init__(self, folder: str, environ: Mapping[str, str], *, elsewhere: bool = False) -> None:
        self._folder = folder
        self._environ = environ
        self._elsewhere = elsewhere
        """The jobs run on a cluster's nodes, where other folders may be than here."""
        self._found: dict[Volume, Volume | Refusal] = {}

    def checked(self, volume: Volume) -> Volume:
        """The volume with an absolute source.

        Raises:
            Refusal: the source does not exist, or is a GPU device or an engine's socket.
        """
        if volume not in self._found:
            try:
                self._found[volume] = _checked(volume, self._folder, self._environ, elsewhere=self._elsewhere)
            except Refusal as refused:
                self._found[volume] = refused
        found = self._found[volume]
        if isinstance(found, Refusal):
            raise found
        return found


def _checked(volume: Volume, folder: str, environ: Mapping[str, str], *, elsewhere: bool) -> Volume:
    if volume.kind != "bind" or volume.source is None:
        return volume
    source = absolute(volume.source, folder, environ)
    engine = environ.get("DOCKER_HOST", "")
    for path in dict.fromkeys((source, os.path.realpath(source))):
        _refuse_socket(path, engine)
        if path in _DEVICES or path.startswith(("/dev/nvidia", "/proc/driver/nvidia")):
            raise Refusal(
                f"mounts {path}, and with it GPU devices past the plan",
                "delete it: migctl gives the job its instance",
                id="gpu-by-other-way",
            )
    here = not elsewhere and (not engine or engine.startswith(("unix://", "/")))
    if here and _missing(source):
        raise Refusal(
            f"mounts {source}, which does not exist on this machine",
            f"mkdir -p {source}, or correct the path (it starts at {folder})",
            id="missing-source",
        )
    return replace(volume, source=source)


def _refuse_socket(path: str, engine: str) -> None:
    name = path.rpartition("/")[2]
    if path in _SOCKETS or name in _SOCKET_NAMES or path == engine.removeprefix("unix://"):
        raise Refusal(
            f"mounts the container engine's socket {path}: whoever has it is root on this machine",
            "delete it",
            id="engine-socket",
        )
    if path in _HOLD_SOCKETS:
        raise Refusal(
            f"mounts {path}, which holds the container engine's socket",
            "mount the folder that is needed",
            id="engine-socket",
        )


def _missing(path: str) -> bool:
    try:
        Path(path).stat()
    except PermissionError:
        return False  # root's engine may see what the caller cannot
    except (OSError, ValueError):
        return True
    return False
