"""Output that nobody takes (closed, full disk, a reader that has gone): the exit code is about the work."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from migctl.cli.commands import COMMANDS
from migctl.cli.streams import ACTING
from tests.support.program import Done, Program

PLAN = """\
name: long
runtime: process
oversubscribe: true
defaults: {profile: 1g.5gb, stop_grace_period: 1s, command: [sleep, "600"]}
jobs: {a: {}, b: {}}
"""
ONLY_LOOKING = {
    "check",
    "export",
    "history",
    "import",
    "init",
    "logs",
    "plan",
    "profiles",
    "ps",
    "report",
    "schema",
    "status",
    "workers",
}
"""Commands whose work is what they print."""
FULL = "No space left on device"


def shell(program: Program, line: str) -> Done:
    """A line of bash in which `migctl` is the program; the exit code is migctl's also where it stands before a pipe."""
    call = f"{shlex.quote(sys.executable)} -m migctl"
    done = subprocess.run(
        ["bash", "-c", f'{line.replace("migctl", call)}; exit "${{PIPESTATUS[0]}}"'],
        cwd=program.folder,
        env=program.environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return Done((line,), done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Case:
    """A line, its exit code, and the one line on stderr, if any."""

    line: str
    code: int
    says: str = ""


LOOKING = [
    Case("migctl plan >&-", 0),
    Case("migctl plan <&- >&- 2>&-", 0),
    Case("migctl plan >/dev/full", 4, FULL),
    Case("migctl plan --json >/dev/full", 4, FULL),
    Case("migctl schema >/dev/full", 4, FULL),
    Case("migctl --help >/dev/full", 4, FULL),
    Case("migctl plan --help >/dev/full", 4, FULL),
    Case("migctl --version >/dev/full", 4, FULL),
    Case("migctl up --dry-run >/dev/full", 4, FULL),
    Case("migctl plan missing.yaml 2>&-", 2),
    Case("migctl plan missing.yaml 2>/dev/full", 2),
    Case("migctl plan missing.yaml --json >/dev/full", 2, FULL),
    Case("migctl schema | true", 0),
    Case("migctl --help | true", 0),
    Case("migctl plan missing.yaml --json | true", 2),
]


@pytest.mark.parametrize("case", LOOKING, ids=lambda case: case.line)
def test_what_only_looks_fails_where_its_answer_could_not_be_written(program: Program, case: Case) -> None:
    program.plan(PLAN)
    done = shell(program, case.line).ended(case.code)

    assert done.err.count("\n") == (1 if case.says else 0), done
    assert case.says in done.err


def running(program: Program) -> list[Any]:
    return [job["name"] for job in program.jobs().values() if job["state"] == "running"]


@pytest.mark.parametrize("where", [">/dev/full", "--json >/dev/full", ">&-", "<&- >&- 2>&-", "| true"])
def test_what_acts_has_acted_and_says_so_by_its_exit_code(program: Program, where: str) -> None:
    program.plan(PLAN)
    up = shell(program, f"migctl up {where}").ended(0)

    assert running(program) == ["a", "b"]
    down = shell(program, f"migctl down {where}").ended(0)
    assert program.jobs() == {}
    assert program.instances() == []
    for done in (up, down):
        assert (f"{FULL}; what was asked is done" in done.told) == ("/dev/full" in where), done


@pytest.mark.parametrize("where", [">/dev/full", "| true"])
def test_waiting_goes_on_although_nobody_takes_what_it_says(program: Program, where: str) -> None:
    program.plan(PLAN.replace('[sleep, "600"]', "[sh, -c, 'sleep 0.5; exit 3']"))

    shell(program, f"migctl up --wait {where}").ended(8)


def test_what_is_opened_after_a_closed_stream_never_becomes_that_stream(program: Program) -> None:
    program.plan(PLAN)
    shell(program, "migctl up <&- >&- 2>&-").ended(0)
    shell(program, "migctl status >&-").ended(0)

    assert b"long" not in (program.state / "store.db").read_bytes()[:16]
    assert running(program) == ["a", "b"]


def test_each_command_is_known_to_act_or_only_to_look() -> None:
    assert set(COMMANDS) == (ACTING & set(COMMANDS)) | (ONLY_LOOKING & set(COMMANDS))
    assert not ACTING & ONLY_LOOKING
