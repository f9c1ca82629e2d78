"""A small file system that can be filled to its last byte."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path


class Disk:
    """A tmpfs of its own; only root mounts one."""

    def __init__(self, folder: Path, size: str) -> None:
        self.folder = folder
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)

    def fill(self) -> None:
        """Take the last byte, also what was freed meanwhile."""
        with (
            suppress(OSError),
            (self.folder / f"filler-{time.monotonic_ns()}").open("wb", buffering=0) as file,
        ):
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        """Give it all back."""
        for filler in self.folder.glob("filler-*"):
            filler.unlink()

    def close(self) -> None:
        """Unmount it, at the latest when the last process lets go of it."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
