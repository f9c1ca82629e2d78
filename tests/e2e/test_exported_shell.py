"""The exported script, run as it is: against a stand-in of nvidia-smi over the simulator, with processes and with containers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from migctl.core.gpu.mig import Placement
from migctl.nvml.open import open_driver
from tests.support.engines import BUSYBOX, private_engine, reachable_engine
from tests.support.program import BOARD, ROOT, Program

SMI = ROOT / "tests/support/stand_in_smi.py"
HOSTILE = (
    "it's",
    'say "hi"',
    "$HOME `id` $(id)",
    "a;b|c&&d",
    "tab\there",
    "line\nbreak",
    "*",
    "\\",
    "-e",
    "",
    "!x #y",
    "é中",
)


class Scripts:
    """A folder in which exported scripts run."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.folder = program.folder
        self.bin = program.folder / "bin"
        self.bin.mkdir()
        self.executable("nvidia-smi", f'#!/bin/sh\nexec {sys.executable} {SMI} {program.simulator} {BOARD[4:]} "$@"\n')
        self.environ: Mapping[str, str] = {**program.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def executable(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text, "utf-8")
        path.chmod(0o755)

    def export(self, plan: str) -> str:
        """The script of a plan for this machine."""
        self.program.plan(plan)
        self.program.run("export", "shell", "-q", "-o", "run.sh").ended(0)
        return (self.folder / "run.sh").read_text("utf-8")

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "run.sh"],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Where the tests run in the background, SIGINT is ignored, and a shell cannot trap what it was started to ignore.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self) -> subprocess.CompletedProcess[str]:
        with self.start() as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def scripts(program: Program) -> Scripts:
    return Scripts(program)


def somebody_elses(program: Program) -> str:
    """An instance that another hand made at the far end; its UUID."""
    with open_driver(BOARD, sim_state=program.simulator) as driver:
        gpu = driver.gpus()[0]
        profile = gpu.profile_named("1g.5gb")
        assert profile is not None
        gi_id = driver.create_gpu_instance(gpu.uuid, profile, Placement(6, profile.memory_slices))
        return driver.create_compute_instance(gpu.uuid, gi_id).mig_uuid


PROCESSES = """
name: night
runtime: process
oversubscribe: true
jobs:
  first: {profile: 2g.10gb, command: [sh, -c, 'echo "$$CUDA_VISIBLE_DEVICES $$MIGCTL_NUM_WORKERS $$(taskset -cp $$$$)" >first.txt']}
  breaks: {profile: 1g.5gb, command: [sh, -c, exit 3]}
  second: {profile: 1g.5gb, needs: [first], command: [sh, -c, 'echo "$$CUDA_VISIBLE_DEVICES" >second.txt']}
  never: {profile: 1g.5gb, needs: [breaks], command: [sh, -c, 'touch never.txt']}
"""


def test_processes_run_on_their_instances_in_order_and_nothing_is_left(scripts: Scripts) -> None:
    theirs = somebody_elses(scripts.program)
    scripts.export(PROCESSES)

    done = scripts.run()

    assert "first: exit code 0" in done.stdout, done
    assert "breaks: exit code 3" in done.stdout, done
    assert "never: not started" in done.stdout
    assert done.returncode == 1
    uuid, workers, affinity = (scripts.folder / "first.txt").read_text().split(maxsplit=2)
    assert uuid.startswith("MIG-")
    assert uuid != theirs
    assert int(workers) >= 1
    assert "affinity list" in affinity
    assert (scripts.folder / "second.txt").read_text().startswith("MIG-")
    assert not (scripts.folder / "never.txt").exists()
    assert len(scripts.program.instances()) == 1, "the other hand's instance stays, and ours are gone"


def test_ctrl_c_ends_the_processes_and_takes_the_instances_away(scripts: Scripts) -> None:
    scripts.export(
        'runtime: process\njobs: {a: {profile: 1g.5gb, command: [sh, -c, \'trap "echo saved >saved; exit 0" TERM; '
        "touch began; sleep 60 & wait']}}"
    )

    with scripts.start() as process:
        deadline = time.monotonic() + 30
        while not (scripts.folder / "began").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

    assert process.returncode == 130, out + err
    assert (scripts.folder / "saved").read_text() == "saved\n"
    assert scripts.program.instances() == [], out + err


RECORDER = """#!{python}
import json, sys
with open("calls.jsonl", "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "wait":
    print(0)
elif sys.argv[1] == "info":
    print(json.dumps({{}}))
"""


def test_every_word_of_docker_run_arrives_as_the_plan_has_it(scripts: Scripts) -> None:
    import json

    from tests.support import exports

    scripts.executable("docker", RECORDER.format(python=sys.executable))
    command = json.dumps([text.replace("$", "$$") for text in HOSTILE], ensure_ascii=False)
    text = exports.shell(
        exports.plan(
            f"name: night\njobs: {{a: {{image: 'i:1', profile: 1g.5gb, command: {command}, environment: {{NOTE: \"it's $$HOME\"}}, "
            "volumes: [{type: bind, source: '/a,b \"c', target: /d}], entrypoint: [/start, 'x y']}}"
        )
    )
    (scripts.folder / "run.sh").write_text(text, "utf-8")

    done = scripts.run()

    assert done.returncode == 0, done
    run, waited = [json.loads(line) for line in (scripts.folder / "calls.jsonl").read_text("utf-8").splitlines()]
    assert run[-len(HOSTILE) :] == list(HOSTILE)
    assert run[-len(HOSTILE) - 2 : -len(HOSTILE)] == ["i:1", "x y"]
    assert run[run.index("--gpus") + 1].startswith('"device=MIG-')
    assert "NOTE=it's $HOME" in run
    assert run[run.index("--mount") + 1] == 'type=bind,"source=/a,b ""c",target=/d'
    assert run[run.index("--entrypoint") + 1] == "/start"
    assert waited == ["wait", "night-a"]
    assert scripts.program.instances() == []


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    """An engine that finds NVIDIA's hook, so that it takes `--gpus`."""
    folder = tmp_path_factory.mktemp("hook")
    hook = folder / "nvidia-container-runtime-hook"
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)
    with private_engine(environ={"PATH": f"{folder}:{os.environ['PATH']}"}) as url, reachable_engine(url) as client:
        yield url, client


@pytest.mark.docker
@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker command")
def test_containers_of_a_real_engine_get_device_cores_and_words(scripts: Scripts, engine: tuple[str, Any]) -> None:
    url, client = engine
    scripts.program.environ = {**scripts.program.environ, "DOCKER_HOST": url}
    scripts.environ = {**scripts.environ, "DOCKER_HOST": url}
    scripts.export(
        f"name: night\noversubscribe: true\ndefaults: {{image: '{BUSYBOX}', network_mode: none}}\n"
        "jobs: {a: {profile: 1g.5gb, environment: {NOTE: 'a  b'}, command: [sh, -c, "
        "'grep Cpus_allowed_list /proc/self/status; echo \"$$0|$$NOTE|$$MIGCTL_CPUSET\"', 'it''s $$(id)']}}"
    )

    done = scripts.run()

    assert done.returncode == 0, done
    assert "night-a: exit code 0" in done.stdout
    pinned, told = client.logs("night-a").decode().splitlines()
    assert told.split("|")[:2] == ["it's $(id)", "a  b"]
    assert pinned.split()[-1] == told.split("|")[2]
    requested = client.inspect_container("night-a")["HostConfig"]["DeviceRequests"]
    assert requested[0]["DeviceIDs"][0].startswith("MIG-")
    client.remove_container("night-a")
    assert scripts.program.instances() == []
