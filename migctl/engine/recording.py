"""The process that keeps what is seen of one user's jobs: whether there is one, and how it is started and woken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from migctl.engine.queueing.supervisor import places
from migctl.engine.session import Session
from migctl.host.claims import store_name
from migctl.host.doorbell import ring
from migctl.host.paths import private

BELL: Final = "recorder.bell"
LOG_FILE: Final = "recorder.log"
OFF: Final = ("off", "no", "false", "0")
"""Values of MIGCTL_RECORDING with which nothing is recorded."""
NICENESS: Final = 10
"""It gives way to everybody else, and still gets its part of a second on a machine whose cores are all at work."""
_DELAY_S: Final = 3.0
"""Jobs that start import and fork first: nothing is to come in between, and what ends at once need not be seen."""
_DETACHED: Final = '(sleep "$0"; exec nice -n "$@") &'
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); sys.argv[0] = 'migctl recorder'; "
    "from migctl.watch.recording import main; main()"
)
_DEADLINE_S: Final = 5.0


def bell_path(session: Session) -> Path:
    """The named pipe that wakes the recorder."""
    return session.paths.state / BELL


def lock_name(session: Session) -> str:
    """The machine-wide lock that a recorder holds: one for each state directory."""
    return f"recorder-{session.caller.uid}-{store_name(session.paths.state)}"


def wake(session: Session) -> None:
    """Let the recorder look again, if there is one."""
    ring(bell_path(session))


def ensure(session: Session, *, delay_s: float = _DELAY_S) -> None:
    """Wake the recorder, or have one started in a moment that outlives this command.

    Nothing of that is waited for, and whatever keeps it from starting keeps no job from running: nothing is raised.

    Args:
        session: of the user whose jobs run.
        delay_s: seconds until it starts.
    """
    if session.environ.get("MIGCTL_RECORDING", "").lower() in OFF or ring(bell_path(session)):
        return
    try:
        with open(session.paths.state / LOG_FILE, "ab", opener=private) as log:
            # The shell is waited for, and its child is nobody's: a supervisor would have to collect it when it ends.
            subprocess.run(
                [
                    *("/bin/sh", "-c", _DETACHED, f"{delay_s:g}", str(NICENESS)),
                    *(sys.executable, "-c", _START, str(Path(__file__).resolve().parents[2])),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**session.environ, **places(session)},
                start_new_session=True,
                check=False,
                timeout=_DEADLINE_S,
            )
    except (OSError, subprocess.TimeoutExpired):
        return
