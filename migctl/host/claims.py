"""What every run of every user holds of this machine, told to all others through one small file a run."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.errors import Busy, HostError, PlanError
from migctl.host.caller import Caller
from migctl.host.paths import make_shared
from migctl.host.procfs import process_start_ticks

_MOST_BYTES = 1 << 20
_RUN = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_FILE = re.compile(r"(?P<uid>0|[1-9][0-9]{0,9})-(?P<run>[A-Za-z0-9_.-]{1,128})(?:~[0-9a-f]{8})?\.json")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True, slots=True)
class HeldCpus:
    """The CPUs of one job, for as long as its main process lives."""

    cpus: CpuSet
    pid: int
    start_ticks: int
    """Start time of `pid` (/proc/PID/stat field 22), as this machine's /proc told it: then others can tell its end there too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """CPUs and placements that one run holds."""

    uid: int
    user: str
    run: str
    cpus: CpuSet
    gpus: Mapping[str, tuple[Placement, ...]]
    """By GPU UUID; the whole GPU under `shared` has no placement."""
    boot_id: str
    store: str = ""
    """Which of the user's state directories the run is in: two of them may each have a run of this name."""
    memory_mib: int = 0
    """Sum of the memory limits of the run's containers."""
    passing: tuple[HeldCpus, ...] = ()
    """CPUs of jobs whose end everybody can see; they are not among `cpus` when written, and those of living ones are when read."""


def store_name(state: Path) -> str:
    """Short name of a state directory, the same however its path is spelt; nobody learns the path from it."""
    return hashlib.sha256(os.path.realpath(state).encode(errors="surrogateescape")).hexdigest()[:16]


def read_claims(run_dir: Path, boot_id: str) -> tuple[Claim, ...]:
    """All claims of this boot, by file name; reads only.

    A claim is believed only in a file that belongs to the user it speaks of: anybody may write into the folder.
    """
    found: dict[tuple[int, str, str], Claim] = {}
    for name in _names(run_dir):
        claim = _read(run_dir / name)
        if claim is not None and claim.boot_id == boot_id:
            found[(claim.uid, claim.run, claim.store)] = claim
    return tuple(found.values())


def write_claim(run_dir: Path, claim: Claim) -> None:
    """Tell the others; replaces this run's earlier claim in one step.

    Raises:
        Busy: `disk-full`.
        HostError: the file cannot be written.
        PlanError: the run's name cannot be part of a file's name.
    """
    if not _RUN.fullmatch(claim.run):
        raise PlanError(
            "bad-name",
            f"{claim.run[:80]!r} cannot be the name of a run",
            hint="rename it: letters, digits, _ . -",
        )
    make_shared(run_dir)
    earlier = _files(run_dir, claim.uid, claim.run, claim.store)
    path = earlier[0] if earlier else _free(run_dir, claim.uid, claim.run)
    fresh = run_dir / f".{claim.uid}.{os.urandom(8).hex()}"
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_text(claim))
            os.fchmod(descriptor, 0o644)
            if os.geteuid() == 0 and claim.uid != 0:
                os.fchown(descriptor, claim.uid, -1)
        fresh.replace(path)
        for other in earlier[1:]:
            other.unlink(missing_ok=True)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def drop_claim(run_dir: Path, caller: Caller, run: str, store: str = "") -> None:
    """Hold nothing any more; nothing held already is fine.

    Raises:
        HostError: the caller's own claim cannot be removed, so others would go on respecting it.
    """
    for path in _files(run_dir, caller.uid, run, store):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(path, error) from error


def _names(run_dir: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(run_dir) if _FILE.fullmatch(name))  # noqa: PTH208 -- names are checked
    except OSError:
        return []


def _files(run_dir: Path, uid: int, run: str, store: str) -> list[Path]:
    """The user's own files for this run; others may have put some of that name there, and another store of the same user too."""
    found = []
    for name in _names(run_dir):
        path = run_dir / name
        fields = _FILE.fullmatch(name)
        if fields is None or int(fields["uid"]) != uid or fields["run"] != run or _owner(path) != uid:
            continue
        claim = _read(path)
        # What the user damaged by hand says nothing about a store: whoever comes first puts it right.
        if claim is None or claim.store == store:
            found.append(path)
    return found


def _free(run_dir: Path, uid: int, run: str) -> Path:
    """The plain name, or a random one where a stranger sits on it: a sticky folder lets nobody replace his file."""
    path = run_dir / f"{uid}-{run}.json"
    if _owner(path) is None:
        return path
    return run_dir / f"{uid}-{run}~{os.urandom(4).hex()}.json"


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except OSError:
        return None


def _text(claim: Claim) -> bytes:
    value = {
        "uid": claim.uid,
        "user": claim.user,
        "run": claim.run,
        "cpus": str(claim.cpus),
        "gpus": {uuid: [[p.start, p.size] for p in places] for uuid, places in claim.gpus.items()},
        "boot_id": claim.boot_id,
        "store": claim.store,
        "memory_mib": claim.memory_mib,
        "passing": [[str(one.cpus), one.pid, one.start_ticks] for one in claim.passing],
    }
    return json.dumps(value).encode()


def _read(path: Path) -> Claim | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES or found.st_nlink != 1:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            claim = _claim(json.loads(file.read(_MOST_BYTES)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
        return None
    finally:
        os.close(descriptor)
    fields = _FILE.fullmatch(path.name)
    if fields is None or fields["uid"] != str(claim.uid) or fields["run"] != claim.run or found.st_uid != claim.uid:
        return None
    return claim


def _claim(value: Mapping[str, object]) -> Claim:
    gpus = value["gpus"]
    if type(gpus) is not dict:
        raise TypeError("gpus")
    uid = _whole(value["uid"])
    passing = tuple(
        HeldCpus(CpuSet.parse(_str(cpus)), _whole(pid), _ticks(ticks))
        for cpus, pid, ticks in _list(value.get("passing", []))
    )
    return Claim(
        uid=uid,
        user=_user(uid),
        run=_str(value["run"]),
        cpus=CpuSet(CpuSet.parse(_str(value["cpus"])).union(*(one.cpus for one in passing if _lives(one)))),
        gpus={
            _str(uuid): tuple(Placement(_whole(s), MemorySlices(_whole(n))) for s, n in places)
            for uuid, places in gpus.items()
        },
        boot_id=_str(value["boot_id"]),
        store=_str(value.get("store", "")),
        memory_mib=_whole(value.get("memory_mib", 0)),
        passing=passing,
    )


def _lives(one: HeldCpus) -> bool:
    """Whether the job's process is still there; one that cannot be looked at (hidepid) counts as living."""
    try:
        os.kill(one.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's
    return process_start_ticks(one.pid) in (None, one.start_ticks)


def _list(value: object) -> list[list[object]]:
    if type(value) is not list:
        raise TypeError("not a list")
    return value


def _ticks(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise TypeError("not a start time")
    return value


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**32:
        raise TypeError("not a whole number")
    return value


def _str(value: object) -> str:
    if type(value) is not str or len(value) > 4096 or not value.isprintable():
        raise TypeError("not a text")
    return value


def _user(uid: int) -> str:
    """The name is looked up, not read: a claim could call its writer anything."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _unwritable(path: Path, error: OSError) -> Busy | HostError:
    if error.errno in _FULL:
        return Busy(
            "disk-full",
            f"{path} cannot be written: {error.strerror}; 4 KiB are needed there",
            where=str(path),
            hint=f"make room, then run the same command again: df -h {path.parent}",
        )
    return HostError(
        "claim-unwritable",
        f"{path} cannot be written: {error.strerror}",
        where=str(path),
        hint=f"ls -ld {path.parent} {path}; MIGCTL_RUN_DIR names another folder, the same for all users",
    )
