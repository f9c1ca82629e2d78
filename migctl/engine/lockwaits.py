"""How long each part of migctl waits for a lock that another has: at once where it comes again anyway, long where a user would."""

from __future__ import annotations

from typing import Final

MACHINE_S: Final = 30.0
"""`down` and `restart` for the machine: an `up` holds it while it makes instances and starts jobs."""
TURN_MACHINE_S: Final = 20.0
"""The supervisor's turn for the machine: it keeps its run locked meanwhile, for which commands wait `TURN_S`."""
TURN_S: Final = 30.0
"""A command for a run that the supervisor may be at: about so long a turn holds it at most."""
TURN_RUN_S: Final = 1.0
"""The turn for its run: a `down` or `stop` of it lasts as long as a job's grace, and other runs do not wait for that."""
CLOSING_RUN_S: Final = 5.0
"""The supervisor for a run of which something is to be written down."""
EARLIER_SUPERVISOR_S: Final = 5.0
"""A supervisor for an earlier one that is about to end."""
