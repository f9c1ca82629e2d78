"""`metrics`: serve until a signal, or print once."""

from __future__ import annotations

import sys

from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.errors import Notice, PlanError


def serve_metrics(common: Common, listen: str | None, port: int | None, *, once: bool) -> None:
    """Watch and serve what is seen.

    Raises:
        PlanError: the address is none.
        Busy: somebody listens there.
        Interrupted: a signal ended it.
    """
    from migctl.watch.exporter import Exporter
    from migctl.watch.scrapes import Address, Scrapes, address

    if listen is not None and port is not None:
        raise PlanError("usage", "--listen and --port say the same", hint="one of both")
    where = address(listen) if listen is not None else Address() if port is None else Address(port=port)
    if once:
        with Exporter(common.session()) as exporter:
            families = exporter.once()
        if common.json:
            from migctl.render.exposition import metrics_json

            write_json(metrics_json(families))
        else:
            from migctl.render.exposition import exposition

            write(exposition(families))
        return
    from migctl.cli.signals import detaching

    with detaching(None, "the exporter has ended; the jobs go on") as cancel, Exporter(common.session()) as exporter:
        scrapes = Scrapes(where, exporter.families)
        try:
            if not where.loopback:
                _warn(common, str(scrapes.address))
            exporter.start()
            if common.json:
                write_json({"version": 1, "url": f"http://{scrapes.address}/metrics"})
            elif not common.quiet:
                write(f"http://{scrapes.address}/metrics\n")
            sys.stdout.flush()
            cancel.wait()
        finally:
            scrapes.close()


def _warn(common: Common, where: str) -> None:
    from migctl.cli.terminal import style
    from migctl.render.errors_text import notice_lines

    notice = Notice(
        "open-to-all",
        f"{where} is no loopback address: whoever reaches it reads the names of runs and jobs, and no password is asked",
        hint="a firewall, or --listen 127.0.0.1:9835 behind a proxy",
    )
    sys.stderr.write(
        "".join(f"{line}\n" for line in notice_lines([notice], style(sys.stderr, no_color=common.no_color), most=1))
    )
