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
