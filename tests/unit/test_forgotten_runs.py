"""Forgetting a run whose folder holds what is not the user's: the run is forgotten, and what stays is told."""

from __future__ import annotations

import os
import shutil
import sqlite3

from migctl.store import database
from migctl.store.ledger import Ledger
from tests.support.other_user import NOBODY, as_user, needs_root, open_folder
from tests.support.store_values import run

LOADED = (shutil, sqlite3, database)
"""Before the rights are given up: the library may be closed to other users."""


@needs_root
def test_files_of_a_containers_root_keep_no_other_command_from_its_work() -> None:
    with open_folder() as top:
        state = top / "state"
        state.mkdir()
        os.chown(state, NOBODY, NOBODY)

        def begin() -> None:
            with Ledger.open(state, write=True, now=lambda: 1.0) as ledger:
                ledger.save_run(run("old"))
                ledger.source_place("old")

        def forget() -> list[object]:
            with Ledger.open(state, write=True, now=lambda: 1.0) as ledger:
                ledger.forget_run("old")
            with Ledger.open(state, write=True, now=lambda: 1.0) as ledger:
                ledger.save_run(run("new"))
                told = ledger.notices
                return [[r.name for r in ledger.runs()], [n.id for n in told], [n.hint for n in told]]

        assert as_user(NOBODY, begin) is None
        of_root = state / "runs/old/@source/written"
        of_root.mkdir()
        (of_root / "checkpoint").write_text("by a container's root")

        found = as_user(NOBODY, forget)

        assert isinstance(found, list), found
        names, ids, hints = found
        assert (names, ids) == (["new"], ["not-removed"])
        assert hints[0].startswith(f"sudo rm -r {state}/runs/@gone-")
