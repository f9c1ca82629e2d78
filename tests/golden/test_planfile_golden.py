"""Every mistake of a plan is told at once, each with its place and a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from migctl import planfile
from migctl.errors import Problems, Where

PLANS = Path(__file__).parents[1] / "data" / "plans"


def told(problems: Problems) -> str:
    """The errors as text: place, kind, message, the line with a caret, hint."""
    lines: list[str] = []
    for error in problems.all:
        lines.append(f"{error.where}: {error.id}: {error.message}")
        if isinstance(error.where, Where) and error.where.excerpt:
            lines += [f"    {error.where.excerpt}", "    " + " " * (error.where.column - 1) + "^"]
        lines.append(f"    → {error.hint}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["mistakes", "queue-mistakes"])
def test_a_plan_with_more_than_ten_mistakes_gets_one_answer(name: str, golden: Callable[[str, str], None]) -> None:
    text = (PLANS / f"{name}.yaml").read_text("utf-8")

    with pytest.raises(Problems) as caught:
        planfile.loads(text, f"{name}.yaml", Path("/nowhere"), {})

    assert caught.value.exit_code == 2
    assert len(caught.value.all) > 10
    golden(f"planfile/{name}", told(caught.value))
