"""The systemd unit that goes on with one user's runs after a restart of the machine, as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

AFTER: Final = (
    "docker.service",
    "podman.socket",
    "nvidia-persistenced.service",
    "nvidia-fabricmanager.service",
    "local-fs.target",
)
"""What jobs need. Those that a machine does not have order nothing (systemd.unit(5))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the unit has to know."""

    user: str
    """Whose runs these are."""
    command: tuple[str, ...]
    """Program by its absolute path, and its arguments: supervises in the foreground until nothing is left."""
    environment: Mapping[str, str]
    system: bool
    """Started with the machine by root, instead of with the user's own manager."""


def unit_text(service: Service) -> str:
    """The unit file.

    Jobs without containers are children of the supervisor: `KillMode=process` and `OOMPolicy=continue` (systemd.kill(5),
    systemd.service(5)) let them go on when the supervisor is stopped, or when one of them is out of memory.
    """
    after = [f"After={' '.join(AFTER)}"] if service.system else []
    lines = [
        "[Unit]",
        f"Description=migctl goes on with the runs of {_plain(service.user)} after a restart",
        *after,
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(_word(word) for word in _command(service.command))}",
        *(
            f"Environment={_word(f'{name}={value}', dollar=False)}"
            for name, value in sorted(service.environment.items())
        ),
        "KillMode=process",
        "OOMPolicy=continue",
        "Restart=on-failure",
        "RestartSec=30",
        "",
        "[Install]",
        f"WantedBy={'multi-user' if service.system else 'default'}.target",
    ]
    return "\n".join(lines) + "\n"


def unit_name(user: str, *, system: bool) -> str:
    """The unit's name: the user's manager has one, the machine's one for each user."""
    return f"migctl-{_escaped(user)}.service" if system else "migctl.service"


def _command(words: tuple[str, ...]) -> tuple[str, ...]:
    """The program's own path may hold none of these, whatever is put around them (systemd 252, "special characters")."""
    return ("/usr/bin/env", *words) if set(words[0]) & set("\"'\\$") else words


def _word(text: str, *, dollar: bool = True) -> str:
    """One word as systemd reads it (systemd.syntax(7)); in command lines `$` stands for a variable (systemd.service(5))."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{inner.replace("$", "$$") if dollar else inner}"'


def _plain(text: str) -> str:
    return "".join(sign for sign in text if sign.isprintable()).replace("%", "%%")


def _escaped(text: str) -> str:
    """As `systemd-escape` does (systemd.unit(5))."""
    return "".join(
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in ":_.") else f"\\x{byte:02x}"
        for byte in text.encode()
    )
