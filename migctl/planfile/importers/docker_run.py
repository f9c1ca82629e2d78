"""`docker run` as keys of a job."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from migctl.core.yaml_text import Value
from migctl.planfile.importers.gpu_words import gpu_variable, set_devices
from migctl.planfile.importers.sketch import JobSketch, shown

Resolve = Callable[[str], str]
"""What a word's variables are in a plan."""

_LISTS = {
    "--volume": "volumes", "-v": "volumes", "--publish": "ports", "-p": "ports", "--env-file": "env_file",
    "--group-add": "group_add", "--add-host": "extra_hosts", "--cap-add": "cap_add", "--security-opt": "security_opt",
    "--tmpfs": "tmpfs",
}  # fmt: skip
_SINGLE = {
    "--shm-size": "shm_size", "--ipc": "ipc", "--workdir": "working_dir", "-w": "working_dir", "--network": "network_mode",
    "--net": "network_mode", "--user": "user", "-u": "user", "--cpuset-cpus": "cpuset", "--memory": "mem_limit", "-m": "mem_limit",
    "--pull": "pull_policy",
}  # fmt: skip
_SWITCHES = frozenset({
    "-d", "--detach", "--rm", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "-dit", "-itd", "--init", "--privileged",
    "--read-only", "-P", "--publish-all", "--no-healthcheck", "--sig-proxy", "--oom-kill-disable",
})  # fmt: skip
_HARMLESS = frozenset(
    {"-d", "--detach", "--rm", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "-dit", "-itd", "--init"}
)
_WHY: Mapping[str, str] = {
    "--privileged": "it would show the container every GPU",
    "--restart": "after a reboot the instance is gone",
    "--device": "migctl gives the job its device",
    "--runtime": "migctl chooses how a container gets its device",
    "--cpus": "a plan pins whole cores: cpus: N",
    "--cpu-shares": "a plan pins whole cores: cpus: N",
}


def words_of_run(words: Sequence[str]) -> Sequence[str] | None:
    """What stands behind `docker run` or `docker container run`; `None`: it is another command."""
    if len(words) > 1 and words[0].rpartition("/")[2] in ("docker", "podman", "nvidia-docker"):
        rest = words[1:]
        if rest[:1] == ["container"] or rest[:1] == ("container",):
            rest = rest[1:]
        if rest and rest[0] == "run":
            return rest[1:]
    return None


def name_of_run(words: Sequence[str]) -> str:
    """Its --name without variables, else nothing."""
    for here, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option == "--name":
            spelt = value if equals else (words[here + 1] if here + 1 < len(words) else "")
            return re.sub(r"\$\{[^}]*\}|\$\w+|\$\([^)]*\)", "", spelt).strip("-_.")
    return ""


def take(job: JobSketch, words: Sequence[str], resolve: Resolve) -> None:
    """Fill the job from the words behind `run`.

    Raises:
        PlanError: it has several MIG devices.
    """
    environment: dict[str, Value] = {}
    labels: dict[str, Value] = {}
    harmless: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        if word in _SWITCHES:
            if word in _HARMLESS:
                harmless.append(word)
            else:
                job.leave(word, _WHY.get(word, "no key of a plan"))
            continue
        option, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        if not equals:
            value = rest.pop(0) if rest else ""
        _option(job, option, value, environment, labels, resolve)
    if harmless:
        job.note(f"{' '.join(harmless)}: jobs of a plan run in the background with an init process, until migctl down")
    if environment:
        job.keys["environment"] = environment
    if labels:
        job.keys["labels"] = labels
    if rest:
        job.keys["image"] = resolve(rest[0])
    if rest[1:]:
        job.keys["command"] = [resolve(word) for word in rest[1:]]
    job.keys.setdefault("user", "image")


def _option(
    job: JobSketch, option: str, value: str, environment: dict[str, Value], labels: dict[str, Value], resolve: Resolve
) -> None:
    if option == "--gpus":
        _gpus(job, value)
    elif option in ("-e", "--env"):
        name, equals, spelt = value.partition("=")
        if not gpu_variable(job, name, spelt):
            environment[name] = resolve(spelt) if equals else None
    elif option in ("-l", "--label"):
        name, _, spelt = value.partition("=")
        labels[name] = resolve(spelt)
    elif option in _LISTS:
        before = job.keys.setdefault(_LISTS[option], [])
        assert isinstance(before, list)
        before.append(_mount_source(resolve(value)) if _LISTS[option] == "volumes" else resolve(value))
    elif option in _SINGLE:
        job.keys[_SINGLE[option]] = resolve(value)
    elif option == "--mount":
        _mount(job, value, resolve)
    elif option == "--ulimit":
        name, _, limits = value.partition("=")
        soft, _, hard = limits.partition(":")
        before = job.keys.setdefault("ulimits", {})
        assert isinstance(before, dict)
        before[name] = {"soft": int(soft), "hard": int(hard or soft)}
    elif option == "--stop-timeout":
        job.keys["stop_grace_period"] = f"{value}s"
    elif option == "--entrypoint":
        job.keys["entrypoint"] = [resolve(value)]
    elif option == "--name":
        if "$" in value:
            job.note(f"--name {value}: migctl names containers after the plan and the job")
    else:
        job.leave(f"{option} {shown(value)}", _WHY.get(option, "no key of a plan"))


def _gpus(job: JobSketch, value: str) -> None:
    """`all`, a number, or `device=…` in quotes of its own."""
    spelt = value.strip().strip('"').strip("'").strip('"')
    if "$" in spelt:
        job.note(f"--gpus {shown(value)}: the script looked for a device; migctl makes the job's instance")
        return
    if spelt in ("all", "1"):
        return
    head, equals, ids = spelt.partition("device=")
    if equals and not head:
        set_devices(job, [ids.split(",driver=")[0]], "--gpus")
    else:
        job.leave(f"--gpus {shown(value)}", "each job gets one GPU instance")


def _mount(job: JobSketch, value: str, resolve: Resolve) -> None:
    fields = dict(part.partition("=")[::2] for part in value.split(","))
    target = fields.get("target") or fields.get("destination") or fields.get("dst")
    made: dict[str, Value] = {"type": fields.get("type", "volume"), "target": target}
    if source := fields.get("source") or fields.get("src"):
        made["source"] = _folder(resolve(source))
    if "readonly" in fields or "ro" in fields:
        made["read_only"] = True
    before = job.keys.setdefault("volumes", [])
    assert isinstance(before, list)
    before.append(made)


def _mount_source(volume: str) -> str:
    source, colon, rest = volume.partition(":")
    return f"{_folder(source)}{colon}{rest}"


def _folder(path: str) -> str:
    """The folder that the script runs in is the plan's."""
    return re.sub(r"^(?:\$\{PWD\}|\$\(pwd\)|`pwd`)(?=/|$)", ".", path)
