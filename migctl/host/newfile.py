"""Makes a file that is not there yet; whatever stands at its name meanwhile is left as it is."""

from __future__ import annotations

import os
from pathlib import Path

from migctl.errors import HostError
from migctl.host.caller import Caller


def make_file(path: Path, text: str, owner: Caller) -> None:
    """Write it whole, for the user who asked, also under sudo; a link at its name counts as there.

    Raises:
        HostError: it exists by now, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise HostError(
            "exists", f"{path} is there already", where=str(path), hint="-o NAME writes another file"
        ) from None
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            if owner.sudo:
                os.fchown(descriptor, owner.uid, owner.gid)
            file.write(text)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> HostError:
    return HostError(
        "unwritable",
        f"{path} cannot be written: {error.strerror}",
        where=str(path),
        hint="-o FOLDER/plan.yaml writes elsewhere",
    )
