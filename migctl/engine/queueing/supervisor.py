"""The process that supervises one user's runs: whether there is one, and how it is started and woken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from select import select

from migctl.engine.lockwaits import TURN_S
from migctl.engine.session import Session
from migctl.errors import HostError
from migctl.host.claims import store_name
from migctl.host.doorbell import is_heard, ring
from migctl.host.paths import private

BELL = "supervisor.bell"
LOG_FILE = "supervisor.log"
READY = b"ready\n"
_DEADLINE_S = 20.0
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); sys.argv[0] = 'migctl supervisor'; "
    "from migctl.engine.queueing.supervision import main; main()"
)


def bell_path(session: Session) -> Path:
    """The named pipe that wakes the supervisor."""
    return session.paths.state / BELL


def lock_name(session: Session) -> str:
    """The machine-wide lock that a supervisor holds: one for each state directory."""
    return f"supervisor-{session.caller.uid}-{store_name(session.paths.state)}"


def is_supervised(session: Session) -> bool:
    """Whether a supervisor of this state directory is at work."""
    return is_heard(bell_path(session))


def wake(session: Session) -> None:
    """Let the supervisor look again, if there is one."""
    ring(bell_path(session))


def turn_wait_s(session: Session) -> float:
    """How long a command waits for a run that the supervisor may be at."""
    return TURN_S if is_supervised(session) else 0.0


def ensure(session: Session) -> None:
    """Wake the supervisor, or start one that outlives this command.

    Raises:
        HostError: it does not start; what runs goes on, and nothing more starts.
    """
    if ring(bell_path(session)):
        return
    reading, writing = os.pipe()
    try:
        with open(session.paths.state / LOG_FILE, "ab", opener=private) as log:
            subprocess.Popen(
                [sys.executable, "-c", _START, str(Path(__file__).resolve().parents[2]), str(writing)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**session.environ, **places(session)},
                pass_fds=(writing,),
                start_new_session=True,
            )
    except OSError as error:
        os.close(reading)
        raise _not_started(session, str(error)) from error
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read() if select([pipe], [], [], _DEADLINE_S)[0] else b""
        if said != READY and not ring(bell_path(session)):
            raise _not_started(session, f"it did not answer within {_DEADLINE_S:g} s, or ended at once")


def places(session: Session) -> dict[str, str]:
    """Where everything lies, whatever it was derived from."""
    paths = session.paths
    return {
        "MIGCTL_STATE_DIR": str(paths.state),
        "MIGCTL_RUN_DIR": str(paths.run),
        "MIGCTL_SIM_STATE": str(paths.sim_state),
    }


def _not_started(session: Session, why: str) -> HostError:
    return HostError(
        "no-supervisor",
        f"the supervisor that starts waiting jobs could not be started: {why}; what runs goes on",
        where=str(session.paths.state / LOG_FILE),
        hint="migctl resume starts it again",
    )
