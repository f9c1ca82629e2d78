"""Tells somebody outside: a command that gets JSON on its standard input, or a webhook that gets it by POST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migctl import programs
from migctl.errors import HostError

_DEADLINE_S = 30.0


def tell(command: Sequence[str], url: str, text: str, *, environ: Mapping[str, str], folder: str) -> None:
    """Deliver the text, once.

    Args:
        command: argument list, run without a shell in `folder`; or nothing.
        url: of a webhook, where there is no command.
        text: JSON.
        environ: the command's environment.
        folder: where relative paths of the command begin.

    Raises:
        HostError: it was not taken, or not within 30 s.
    """
    if command:
        _run(command, text, environ, folder)
    else:
        _post(url, text)


def _run(command: Sequence[str], text: str, environ: Mapping[str, str], folder: str) -> None:
    answer = programs.tell(command, environ, _DEADLINE_S, text.encode(), folder=folder or "/")
    if answer.code == -1:
        raise _not_told(command[0], f"it had not ended after {_DEADLINE_S:.0f} s")
    if not answer.ok:
        last = answer.errors.strip().splitlines()[-1:]
        raise _not_told(command[0], f"it ended with exit code {answer.code}" + "".join(f": {line}" for line in last))


def _post(url: str, text: str) -> None:
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    if not url.startswith(("http://", "https://")):
        raise _not_told(url, "a webhook begins with https:// or http://")
    try:
        request = Request(url, data=text.encode(), headers={"Content-Type": "application/json"}, method="POST")
        with urlopen(request, timeout=_DEADLINE_S):
            pass
    except HTTPError as error:
        error.close()  # it is also the answer, and holds the connection
        raise _not_told(_shown(url), f"{error.code} {error.reason}") from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        raise _not_told(_shown(url), str(error)) from error


def _shown(url: str) -> str:
    """The webhook as messages and logs name it: path, query and password are what lets anybody write to it."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2].partition('?')[0]}/…"


def _not_told(whom: str, why: str) -> HostError:
    return HostError(
        "not-told", f"notify: {whom} was not told: {why}", where="notify", hint="correct notify in the plan"
    )
