"""`profiles` as text: what each GPU can be divided into."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.gpu.mig import Profile
from migctl.core.views.tables import BoardProfiles
from migctl.render.console import Style
from migctl.render.heading import heading
from migctl.render.table import Cell, Column, table
from migctl.render.text import clean, fit, hang, page

_COLUMNS = (
    Column(title="PROFILE"),
    Column(title="ID", right=True),
    Column(title="MEMORY GIB", right=True),
    Column(title="MEM SLICES", right=True, drop=2),
    Column(title="COMPUTE", right=True),
    Column(title="SMS", right=True, drop=1),
    Column(title="MAX", right=True),
    Column(title="STARTS", least=7),
)


def profiles_text(boards: Sequence[BoardProfiles], style: Style, *, simulated: str = "") -> str:
    """One table a board; equal boards share one."""
    blocks: list[list[str]] = []
    if simulated:
        blocks.append(heading("profiles", "", [], simulated, style))
    alike: dict[tuple[str, tuple[Profile, ...], str], list[BoardProfiles]] = {}
    for board in boards:
        alike.setdefault((board.name, board.profiles, board.reason), []).append(board)
    for (name, profiles, reason), members in alike.items():
        indexes = [str(board.index) for board in members if board.index is not None]
        several = f"{len(members)} {style.signs.times} " if len(members) > 1 else ""
        title = fit(clean(several + name, style), style.columns, style)
        lines = [style.paint(title, "bold")]
        if indexes:
            lines = hang(f"GPU {', '.join(indexes)} ", name, style, look=("bold",))
        if reason or not profiles:
            lines += hang("", reason or "no MIG: no profiles", style, indent=2)
        else:
            lines += table(_COLUMNS, [_row(profile) for profile in profiles], style)
            lines += hang("", _legend(profiles), style, indent=2, look=("dim",))
        blocks.append(lines)
    return page(blocks, style)


def _row(profile: Profile) -> list[Cell | str]:
    return [
        Cell(profile.name, ("bold",)),
        str(profile.id),
        f"{profile.memory_mib / 1024:.2f}",
        str(profile.memory_slices),
        str(profile.compute_slices),
        str(profile.multiprocessors),
        str(profile.max_instances),
        ",".join(str(placement.start) for placement in profile.placements),
    ]


def _legend(profiles: Sequence[Profile]) -> str:
    memory = max(p.end for profile in profiles for p in profile.placements)
    compute = max(profile.compute_slices for profile in profiles)
    return f"COMPUTE in slices of {compute}; STARTS: first memory slice, of {memory}; MAX on an empty GPU"
