"""The tables of the index, as the scripts that lead from one version to the next."""

from __future__ import annotations

APPLICATION_ID = 0x6D696763
"""`migc`: tells our file from any other SQLite database (sqlite.org/pragma.html#pragma_application_id)."""

MIGRATIONS = (
    # 1: what there is, and the attempts that are over. `body` is the JSON of the codec, other columns repeat parts.
    """
    CREATE TABLE runs (name TEXT PRIMARY KEY, revision INTEGER NOT NULL, ended_at REAL, body TEXT NOT NULL);
    CREATE TABLE jobs (
        run TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL, revision INTEGER NOT NULL, token TEXT NOT NULL,
        state TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (run, job)
    );
    CREATE TABLE attempts (
        run TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL, token TEXT NOT NULL, state TEXT NOT NULL,
        body TEXT NOT NULL, PRIMARY KEY (run, job, token)
    );
    """,
    # 2: what happened when: steps with their begin and end.
    """
    CREATE TABLE intents (
        run TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL, action TEXT NOT NULL, begun_at REAL NOT NULL, done_at REAL
    );
    CREATE INDEX intents_open ON intents (run, job) WHERE done_at IS NULL;
    """,
)

VERSION = len(MIGRATIONS)
"""The `user_version` that this migctl writes."""

TABLES = frozenset({"runs", "jobs", "attempts", "intents"})
BY_RUN = ("jobs", "attempts", "intents")
"""Tables whose rows belong to one run."""
