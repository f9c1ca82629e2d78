"""Writes the generated documents anew; `texts` says what they should be."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.reference import error_list, man_page, plan_keys

ROOT = Path(__file__).parents[2]


def texts() -> dict[Path, str]:
    """File → what it should hold."""
    plan = ROOT / "docs/plan.md"
    whole = plan.read_text("utf-8")
    for name, made in (("keys", plan_keys.reference()), ("targets", plan_keys.targets())):
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        whole = re.sub(f"(?s){begin}.*?{end}", lambda _, t=begin + made + end: t, whole)
    return {plan: whole, ROOT / "docs/errors.md": error_list.page(), ROOT / "docs/migctl.1": man_page.page()}


def main() -> None:
    """Write those that differ."""
    for path, text in texts().items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
