"""What READMEs and docs/ say: links lead somewhere, every command that is named exists, both languages show the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from migctl.cli.commands import COMMANDS
from migctl.cli.common import Common
from migctl.cli.parameters import Option, parameters
from migctl.core.cpu.workers import GUIDE_TABLE
from migctl.nvml.models import boards
from tests.support.readme_blocks import Block, blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("README*.md"), *(ROOT / "docs").glob("*.md")])
PROCESSES = {"recorder", "supervisor"}
"""Names in the list of processes that are no commands."""
CURRENT = [page for page in PAGES if page.name != "errors.md"]


def named(page: Path) -> list[str]:
    """Every `migctl …` of a page: in backquotes, behind a prompt, and in indented lines."""
    text = page.read_text("utf-8")
    inline = re.findall(r"`([^`\n]*\bmigctl [a-z][^`\n]*)`", re.sub(r"(?ms)^```.*?^```$", "", text))
    shown = re.findall(r"(?m)^(?:\$ |    )([^\n]*\bmigctl [a-z][^\n]*)$", text)
    return [*inline, *shown]


def calls(line: str) -> list[list[str]]:
    """The words of each call of migctl in a line, without what stands before and behind."""
    found = []
    for part in re.split(r"[|;&]+|\s#\s|\s>+\s?", line.replace("…", "")):
        words = part.replace("$(", " ").split() if "'" in part or '"' in part else shlex.split(part)
        if "migctl" in words:
            found.append(words[words.index("migctl") + 1 :])
    return [words for words in found if words]


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.name)
def test_every_command_and_option_that_a_page_names_exists(page: Path) -> None:
    unknown = []
    for line in named(page):
        for first, *rest in calls(line):
            if first not in COMMANDS:
                if first.islower() and first.isalpha() and first not in PROCESSES:
                    unknown.append(line)
                continue
            known = {
                name
                for parameter in (*parameters(COMMANDS[first]), *parameters(Common))
                if isinstance(parameter.declared, Option)
                for name in parameter.declared.names
            }
            own = rest[: rest.index("--")] if "--" in rest else rest
            options = {re.split(r"[=,\]]", word)[0].strip("[]`") for word in own if re.match(r"\[?--?[a-zA-Z]", word)}
            unknown += [f"{line}: {option}" for option in options - known - {"--help"}]

    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


def without_comments(block: Block) -> str:
    return re.sub(r"(?m)\s+# .*$", "", block.text)


@pytest.mark.parametrize(("theirs", "ours"), [("README.ko.md", "README.md"), ("docs/guide.ko.md", "docs/guide.md")])
def test_the_korean_pages_show_what_the_english_ones_execute(theirs: str, ours: str) -> None:
    executed = {(block.language, without_comments(block)) for block in blocks(ROOT / ours)}

    assert [b.line for b in blocks(ROOT / theirs) if (b.language, without_comments(b)) not in executed] == []
    assert len(blocks(ROOT / theirs)) > 5


@pytest.mark.parametrize("name", ["guide.md", "guide.ko.md"])
def test_the_guides_hold_the_whole_table(name: str) -> None:
    rows = re.findall(r"(?m)^\| (\d+) \| (\d+) \| (\d+) \|", (ROOT / "docs" / name).read_text("utf-8"))

    assert [tuple(map(int, row)) for row in rows] == [(r.cores, r.jobs, r.num_workers) for r in GUIDE_TABLE]


def test_the_readme_can_be_read_in_five_minutes() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    prose = re.sub(r"(?ms)^```.*?^```$|^\|.*?$|<!-- overload: begin -->.*<!-- overload: end -->", "", text)

    assert len(prose.split()) < 2500  # of which most is skimmed, beside pictures and tables


def test_the_boards_that_pages_name_are_offered() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    asked = {
        re.sub(r"(x\d+|:off)$", "", name)
        for spec in re.findall(r"(?:--on |sim:)([\w.,:-]+)", text)
        for name in spec.split(",")
    }

    assert {
        name for name in asked if name not in ("BOARD", "X") and not any(key.startswith(name) for key in boards())
    } == set()
