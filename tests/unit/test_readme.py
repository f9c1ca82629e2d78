"""What the README says about commands, exit codes, variables and files is what is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from migctl import errors
from migctl.cli.application import application
from tests.support.readme_blocks import Block, agrees, blocks, commands

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TEXT = README.read_text("utf-8")


def rows(first: str) -> list[list[str]]:
    """The rows of the table whose first heading is this."""
    table = TEXT.split(f"| {first} |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_every_command_has_its_row_and_every_row_its_command() -> None:
    there = {command.name for command in application().registered_commands if not command.hidden}

    assert {re.sub(r"`migctl (\w+)`", r"\1", row[0]) for row in rows("command")} == there


def test_every_exit_code_has_its_row() -> None:
    classes = [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.MigctlError)
    ]
    told = {int(code) for row in rows("exit code") for code in row[0].split(",")}

    assert told == {0, 129, 143} | {kind.exit_code for kind in classes}


def test_the_options_in_the_commands_table_exist() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "migctl/cli").glob("*.py"))
    options = {option for row in rows("command") for option in re.findall(r"`(--?[\w-]+)", row[1])}

    assert {option for option in options if f'"{option}"' not in source} == set()


def test_every_variable_that_migctl_reads_has_its_row() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "migctl").rglob("*.py"))
    read = set(re.findall(r"""environ(?:\.get\(|\[)"(MIGCTL_\w+)\"""", source))

    assert read
    assert read == {name for row in rows("variable") for name in re.findall(r"MIGCTL_\w+", row[0])}


def test_links_to_files_lead_somewhere() -> None:
    assert [link for link in re.findall(r"\]\((?!http)([^)#]+)\)", TEXT) if not (ROOT / link).exists()] == []


def test_every_block_is_executed_or_says_why_not() -> None:
    found = blocks(README)
    unnamed = [b.line for b in found if b.language in {"yaml", "python"} and not b.about("file")]

    assert {block.language for block in found} == {"console", "yaml", "python"}
    assert len(found) == TEXT.count("\n```") // 2
    assert unnamed == []


@pytest.mark.parametrize("block", [b for b in blocks(README) if b.about("not run")], ids=lambda b: f"line {b.line}")
def test_a_block_that_is_not_run_names_programs_that_exist(block: Block) -> None:
    for command in commands(block):
        program = shlex.split(command.words)[0]
        if program.startswith("scripts/"):
            assert (ROOT / program).stat().st_mode & 0o111
        else:
            assert Path(program).name in {"python3", "pip", "migctl", "source"}


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("", "anything", True),
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a \nb", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n...\nb\n", "a\n1\n2\nb\n", True),
        ("a ... b\n", "a 17 b\n", True),
        ("a ... b\n", "a\nb\n", False),
        ("a.b\n", "axb\n", False),
    ],
)
def test_three_dots_stand_for_anything_and_nothing_else_does(shown: str, printed: str, same: bool) -> None:
    assert agrees(shown, printed) is same
