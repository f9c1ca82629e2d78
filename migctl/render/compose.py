"""A plan as a file for Docker Compose v2: a service for each job, with its device, its cores and its workers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from migctl.core.allocation import Assignment
from migctl.core.keytable import Lost
from migctl.core.plan import Job, Volume
from migctl.core.queueing.rounds import Rounds
from migctl.core.yaml_text import Noted, Value, document
from migctl.render.exported import Exporter, device_variables, handed, heading, published, resolved, seconds, shm, size
from migctl.render.nvidia_smi import by_gpu, create_line, destroy_lines
from migctl.render.withheld import WHY, Withheld, withheld

OOM_SCORE_ADJ = 500
Plain = Callable[[str], str]
"""How a text of the plan is written so that Compose reads it as it is."""


def compose_file(rounds: Rounds, lost: Iterable[Lost], exporter: Exporter) -> str:
    """The file's text.

    Args:
        rounds: who runs with whom, on what.
        lost: keys that Compose cannot express.
        exporter: who containers run as where the job names no user.
    """
    variables = device_variables(rounds.rounds)
    hidden = withheld(a.job for a in rounds.assignments)
    services: dict[str, Value] = {}
    for number, round_ in enumerate(rounds.rounds, 1):
        for a in round_:
            services[a.job.name] = _service(a, rounds, variables.get(a.job.name), number, exporter, hidden.of(a.job))
    whole: dict[str, Value] = {"name": _project(rounds.plan.name), "services": services}
    if named := _volumes(a.job for a in rounds.assignments):
        whole["volumes"] = named
    above = heading(
        f"plan {rounds.plan.name} for Docker Compose v2, planned for {rounds.machine}", exporter.version, lost
    )
    return document(whole, (*above, "", *_secrets(hidden), *_instructions(rounds, variables)))


def _project(name: str) -> str:
    """Compose's names of projects: small letters, digits, `-` and `_`."""
    return re.sub(r"[^a-z0-9_-]", "-", name.lower()).lstrip("-_") or "plan"


def _secrets(hidden: Withheld) -> list[str]:
    """Compose takes them from its own environment, or from .env beside the file."""
    if not hidden.told:
        return []
    return [
        "Secrets are not written here; give them in the environment, or in the file .env beside this one (chmod 600):",
        *(f"    {line}" for line in hidden.told),
        "",
    ]


def _instructions(rounds: Rounds, variables: Mapping[str, str]) -> list[str]:
    """What to do before and after `docker compose up`; a later round is started by the names of its services."""
    lines: list[str] = []
    for number, round_ in enumerate(rounds.rounds, 1):
        made = [a for here in by_gpu(round_).values() for a in here]
        if number > 1:
            lines += ["", f"Round {number}, when those before have ended{_needs(round_)} and their instances are gone:"]
        if made:
            lines += [
                "- as root, with MIG mode on: make the GPU instances; `nvidia-smi -L` then lists their UUIDs",
                *(f"    {line}" for line in create_line(made, rounds.names)),
                "- write the UUIDs into the file .env beside this one:",
                *(f"    {variables[a.job.name]}=MIG-…    ({_told(a)})" for a in made),
            ]
        services = "" if number == 1 else " --no-deps " + " ".join(a.job.name for a in round_)
        lines.append(f"- docker compose up -d{services}")
        if made:
            lines += ["- when they have ended: take the instances away again"]
            lines += [f"    {line}" for line in destroy_lines(made, rounds.names)]
    profiles = "".join(f" --profile round-{number}" for number in range(2, len(rounds.rounds) + 1))
    return [*lines, "", f"At the end: docker compose{profiles} down"]


def _needs(round_: Iterable[Assignment]) -> str:
    needed = dict.fromkeys(need for a in round_ for need in a.job.needs)
    return f" ({', '.join(needed)} with success)" if needed else ""


def _told(a: Assignment) -> str:
    assert a.profile is not None
    return a.profile.name if a.placement is None else f"{a.profile.name} at memory slice {a.placement.start}"


def _service(
    a: Assignment,
    rounds: Rounds,
    variable: str | None,
    round_: int,
    exporter: Exporter,
    hidden: Mapping[str, str],
) -> Value:
    job = a.job
    device = a.instance_uuid or rounds.names[a.gpu_uuid]
    if variable:
        # Compose looks at every service's variables, also at those of rounds whose instances are not there yet.
        device = f"${{{variable}:?{_told(a)}}}" if round_ == 1 else f"${{{variable}:-}}"
    mark = "MIGCTL-DEVICE-OF-THIS-SERVICE"
    told = handed(a, rounds.plan, container=True, device=mark, user=exporter.name)
    own = {name: "".join(resolved((value,), told)) for name, value in job.environment if name not in hidden}
    variables = {**told, **own}
    secrets = {name: f"${{{given}:?{WHY}}}" for name, given in hidden.items()}

    def plain(text: str) -> str:
        """Compose's own variables begin with a dollar: every other dollar is doubled."""
        return text.replace("$", "$$").replace("$${MIGCTL_MIG_UUID}", device).replace(mark, device)

    service: dict[str, Value] = {"image": plain(job.image or "")}
    if round_ > 1:
        service["profiles"] = [f"round-{round_}"]
    for key, words in (("entrypoint", job.entrypoint), ("command", job.command)):
        if words is not None:
            service[key] = [plain(word) for word in resolved(words, told)]
    service |= {
        "environment": {**{name: plain(value) for name, value in variables.items()}, **secrets},
        "cpuset": str(a.cpu.cpus),
        "shm_size": size(shm(a)),
        "init": True,
        "restart": Noted("no", beside="after a reboot its instance is gone"),
        "oom_score_adj": OOM_SCORE_ADJ,
        "stop_signal": "SIGTERM",
        "stop_grace_period": seconds(job.stop_grace_period_s),
    }
    if job.user != "image":
        service["user"] = plain(job.user or exporter.ids)
    service |= _options(job, plain)
    reserved = {"driver": "nvidia", "device_ids": [device], "capabilities": ["gpu"]}
    service["deploy"] = {"resources": {"reservations": {"devices": [reserved]}}}
    return service


def _options(job: Job, plain: Plain) -> dict[str, Value]:
    """The keys that are Compose's own, where the job gives them."""
    optional: dict[str, Value] = {
        "pull_policy": job.pull_policy if job.pull_policy != "missing" else "",
        "working_dir": plain(job.working_dir or ""),
        "volumes": [_volume(volume, plain) for volume in job.volumes],
        "ports": [published(port) for port in job.ports],
        "network_mode": plain(job.network_mode or ""),
        "tmpfs": [plain(path) for path in job.tmpfs],
        "group_add": [plain(group) for group in job.group_add],
        "ulimits": {limit.name: {"soft": limit.soft, "hard": limit.hard} for limit in job.ulimits},
        "labels": {name: plain(value) for name, value in job.labels},
        "extra_hosts": [plain(host) for host in job.extra_hosts],
        "cap_add": list(job.cap_add),
        "security_opt": [plain(option) for option in job.security_opt],
        "ipc": plain(job.ipc or ""),
        "mem_limit": size(job.mem_limit_bytes) if job.mem_limit_bytes else "",
    }
    return {key: value for key, value in optional.items() if value}


def _volume(volume: Volume, plain: Plain) -> Value:
    made: dict[str, Value] = {"type": volume.kind}
    if volume.source is not None:
        made["source"] = plain(volume.source)
    made["target"] = plain(volume.target)
    if volume.read_only:
        made["read_only"] = True
    if volume.kind == "bind":
        # Else Compose makes an empty folder as root where the source is missing.
        made["bind"] = {"create_host_path": False}
    return made


def _volumes(jobs: Iterable[Job]) -> dict[str, Value]:
    """Named volumes keep their names: Compose would put the project's before them."""
    names = dict.fromkeys(v.source for job in jobs for v in job.volumes if v.kind == "volume" and v.source)
    return {name: {"name": name} for name in names}
