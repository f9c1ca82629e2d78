"""The program `migctl`."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    # Loading modules makes thousands of objects and no garbage: looking for some after every 700 takes a tenth of the start.
    gc.set_threshold(50_000)
    from migctl.cli.streams import Streams

    streams = Streams.prepare(sys.argv[1:])
    code = streams.finish(_run())
    if code:
        sys.exit(code)


def _run() -> int:
    if sys.argv[1:] in (["--version"], ["-V"]):
        # Scripts and shells ask for it often: it needs none of the command line's machinery.
        from migctl import __version__

        sys.stdout.write(f"migctl {__version__}\n")
        return 0
    try:
        from migctl.cli.app import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        # Ctrl-C while modules are still being loaded, before any command could have done anything.
        return 130


if __name__ == "__main__":
    main()
