"""GPU boards that can be simulated or planned for offline; `boards.json` beside this file holds them, each with its public source.

A real GPU's own driver is asked instead: names, ids and sizes differ between boards and drivers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, cast

from migctl.core.gpu.mig import ComputeSlices, Gpu, MemorySlices, MigMode, Placement, Profile, profile_order
from migctl.errors import PlanError
from migctl.nvml.simdriver import DriverAge, driver_age

_LIST_ITEM: Final = re.compile(r"(?P<board>.+?)(?:x(?P<count>[0-9]+))?(?::(?P<mode>on|off))?")
_MOST_GPUS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One GPU product; sizes in MiB."""

    key: str
    """Its lower-case name in `sim:…` and `--on`."""
    name: str
    """Its product name as NVML gives it."""
    architecture: str
    memory_mib: int
    resetless_mig: bool
    """Whether changing the MIG mode needs no GPU reset (Hopper and later); such a mode is lost at reboot."""
    source: str
    profiles: tuple[Profile, ...]
    """Empty: no MIG."""
    engines: Mapping[int, tuple[int, int, int, int, int]]
    """Copy, decoder, encoder, JPEG and optical-flow engines by profile id."""
    variants: Mapping[int, int]
    """By GPU instance profile id: the compute instance profile offered beside the plain one of the same slice count, by its index
    (7 = 1_SLICE_REV1, 8 = 7_SLICE_NVL)."""
    older: tuple[tuple[int, Board], ...] = ()
    """What it is under drivers before a branch, where it differs by more than missing profiles."""
    mixes_four_and_three: bool = True
    """Whether a 4g and a 3g instance can lie beside each other."""

    @property
    def memory_slices(self) -> int:
        """Width of the placement axis."""
        return max((placement.end for profile in self.profiles for placement in profile.placements), default=0)

    @property
    def compute_slices(self) -> int:
        """Compute slices of the whole GPU."""
        return max((int(profile.compute_slices) for profile in self.profiles), default=0)

    def profile(self, profile_id: int) -> Profile | None:
        """The profile of this id."""
        return next((profile for profile in self.profiles if profile.id == profile_id), None)

    def under(self, age: DriverAge) -> Board:
        """The same product under a driver of this age."""
        board = next((older for before, older in self.older if age.branch < before), self)
        known = tuple(profile for profile in board.profiles if profile.index <= age.last_profile_index)
        return replace(board, profiles=known, mixes_four_and_three=age.mixes_four_and_three)


@dataclass(frozen=True, slots=True)
class BoardSlot:
    """One GPU of a simulated or imagined machine."""

    board: Board
    mig_on: bool
    """MIG mode at the start; never on for a board without MIG."""


@cache
def _table() -> Mapping[str, Mapping[str, object]]:
    rows = json.loads(Path(__file__).with_name("boards.json").read_text("utf-8"))
    return {row["key"]: row for row in rows}


def boards() -> tuple[str, ...]:
    """The keys of all boards offered."""
    return tuple(_table())


@cache
def resolve_board(name: str) -> Board:
    """The board of this key, or of the one key that begins so; upper and lower case are the same.

    Raises:
        PlanError: no board, or several, begin like that.
    """
    wanted = name.strip().lower()
    found = [key for key in boards() if key == wanted] or [key for key in boards() if wanted and key.startswith(wanted)]
    if len(found) == 1:
        return _board(_table()[found[0]])
    if found:
        raise PlanError(
            "ambiguous-board", f"{name!r} can be any of {', '.join(found)}", hint=f"write one of them, e.g. {found[0]}"
        )
    from difflib import get_close_matches

    near = get_close_matches(wanted, boards(), n=1, cutoff=0.5)
    raise PlanError(
        "unknown-board",
        f"no GPU board is called {name!r}; there are {', '.join(boards())}",
        hint=f"did you mean {near[0]}?" if near else None,
    )


@cache
def board_under(key: str, driver: str) -> Board:
    """The board of this key as a driver of this version knows it.

    Raises:
        PlanError: as `resolve_board`.
        ValueError: that is no driver's version.
    """
    return resolve_board(key).under(driver_age(driver))


def parse_boards(text: str) -> tuple[BoardSlot, ...]:
    """A list of boards as in `a100-40gbx2,h100-sxm5-80gb:off,t4`: `xN` = N of them, `:off` = MIG mode off at the start (else on).

    Raises:
        PlanError: a board is unknown, a number is 0, or there are more than 64 GPUs.
    """
    slots: list[BoardSlot] = []
    for item in text.split(","):
        match = _LIST_ITEM.fullmatch(item.strip())
        if match is None:
            raise PlanError("no-board", f"a board is missing in {text!r}", hint=f"boards: {', '.join(boards())}")
        count = int(match["count"] or 1)
        board = resolve_board(match["board"])
        if not 1 <= count <= _MOST_GPUS - len(slots):
            raise PlanError(
                "board-count", f"{item.strip()!r}: a machine has 1 to {_MOST_GPUS} GPUs", hint=f"{board.key}x2"
            )
        slots += [BoardSlot(board, mig_on=bool(board.profiles) and match["mode"] != "off")] * count
    return tuple(slots)


def board_gpu(board: Board, index: int = 0, *, mig_on: bool = True) -> Gpu:
    """This board as an empty GPU, as if observed; the simulator's GPU of the same index has the same UUID and address."""
    return Gpu(
        index=index,
        uuid=gpu_uuid(board.key, index),
        name=board.name,
        pci_bus_id=pci_bus_id(index),
        minor=index,
        memory_mib=board.memory_mib,
        mig=MigMode(current=mig_on, pending=mig_on) if board.profiles else None,
        resetless_mig=board.resetless_mig if board.profiles else None,
        profiles=board.profiles,
    )


def gpu_uuid(board: str, index: int) -> str:
    """UUID of a simulated GPU: the same for every process, another one for every board and index."""
    return "GPU-" + name_uuid(f"migctl/{board}/{index}")


def pci_bus_id(index: int) -> str:
    """PCI address of a simulated GPU, as sysfs writes it."""
    return f"0000:{0x10 + index:02x}:00.0"


def name_uuid(name: str) -> str:
    """A version-5 UUID (RFC 9562) of this name, in a namespace of our own: all of the name counts, not one group of it."""
    from hashlib import sha1

    digest = bytearray(sha1(name.encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _board(row: Mapping[str, object]) -> Board:
    rows = cast("list[dict[str, object]]", row["profiles"])
    profiles = tuple(sorted((_profile(r) for r in rows), key=profile_order))
    older = cast("list[dict[str, object]]", row.get("older", []))
    return Board(
        key=str(row["key"]),
        name=str(row["name"]),
        architecture=str(row["architecture"]),
        memory_mib=cast("int", row["memory_mib"]),
        resetless_mig=bool(row["resetless_mig"]),
        source=str(row["source"]),
        profiles=profiles,
        engines={cast("int", r["id"]): _engines(cast("list[int]", r["engines"])) for r in rows},
        variants={cast("int", r["id"]): cast("int", r["variant_ci"]) for r in rows if "variant_ci" in r},
        older=tuple((cast("int", o["before"]), _board({**row, "older": [], **o})) for o in older),
    )


def _profile(row: Mapping[str, object]) -> Profile:
    size = MemorySlices(cast("int", row["size"]))
    return Profile(
        name=str(row["name"]),
        index=cast("int", row["index"]),
        id=cast("int", row["id"]),
        compute_slices=ComputeSlices(cast("int", row["compute_slices"])),
        memory_mib=cast("int", row["memory_mib"]),
        multiprocessors=cast("int", row["multiprocessors"]),
        max_instances=cast("int", row["max_instances"]),
        placements=tuple(Placement(start, size) for start in cast("list[int]", row["starts"])),
    )


def _engines(counts: list[int]) -> tuple[int, int, int, int, int]:
    copy, decoder, encoder, jpeg, ofa = counts
    return copy, decoder, encoder, jpeg, ofa
