"""Where text and answers of others come in: one target each, with how many of 10,000 inputs it gets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from migctl import planfile
from migctl.core.runs.adoption import objection, record_of
from migctl.core.runs.labels import LABEL
from migctl.core.runs.observed import Observed
from migctl.errors import MigctlError
from migctl.host.claims import read_claims
from migctl.nvml.simstate import SimState
from migctl.planfile.importers import Format, imported
from migctl.planfile.policy import parse as parse_policy
from migctl.planfile.policy_schema import policy_schema
from migctl.planfile.source import decode
from migctl.runtimes.container_units import leftover_of
from migctl.store.codec import decode_queue, decode_record, decode_run, decode_submission
from tests.support.fuzz import Shoot, Target
from tests.support.in_process import Said, say, standing_in, tree
from tests.support.odd_engine import odd_engine
from tests.support.odd_nvml import odd_nvml
from tests.support.odd_trees import odd_trees
from tests.support.spoil import BySchema, json_text, spoilt_bytes, text

ROOT = Path(__file__).parents[2]
_PLANS = [
    *(ROOT / "compose/plans").glob("*.yaml"),
    *(ROOT / "tests/data/plans").glob("*.yaml"),
    ROOT / "tests/data/exports/rich.yaml",
]
_IMPORTS = sorted((ROOT / "tests/data/imports").iterdir())
_POLICY = b"contact: a@example.org\nmax_slices: 4\nmounts: [~, '/data:ro']\nimages: [pytorch/*]\nusers:\n  anna: {max_slices: 7}\n"
_ENV = b"A=1\nexport B='two words'\nC=\"x\\n${A}\" # note\nEMPTY=\nJUST_A_NAME\nHF_TOKEN=hf_x\n"
_PLANNED = ("--on", "a100-40gb", "--cores", "16")


def _refusal_or_answer(read: Callable[[], object]) -> None:
    """It is taken, or refused with an error of migctl's."""
    try:
        read()
    except MigctlError as error:
        if not (error.message and error.id):
            raise AssertionError("an error without words") from error


def _corpus(paths: Sequence[Path]) -> list[bytes]:
    return [path.read_bytes() for path in sorted(paths)]


@contextmanager
def _plan_text(folder: Path) -> Iterator[Shoot]:
    """Plans with changed bytes, read as `plan` and `up` do."""
    plans = _corpus(_PLANS)
    path = folder / "plan.yaml"

    def shoot(random: Random) -> None:
        path.write_bytes(spoilt_bytes(random, random.choice(plans), plans))
        _refusal_or_answer(lambda: planfile.load(path, {"A": "1"}, runtime=random.choice((None, "process"))))

    yield shoot


@contextmanager
def _plan_keys(folder: Path) -> Iterator[Shoot]:
    """Plans by their own JSON Schema."""
    made = BySchema(planfile.schema())

    def shoot(random: Random) -> None:
        plan = json.dumps(made.made(random), ensure_ascii=random.random() < 0.5)
        _refusal_or_answer(lambda: planfile.loads(plan, "plan.yaml", folder, {"A": "1"}))

    yield shoot


@contextmanager
def _plan_commands(folder: Path) -> Iterator[Shoot]:
    """The same through the command line; what is refused changes nothing, and nothing is started without an engine."""
    plans, made = _corpus(_PLANS), BySchema(planfile.schema())
    (folder / "x.env").write_bytes(_ENV)
    lines: Sequence[tuple[str, ...]] = (
        ("plan", *_PLANNED),
        ("plan", "--json", *_PLANNED),
        ("up", "--dry-run"),
        ("up", "--runtime", "docker"),
        ("check",),
        *(("export", what, "-q", *_PLANNED) for what in ("compose", "shell", "slurm", "kubernetes", "mig-parted")),
    )

    def shoot(random: Random) -> None:
        by_keys = random.random() < 0.6
        plan = json.dumps(made.made(random)).encode() if by_keys else spoilt_bytes(random, random.choice(plans), plans)
        (folder / "plan.yaml").write_bytes(plan)
        _unchanged(folder, random.choice(lines))

    with standing_in(folder):
        yield shoot


def _unchanged(folder: Path, words: Sequence[str]) -> Said:
    """Run a command that must not change anything there."""
    before = tree(folder)
    said = say(*words)
    after = tree(folder)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    told = [f"{path}: {before.get(path)} → {after.get(path)}" for path in changed]
    assert not changed, f"changed: {told}\n{said}"
    return said


@contextmanager
def _env_files(folder: Path) -> Iterator[Shoot]:
    """Files of variables."""

    def shoot(random: Random) -> None:
        (folder / "x.env").write_bytes(spoilt_bytes(random, _ENV))
        plan = "jobs: {a: {image: i, env_file: x.env}}"
        _refusal_or_answer(lambda: planfile.loads(plan, "plan.yaml", folder, {"A": "1"}))

    yield shoot


@contextmanager
def _policies(folder: Path) -> Iterator[Shoot]:
    """The administrator's rules."""
    made = BySchema(policy_schema(), names=("anna", "students", "x-note"))

    def shoot(random: Random) -> None:
        data = json.dumps(made.made(random)).encode() if random.random() < 0.5 else spoilt_bytes(random, _POLICY)
        _refusal_or_answer(lambda: parse_policy(data, "policy.yaml", "root"))

    yield shoot


@contextmanager
def _imports(folder: Path) -> Iterator[Shoot]:
    """Other tools' files, and what those print: nvidia-smi, task-spooler, sbatch scripts, pods."""
    files = _corpus(_IMPORTS)

    def shoot(random: Random) -> None:
        data = spoilt_bytes(random, random.choice(files), files)
        format_ = random.choice((None, None, *Format))
        _refusal_or_answer(lambda: imported(decode(data, "file", kind="file"), format_, config="lab").text())

    yield shoot


@contextmanager
def _records(folder: Path) -> Iterator[Shoot]:
    """The texts of owner files, runs, queues and submitted plans."""
    state = _a_store(folder)
    readers: Mapping[str, Callable[[bytes], object]] = {
        "owner.json": decode_record,
        "record.json": decode_record,
        "@run.json": decode_run,
        "@queue.json": decode_queue,
        "@plan.json": decode_submission,
    }
    texts = [
        (readers[path.name], json.loads(path.read_bytes()))
        for path in sorted(state.rglob("*.json"))
        if path.name in readers
    ]
    assert {read for read, _ in texts} == set(readers.values()), "each kind is there"

    def shoot(random: Random) -> None:
        read, whole = random.choice(texts)
        try:
            read(json_text(random, whole))
        except ValueError:
            pass  # what the store makes of it is told where the file lies

    yield shoot


def _a_store(folder: Path) -> Path:
    """A state directory with a run that has ended, in two attempts, and one whose job still waits."""
    plan = folder / "plan.yaml"
    plan.write_text(
        "name: night\nruntime: process\noversubscribe: true\njobs:\n"
        "  a: {profile: 1g.5gb, command: 'echo migctl: samples=1', retries: 1}\n"
        "  b: {profile: 1g.5gb, command: 'false', retries: 1}\n  c: {profile: 1g.5gb, command: 'true', needs: b}\n"
    )
    with standing_in(folder):
        # A process of its own: what goes on after it must not be this one's child.
        done = subprocess.run(
            [sys.executable, "-m", "migctl", "up", "--wait"], check=False, capture_output=True, text=True
        )
        assert done.returncode == 8, done
        # What starts jobs has still to put its things away, the index's log last.
        left = [folder / "state" / name for name in ("supervisor.bell", "store.db-wal")]
        deadline = time.monotonic() + 60
        while any(path.exists() for path in left) and time.monotonic() < deadline:
            time.sleep(0.05)
    return folder / "state"


@contextmanager
def _stores(folder: Path) -> Iterator[Shoot]:
    """A whole state directory in which one file is not what it was; commands that look change nothing, whatever it is."""
    whole = _a_store(folder)
    kept = folder / "kept"
    shutil.copytree(whole, kept, symlinks=True)
    files = sorted(path.relative_to(kept) for path in kept.rglob("*") if path.is_file() and path.stat().st_size)
    lines = (
        ("status",),
        ("status", "--json", "--all"),
        ("history",),
        ("history", "night"),
        ("logs", "night/a"),
        ("plan",),
    )
    lines += (
        ("wait", "night", "--timeout", "0"),
        ("check", "--runtime", "process"),
        ("adopt", "--dry-run"),
        ("up", "--dry-run"),
    )

    def shoot(random: Random) -> None:
        name = random.choice(files)
        path = whole / name
        original = (kept / name).read_bytes()
        path.unlink()
        _put(random, path, original)
        try:
            _unchanged(folder, random.choice(lines))
        finally:
            _take(path)
            shutil.copy2(kept / name, path)

    with standing_in(folder):
        yield shoot


def _put(random: Random, path: Path, original: bytes) -> None:
    """Something at a path where a file of ours belongs."""
    pick = random.random()
    if pick < 0.05:
        os.mkfifo(path)
    elif pick < 0.08:
        path.mkdir()
    elif pick < 0.11:
        path.symlink_to(random.choice(("/etc/passwd", "/dev/zero", path.name, "nowhere")))
    elif path.suffix == ".json" and pick < 0.75:
        path.write_bytes(json_text(random, json.loads(original)))
    else:
        path.write_bytes(spoilt_bytes(random, original))
    if path.is_file() and not path.is_symlink():
        path.chmod(0o600)  # SQLite, as root, gives the index's mode to its log


def _take(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _simulators(folder: Path) -> Iterator[Shoot]:
    """The file of the simulated machine."""
    path = folder / "simulator.json"
    state = SimState.create(path, "a100-40gbx2,t4")
    state.add_foreign_instance(0, "3g.20gb", 4)
    state.save(path)
    whole = json.loads(path.read_bytes())
    state.set_fault("nvmlDeviceGetName", nth=99)  # counted in the file: with one of these a command that looks writes
    state.save(path)
    faulty = json.loads(path.read_bytes())
    lines = (
        ("status",),
        ("status", "--json"),
        ("profiles",),
        ("plan",),
        ("mode", "disable", "--gpu", "0", "--dry-run"),
    )
    (folder / "plan.yaml").write_text("runtime: process\njobs: {a: {profile: 1g.5gb, command: 'true'}}\n")

    def shoot(random: Random) -> None:
        if random.random() < 0.85:
            path.write_bytes(json_text(random, faulty))
            _refusal_or_answer(lambda: SimState.load(path))
        else:
            path.write_bytes(json_text(random, whole))
            _unchanged(folder, random.choice(lines))

    with standing_in(folder, MIGCTL_NVML="sim:a100-40gbx2,t4"):
        yield shoot


@contextmanager
def _claims(folder: Path) -> Iterator[Shoot]:
    """What other users say that they hold."""
    run = folder / "run"
    run.mkdir(mode=0o1777)
    uid = os.getuid()
    whole = {
        "uid": uid,
        "user": "anna",
        "run": "night",
        "cpus": "0-3",
        "gpus": {"GPU-x": [[0, 1], [4, 4]]},
        "boot_id": "boot",
        "store": "0" * 16,
        "memory_mib": 0,
        "passing": [["0-1", os.getpid(), 1]],
    }

    def shoot(random: Random) -> None:
        path = run / f"{uid}-night.json"
        path.write_bytes(json_text(random, whole))
        for claim in read_claims(run, "boot"):
            assert claim.uid == uid
            assert claim.run == "night"

    yield shoot


_LABELS = {
    "run": "night", "job": "a", "token": "t", "owner": str(os.getuid()), "attempt": "1", "digest": "d", "spec": '{"image": "i"}',
    "strategy": "mig", "gpu": "GPU-x", "profile": "1g.5gb", "profile-id": "19", "placement": "0:1", "gi": "7", "ci": "0",
    "mig-uuid": "MIG-x", "boot": "boot", "cpus": "0-3", "workers": "4", "memory": "4864", "cores": "4", "grace": "60.0", "lent": "",
    "plan": "/p.yaml", "store": "0" * 16,
}  # fmt: skip
CONTAINER: Mapping[str, Any] = {
    "Id": "c" * 64,
    "Name": "/migctl-night-a",
    "Config": {"Labels": {LABEL + name: value for name, value in _LABELS.items()}, "Env": [], "Cmd": ["true"]},
    "HostConfig": {"CpusetCpus": "0-3", "Runtime": "runc", "DeviceRequests": None},
    "State": {"Status": "exited", "Pid": 0, "ExitCode": 3, "Error": "", "OOMKilled": False,
              "StartedAt": "2026-11-30T10:00:00.123456789Z", "FinishedAt": "0001-01-01T00:00:00Z"},
}  # fmt: skip


@contextmanager
def _labels(folder: Path) -> Iterator[Shoot]:
    """The labels of containers, which everybody who may use the engine can write."""
    nothing = Observed(boot_id="boot", gpus=(), units=())

    def shoot(random: Random) -> None:
        data = json.loads(json.dumps(CONTAINER))
        labels = data["Config"]["Labels"]
        for _ in range(random.randint(1, 3)):
            name = random.choice([*labels, LABEL + text(random)])
            if random.random() < 0.2:
                labels.pop(name, None)
            else:
                labels[name] = (
                    json_text(random, _LABELS).decode("utf-8", "replace") if random.random() < 0.2 else text(random)
                )
        if not all(labels.get(LABEL + name) for name in ("run", "job", "token")):
            return
        leftover = leftover_of(data, local=False)
        assert isinstance(leftover.owner_uid, int)
        try:
            record = record_of(leftover)
        except ValueError:
            return
        objection(record, nothing)

    yield shoot


def _target(name: str, share: int, opened: Callable[[Path], Any]) -> tuple[str, Target]:
    return name, Target(name, share, opened)


TARGETS: Mapping[str, Target] = dict((
    _target("plan-text", 1900, _plan_text),
    _target("plan-keys", 2200, _plan_keys),
    _target("plan-commands", 130, _plan_commands),
    _target("env-files", 400, _env_files),
    _target("policies", 700, _policies),
    _target("imports", 800, _imports),
    _target("records", 1500, _records),
    _target("stores", 200, _stores),
    _target("simulators", 700, _simulators),
    _target("claims", 500, _claims),
    _target("labels", 800, _labels),
    _target("engine-answers", 60, lambda folder: odd_engine(folder, CONTAINER)),
    _target("nvml-answers", 50, odd_nvml),
    _target("machine-trees", 60, odd_trees),
))  # fmt: skip
"""By name; the shares add up to 10,000."""
