"""The store's secret: 32 random bytes for the keyed digests of jobs' environment values."""

from __future__ import annotations

import os

from migctl.store.failure import file_failure
from migctl.store.folders import Folders, write_all

NAME = "key"
LENGTH_BYTES = 32


def read_key(folders: Folders) -> bytes | None:
    """The key; `None` where there is none, or not one of ours."""
    with folders.opened() as root:
        try:
            key = folders.read(root, NAME, folders.path(NAME))
        except ValueError:
            return None
    return key if key is not None and len(key) == LENGTH_BYTES else None


def make_key(folders: Folders) -> bytes:
    """Make the key (0600), or take the one that another process made in this moment.

    It is written under another name and linked, so that two processes end with the same one and none sees half of it.
    """
    mark = f"{NAME}.tmp-{os.urandom(4).hex()}"
    try:
        with folders.opened() as root:
            descriptor = os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=root)
            try:
                folders.give(descriptor)
                write_all(descriptor, os.urandom(LENGTH_BYTES))
                os.fsync(descriptor)
                _put(folders, root, mark)
            finally:
                os.close(descriptor)
                os.unlink(mark, dir_fd=root)
            os.fsync(root)
    except OSError as error:
        raise file_failure(error, folders.path(NAME), LENGTH_BYTES) from error
    key = read_key(folders)
    assert key is not None, "just written"
    return key


def _put(folders: Folders, root: int, mark: str) -> None:
    try:
        os.link(mark, NAME, src_dir_fd=root, dst_dir_fd=root)
    except FileExistsError:
        if read_key(folders) is None:
            # What is there is no key: digests made with it cannot be compared any more either way.
            os.rename(NAME, f"{NAME}.broken", src_dir_fd=root, dst_dir_fd=root)
            os.link(mark, NAME, src_dir_fd=root, dst_dir_fd=root)
