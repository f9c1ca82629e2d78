"""migctl's specification files in the folders that an engine reads, and what lies there of others."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from migctl.errors import HostError
from migctl.runtimes.cdi_spec import file_name, text_of, unit_of_file

DEFAULT_FOLDERS = ("/etc/cdi", "/var/run/cdi")
"""Where engines look that do not say where (CDI SPEC.md, "CDI file discovery"); later ones count more."""
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One device of a specification file."""

    file: str
    kind: str
    name: str
    nodes: tuple[str, ...]
    """Its own device nodes, on this machine."""
    unit: str | None = None
    """The unit of migctl's that the file belongs to."""

    @property
    def qualified(self) -> str:
        """`nvidia.com/gpu=MIG-…`."""
        return f"{self.kind}={self.name}"


def choose_folder(folders: Sequence[str]) -> str | None:
    """The last one that can be written, or made: later folders count more, and /var/run is empty after a reboot, like the GPU."""
    return next((folder for folder in reversed(folders) if _can_write(Path(folder))), None)


def write_file(folder: str, unit: str, spec: Mapping[str, object]) -> Path:
    """Write a unit's file, whole or not at all: engines read the folder at any moment.

    Raises:
        HostError: cdi-folder-unwritable.
    """
    path = Path(folder, file_name(unit))
    text = text_of(spec)
    with suppress(OSError):
        if path.read_text() == text:
            return path
    try:
        Path(folder).mkdir(mode=0o755, parents=True, exist_ok=True)
        # Engines skip names that do not end in .json or .yaml.
        fd, fresh = tempfile.mkstemp(prefix=".migctl-", suffix=".new", dir=folder)
        try:
            with os.fdopen(fd, "w") as file:
                file.write(text)
                os.fchmod(file.fileno(), 0o644)
                file.flush()
                os.fsync(file.fileno())
            Path(fresh).rename(path)
        except BaseException:
            with suppress(OSError):
                Path(fresh).unlink()
            raise
    except OSError as error:
        raise unwritable(folder, error.strerror or str(error)) from None
    return path


def remove_files(folders: Iterable[str], unit: str) -> None:
    """Take a unit's file away, wherever it is; none there is fine.

    Raises:
        HostError: cdi-folder-unwritable.
    """
    for folder in folders:
        try:
            Path(folder, file_name(unit)).unlink(missing_ok=True)
        except NotADirectoryError:
            continue
        except OSError as error:
            raise unwritable(folder, error.strerror or str(error)) from None


def unwritable(folder: str, why: str) -> HostError:
    """The folder cannot be used, and what to do."""
    return HostError(
        "cdi-folder-unwritable",
        f"the engine reads CDI specifications from {folder}, which cannot be written: {why}",
        where=folder,
        hint="run it with sudo: whoever writes there can run programs as the engine's user",
    )


def entries(folders: Iterable[str]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """All devices in these folders, and a line for each file that cannot be read."""
    found: list[Entry] = []
    wrong: list[str] = []
    for folder in folders:
        try:
            paths = sorted(p for p in Path(folder).iterdir() if p.suffix in (".json", ".yaml"))
        except OSError:
            continue
        for path in paths:
            try:
                found += _entries_of(path)
            except OSError as error:
                wrong.append(f"{path}: {error.strerror}")
            except (ValueError, TypeError, KeyError) as error:
                wrong.append(f"{path}: {' '.join(str(error).split())[:120]}")
    return tuple(found), tuple(wrong)


def _entries_of(path: Path) -> Iterator[Entry]:
    with path.open(encoding="utf-8") as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"larger than {_MOST_BYTES >> 20} MiB")
    spec = json.loads(text) if path.suffix == ".json" else _yaml(text)
    if not isinstance(spec, dict) or not isinstance(spec.get("devices"), list):
        raise TypeError("no CDI specification")
    for device in spec["devices"]:
        nodes = (device.get("containerEdits") or {}).get("deviceNodes") or []
        yield Entry(
            file=str(path),
            kind=str(spec["kind"]),
            name=str(device["name"]),
            nodes=tuple(str(node.get("hostPath") or node["path"]) for node in nodes),
            unit=unit_of_file(path.name),
        )


def _yaml(text: str) -> object:
    import yaml

    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _can_write(folder: Path) -> bool:
    there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
