"""A real copy of folders and files, of bounded size: no links to the original, whoever edits that later."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = frozenset({".git"})
"""What is the history of the source, and no part of it."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How large a tree is."""

    size_bytes: int
    files: int
    largest: tuple[tuple[str, int], ...]
    """The entries right below its top that hold most, with their bytes; the largest first."""


def extent(top: Path, without: Callable[[Path], bool]) -> Extent:
    """Measure what a copy would take; links are not followed.

    Raises:
        OSError: something in it cannot be read.
    """
    sizes: dict[str, int] = {}
    files = 0
    for path, entry in _entries(top, without):
        size = entry.st_size if stat.S_ISREG(entry.st_mode) else 0
        name = path.relative_to(top).parts[0] if path != top else path.name
        sizes[name] = sizes.get(name, 0) + size
        files += 1
    ordered = sorted(sizes.items(), key=lambda item: -item[1])
    return Extent(sum(sizes.values()), files, tuple(ordered[:3]))


def copy(top: Path, target: Path, without: Callable[[Path], bool], *, resolve: bool) -> None:
    """Copy a folder or a file with its modes and times; sockets, pipes and devices are left out.

    Args:
        top: what is copied.
        target: where to; its parents are made.
        without: what is left out, with all below it.
        resolve: a relative link that leads out of `top` is made to lead to the same place from where the copy lies.

    Raises:
        OSError: it could not be copied; what was is left.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    folders: list[tuple[Path, Path]] = []
    for path, entry in _entries(top, without):
        there = target / path.relative_to(top) if path != top else target
        if stat.S_ISDIR(entry.st_mode):
            there.mkdir(mode=0o700, exist_ok=True)
            folders.append((path, there))
        elif stat.S_ISLNK(entry.st_mode):
            there.symlink_to(_leading(path, top) if resolve else path.readlink())
        elif stat.S_ISREG(entry.st_mode):
            shutil.copy2(path, there, follow_symlinks=False)
    for path, there in reversed(folders):
        shutil.copystat(path, there)
        there.chmod(there.stat().st_mode | stat.S_IRWXU)  # or it could not be removed


def give(top: Path, uid: int, gid: int) -> None:
    """Make everything in the tree this user's.

    Raises:
        OSError: that is not permitted.
    """
    for path, _ in _entries(top, lambda _: False):
        os.chown(path, uid, gid, follow_symlinks=False)


def _leading(path: Path, top: Path) -> Path:
    """The link's target, absolute where it leads out of the tree."""
    target = path.readlink()
    if target.is_absolute():
        return target
    whole = Path(os.path.normpath(path.parent / target))
    return target if whole.is_relative_to(top) else whole


def _entries(top: Path, without: Callable[[Path], bool]) -> Iterator[tuple[Path, os.stat_result]]:
    """The tree, each folder before what is in it."""
    left = [top]
    while left:
        path = left.pop()
        entry = path.lstat()
        yield path, entry
        if stat.S_ISDIR(entry.st_mode):
            left += [path / name for name in sorted(os.listdir(path)) if not _is_out(path / name, without)]  # noqa: PTH208 -- names


def _is_out(path: Path, without: Callable[[Path], bool]) -> bool:
    return path.name in LEFT_OUT or without(path)
