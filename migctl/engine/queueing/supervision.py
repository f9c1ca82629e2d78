"""Entry of the supervisor's process: its log, its signals, its answer to who started it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from logging.handlers import RotatingFileHandler

from migctl.engine.queueing.supervise import supervise
from migctl.engine.queueing.supervisor import LOG_FILE, READY, bell_path
from migctl.engine.session import Session
from migctl.errors import Busy, MigctlError
from migctl.host.doorbell import ring
from migctl.host.paths import make_private

_LOG_BYTES = 1 << 20


def main() -> None:
    """Supervise the runs of the environment's user; the first argument is a descriptor that is told when it has begun."""
    answering = int(sys.argv[1]) if len(sys.argv) > 1 else -1
    oversee(Session(environ=dict(os.environ), nvml=os.environ.get("MIGCTL_NVML", "")), answering)


def oversee(session: Session, answering: int = -1) -> None:
    """Supervise the runs of the session's user in this process until nothing is left, or a signal comes.

    Args:
        session: of that user.
        answering: a descriptor that is told when it has begun.

    Raises:
        SystemExit: it could not go on; the log says why.
    """
    os.umask(0o077)
    make_private(session.paths.state, session.caller)
    handler = RotatingFileHandler(session.paths.state / LOG_FILE, maxBytes=_LOG_BYTES, backupCount=1)
    logging.basicConfig(level=logging.INFO, handlers=[handler], format="%(asctime)s %(message)s")
    stop = threading.Event()

    def leave(_number: int, _frame: object) -> None:
        stop.set()
        ring(bell_path(session))

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ready = threading.Event()
    if answering >= 0:
        threading.Thread(target=_answer, args=(ready, answering), daemon=True).start()
    log = logging.getLogger("migctl.supervisor")
    log.info("supervising, pid %d", os.getpid())
    try:
        supervise(session, ready=ready, stop=stop)
    except Busy:
        log.info("another supervisor is at work")
    except MigctlError as error:
        log.error("%s", error.message)
        raise SystemExit(error.exit_code) from None
    except Exception:
        log.exception("this is a bug in migctl")
        raise SystemExit(1) from None
    log.info("done")


def _answer(ready: threading.Event, fd: int) -> None:
    ready.wait()
    os.write(fd, READY)
    os.close(fd)
