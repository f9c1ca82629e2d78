"""The generated pages are current and whole: keys of the plan, errors and findings, the manual page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from migctl.cli.commands import COMMANDS, HIDDEN
from scripts.reference.error_list import Reader
from scripts.reference.write import ROOT, texts

TEXTS = texts()
READER = Reader()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_generated_page_is_current(path: Path) -> None:
    if os.environ.get("MIGCTL_UPDATE_GOLDEN") == "1":
        path.write_text(TEXTS[path], "utf-8")

    assert path.read_text("utf-8") == TEXTS[path], "run scripts/docs"


PASSED_ON = re.compile(r"(?:\w+\.)+id|kind|problem|finding")
"""An id that is handed on, which has its own place where it was given."""


def test_every_place_that_raises_spells_its_id_or_hands_one_on() -> None:
    unread = [opaque for opaque in READER.opaque if not PASSED_ON.fullmatch(opaque.id)]

    assert unread == []


def test_every_id_of_the_source_is_on_the_page() -> None:
    page = (ROOT / "docs/errors.md").read_text("utf-8")
    listed = set(re.findall(r"(?m)^\| `([a-z0-9-]+)` \|", page))
    source = "".join(path.read_text("utf-8") for path in (ROOT / "migctl").rglob("*.py"))
    classes = "PlanError|DoesNotFit|HostError|Busy|PartlyApplied|Drift|JobsFailed|Interrupted"
    raised = set(re.findall(rf'(?:{classes})\(\s*"([a-z0-9-]+)"', source))
    found = set(re.findall(r'Finding\(\s*id="([a-z0-9-]+)",\s*level=Level\.(?:WARNING|FAILURE)', source))

    assert len(raised) > 100
    assert raised | found <= listed


def test_nearly_every_error_says_what_to_do_next() -> None:
    errors = [entry for entry in READER.entries if isinstance(entry.kind, int)]
    silent = [entry.id for entry in errors if not entry.hint]

    assert len(silent) < len(errors) / 4


def test_the_manual_has_every_command_and_every_option() -> None:
    page = TEXTS[ROOT / "docs/migctl.1"].replace("\\-", "-").replace("\\&", "")

    assert [name for name in COMMANDS if name not in HIDDEN and f'.SS "migctl {name}' not in page] == []
    words = set(re.findall(r"-*\w[\w-]*", re.sub(r"\\f[BIR]", " ", page)))
    assert {"--wait-for", "--nvml", "MIGCTL_STATE_DIR", "130"} <= words


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_reads_the_manual_without_a_complaint() -> None:
    done = subprocess.run(
        ["man", "--warnings", "--encoding=UTF-8", "--local-file", str(ROOT / "docs/migctl.1")],
        env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANPAGER": "cat"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "migctl up [FILE]" in done.stdout
    assert "--enable-mig" in done.stdout
