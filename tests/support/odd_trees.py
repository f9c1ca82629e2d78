"""Trees of /sys and /proc in which files are not what the kernel would write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.support.fuzz import Shoot
from tests.support.in_process import say, standing_in
from tests.support.machines import MACHINES, write
from tests.support.spoil import spoilt_bytes, text

_NAMES = (
    "hybrid",
    "container-quota",
    "slurm-job",
    "vm-taskset",
    "grace-hopper",
    "node-without-memory",
    "pod-quota-above",
)


@contextmanager
def odd_trees(folder: Path) -> Iterator[Shoot]:
    """Plans and tables for a machine whose files were spoilt, one to three of them at a time."""
    roots = [write(MACHINES[name], folder / name) for name in _NAMES]
    files = {root: sorted(path for path in root.rglob("*") if path.is_file()) for root in roots}
    (folder / "plan.yaml").write_text(
        "runtime: process\njobs: {a: {command: 'true'}, b: {command: 'true', storage: auto}}\n"
    )

    def shoot(random: Random) -> None:
        root = random.choice(roots)
        # Those above all CPUs tell more than each of many CPUs' own.
        few = [path for path in files[root] if "/cpu/cpu" not in str(path)]
        chosen = {random.choice(few if random.random() < 0.6 else files[root]) for _ in range(random.randint(1, 3))}
        kept = {path: path.read_bytes() for path in chosen}
        try:
            for path, original in kept.items():
                _put(random, path, original)
            os.environ["MIGCTL_ROOT"] = str(root)
            say(*random.choice((("plan",), ("plan", "--json"), ("workers",), ("up", "--dry-run"))))
        finally:
            for path, original in kept.items():
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
                else:
                    path.unlink(missing_ok=True)
                path.write_bytes(original)

    with standing_in(folder):
        yield shoot


def _put(random: Random, path: Path, original: bytes) -> None:
    path.unlink()
    match random.randrange(12):
        case 0:
            pass
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to(random.choice(("nowhere", path.name, "/etc/passwd")))
        case 3 | 4 | 5:
            path.write_bytes(text(random).encode("utf-8", "surrogatepass"))
        case _:
            path.write_bytes(spoilt_bytes(random, original))
