"""Another user of the machine against root's and sudo's migctl: forged supervisors, records, logs, links and pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from migctl.host.claims import store_name
from migctl.nvml.simstate import SimState
from tests.support.other_user import NOBODY, SOMEBODY, open_folder
from tests.support.users import User, needs_setpriv, shared_machine

pytestmark = needs_setpriv

ONE_JOB = """\
name: night
runtime: process
oversubscribe: true
jobs: {a: {profile: 1g.5gb, command: [sh, -c, "echo begun; exec sleep 600"]}}
"""


@pytest.fixture
def machine() -> Iterator[Path]:
    with open_folder() as folder:
        yield shared_machine(folder)


@pytest.fixture
def root(machine: Path) -> Iterator[User]:
    made = User(machine, 0, "root")
    made.prefix = ()
    yield made
    made.clean()


@pytest.fixture
def anna(machine: Path) -> Iterator[User]:
    made = User(machine, NOBODY, "anna")
    made.owned(made.plan(ONE_JOB))
    yield made
    made.clean()


@pytest.fixture
def sudo(machine: Path, anna: User) -> User:
    """Anna's commands through sudo, on her own state directory."""
    made = User(machine, 0, "sudo", SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY), SUDO_USER="nobody")
    made.prefix = ()
    made.folder, made.state = anna.folder, anna.state
    made.environ["MIGCTL_STATE_DIR"] = str(anna.state)
    return made


@contextmanager
def process_of(uid: int, *words: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this user, with its children ended at the end."""
    prefix = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all") if uid else ()
    with subprocess.Popen(
        [*prefix, *words], env={"PATH": os.environ["PATH"], **environ}, cwd="/", start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def labels_of(instance: dict[str, Any], gpu: str, boot: str, store: str) -> dict[str, str]:
    """What a supervisor of root's would carry, all of it to be read in `status --json` by everybody."""
    said = {
        "run": "forged", "job": "a", "attempt": "1", "token": "f" * 16, "owner": "0", "digest": "", "spec": "{}", "strategy": "mig",
        "gpu": gpu, "profile": instance["profile"], "profile-id": "9", "gi": str(instance["gi_id"]), "ci": "0",
        "placement": f"{instance['placement']['start']}:{instance['placement']['size']}", "mig-uuid": instance["mig_uuids"][0],
        "boot": boot, "cpus": "0", "workers": "1", "memory": "1", "cores": "1", "grace": "0", "lent": "", "plan": "",
        "store": store,
    }  # fmt: skip
    return {f"io.migctl.{key}": value for key, value in said.items()}


SHIM = """\
import subprocess, sys
child = subprocess.Popen(["sleep", "600"])
print("ready", flush=True)
child.wait()
"""


def test_a_forged_supervisor_gives_its_maker_no_instance_and_takes_none_away(machine: Path, root: User) -> None:
    state = SimState.create(machine / "simulator.json", "a100-40gb")
    state.add_foreign_instance(0, "3g.20gb", 4)
    state.save(machine / "simulator.json")
    seen = root.json("status")
    (instance,) = seen["gpus"][0]["instances"]
    labels = labels_of(instance, seen["gpus"][0]["uuid"], state.boot_id, store_name(root.state))
    shim = machine / "shim.py"
    shim.write_text(SHIM)
    python = User(machine, SOMEBODY, "bert").python
    words = ("-I", "-S", str(shim), "3", "4", "forged/a", instance["mig_uuids"][0])

    with process_of(SOMEBODY, python, *words, MIGCTL_UNIT=json.dumps(labels)):
        time.sleep(0.5)
        assert "forged" not in root.run("status").ended(0).out
        root.run("adopt").ended(4)  # no engine answers, and there is nothing else of root's
        assert [run["name"] for run in root.json("status", "--all")["runs"]] == []
        root.run("down", "--all", "--timeout", "0")

    assert [one["gi_id"] for one in root.json("status")["gpus"][0]["instances"]] == [instance["gi_id"]]


ODD = (
    "[" * 60_000,
    '{"io.migctl.run": "a", "io.migctl.job": "b", "io.migctl.token": "c", "io.migctl.cpus": "9-1"}',
    "{}",
    "\u00b2",
)


@pytest.mark.parametrize("carried", ODD)
def test_what_a_strange_supervisor_carries_upsets_nobody(machine: Path, root: User, carried: str) -> None:
    shim = machine / "shim.py"
    shim.write_text(SHIM)
    python = User(machine, SOMEBODY, "bert").python

    with process_of(SOMEBODY, python, "-I", "-S", str(shim), "3", "4", "x/y", MIGCTL_UNIT=carried):
        time.sleep(0.5)
        root.run("status").ended(0)
        root.run("adopt", "--dry-run").ended(4)


def attempt_folder(user: User) -> Path:
    (folder,) = (path.parent for path in user.state.rglob("launch.json"))
    return folder


def start_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_sudo_ends_no_process_but_the_callers_whatever_the_job_says_it_is(anna: User, sudo: User) -> None:
    sudo.up()
    record = attempt_folder(anna) / "pid.json"
    said = json.loads(record.read_text())
    with process_of(0, "sleep", "600") as victim:
        forged = {**said, "pid": victim.pid, "start_ticks": start_ticks(victim.pid)}
        record.write_text(json.dumps(forged))

        done = sudo.run("down", "--timeout", "0")

        assert victim.poll() is None
        assert done.code in (4, 6), done
        assert f"process {victim.pid} is uid 0's" in done.told
        record.write_text(json.dumps(said))
    sudo.run("down", "--timeout", "0").ended(0)


def test_sudo_ends_no_process_that_the_store_alone_names(anna: User, sudo: User) -> None:
    sudo.up()
    owner = next(path for path in anna.state.rglob("owner.json"))
    with process_of(0, "sleep", "600") as victim:
        kept, whole = owner.read_text(), json.loads(owner.read_text())
        handle = f"pid:{victim.pid}:{start_ticks(victim.pid)}"
        record = whole["record"]
        record |= {
            "container_id": handle,
            "pid": victim.pid,
            "pid_start": start_ticks(victim.pid),
            "revision": record["revision"] + 9,
        }
        owner.write_text(json.dumps(whole))
        for name in ("store.db", "store.db-wal", "store.db-shm"):
            (anna.state / name).unlink(missing_ok=True)

        sudo.run("stop", "a")
        sudo.run("down", "--timeout", "0")

        assert victim.poll() is None
        owner.write_text(kept)


SECRET = "only root may read this"


def private(machine: Path) -> Path:
    path = machine / "private"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


LINKED = ("log", "pid.json", "launch.json", "exit.json", "lock")


@pytest.mark.parametrize("name", LINKED)
def test_a_link_in_a_jobs_folder_leads_sudo_nowhere(machine: Path, anna: User, sudo: User, name: str) -> None:
    secret = private(machine)
    anna.up()
    anna.run("stop", "a").ended(0)
    path = attempt_folder(anna) / name
    path.unlink(missing_ok=True)
    path.symlink_to(secret)

    for words in (
        ("logs", "a"),
        ("status",),
        ("history", "night"),
        ("restart", "a"),
        ("down", "--timeout", "0"),
        ("rm", "night"),
    ):
        done = sudo.run(*words)
        assert SECRET not in done.out + done.err, done

    assert secret.read_text() == SECRET + "\n"
    assert secret.stat().st_uid == 0
    assert secret.stat().st_mode & 0o777 == 0o600


FOLDERS = ("runs", "runs/night", "runs/night/a")


@pytest.mark.parametrize("name", FOLDERS)
def test_a_link_in_a_folders_place_is_not_followed(machine: Path, anna: User, sudo: User, name: str) -> None:
    theirs = machine / "roots"
    theirs.mkdir(mode=0o700)
    (theirs / "kept").write_text("x")
    anna.up()
    anna.run("down", "--timeout", "0").ended(0)
    path = anna.state / name
    subprocess.run(["rm", "-rf", str(path)], check=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(theirs)
    os.lchown(path, NOBODY, NOBODY)

    for words in (("up",), ("status",), ("down", "--timeout", "0"), ("rm", "night"), ("history", "--prune")):
        sudo.run(*words)

    assert [entry.name for entry in theirs.iterdir()] == ["kept"]
    assert theirs.stat().st_uid == 0


def test_links_and_pipes_in_the_shared_folder_neither_lead_nor_hold_root(machine: Path, anna: User, root: User) -> None:
    secret = private(machine)
    run = machine / "run"
    run.mkdir(mode=0o1777)
    run.chmod(0o1777)
    traps = machine / "traps.sh"
    traps.write_text(
        f"cd {run} || exit\nln -s {secret} machine.lock\nln -s {secret} 0-night.json\nln -s {secret} run-0-night.lock\n"
        f"mkfifo 0-other.json\nmkfifo {NOBODY}-fifo.json\nln {secret} hard.lock 2>/dev/null\nmkdir bell-0 2>/dev/null; true\n"
    )
    subprocess.run([*anna.prefix, "sh", str(traps)], check=True)
    root.plan(ONE_JOB)

    began = time.monotonic()
    for words in (("up",), ("status",), ("plan",), ("check", "--runtime", "process"), ("down", "--timeout", "0")):
        done = root.run(*words)
        assert SECRET not in done.out + done.err, done

    assert time.monotonic() - began < 30
    assert secret.read_text() == SECRET + "\n"
    assert secret.stat().st_uid == 0


def test_a_shared_folder_that_a_user_made_as_a_link_is_refused(machine: Path, anna: User, root: User) -> None:
    elsewhere = machine / "roots"
    elsewhere.mkdir(mode=0o700)
    subprocess.run([*anna.prefix, "ln", "-s", str(elsewhere), str(machine / "run")], check=True)
    root.plan(ONE_JOB)

    assert "link" in root.run("up").ended(4).told
    assert list(elsewhere.iterdir()) == []


def test_a_forged_claim_frees_and_removes_nothing_of_anybodys(machine: Path, anna: User, root: User) -> None:
    root.plan(ONE_JOB)
    root.up()
    (claim,) = (machine / "run").glob("0-*.json")
    said = json.loads(claim.read_text())
    forged = {**said, "run": "night", "cpus": "", "gpus": {}}
    writing = (
        f"import json, sys; open({str(machine / 'run' / '0-night~00000000.json')!r}, 'w').write({json.dumps(forged)!r})"
    )
    subprocess.run([*anna.prefix, anna.python, "-c", writing], check=True)

    seen = anna.json("status")
    anna.run("down", "--all", "--timeout", "0")

    assert [one["owner"] for one in seen["gpus"][0]["instances"]] == ["root/night"]
    assert len(root.json("status")["gpus"][0]["instances"]) == 1
    assert root.jobs()["a"]["state"] == "running"


def test_root_does_not_act_on_another_users_state(anna: User, root: User) -> None:
    anna.up()

    for words in (("down", "night"), ("stop", "night/a"), ("rm", "night"), ("resume", "night")):
        assert root.run(*words, "--state-dir", str(anna.state)).code in (2, 4)

    assert anna.jobs()["a"]["state"] == "running"
