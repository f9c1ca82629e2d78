"""`up`, `check` and `down` with all real but the GPU: pynvml over a C library, podman, CDI, device nodes in a /dev of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import missing

pytestmark = pytest.mark.docker
ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "tests/data/nvml_stub.c"

PLAN = """
name: r
gpu: 0
defaults:
  image: busybox:latest
  command: [sleep, "300"]
  network_mode: none
  ulimits: {nproc: 1024}
  profile: 1g.5gb
jobs: {a: {}, b: {}}
"""

MODPROBE = """#!/bin/sh
# As NVIDIA's: -f FILE makes the node of that capability.
echo "$*" >>"$MODPROBE_LOG"
[ "$1" = -f ] || exit 0
minor=$(sed -n 's/^DeviceFileMinor: //p' "$2")
mkdir -p /dev/nvidia-caps
mknod -m 444 /dev/nvidia-caps/nvidia-cap$minor c 240 $minor
"""

SCENE = """
set -eu
cd "$1"
mkdir -p dev /run/cdi
mount -t tmpfs none dev
mkdir dev/pts dev/shm
n=1
for name in null zero full random urandom tty nvidiactl nvidia-uvm nvidia-uvm-tools nvidia0; do
    case $name in null) mm='1 3' ;; zero) mm='1 5' ;; full) mm='1 7' ;; random) mm='1 8' ;; urandom) mm='1 9' ;; tty) mm='5 0' ;;
    *) mm="241 $n"; n=$((n + 1)) ;; esac
    mknod -m 666 dev/$name c $mm
done
ln -s /proc/self/fd dev/fd
mount -t tmpfs none /run/cdi
mount --bind proc /proc/driver
mount --rbind dev /dev
mount -t devpts devpts /dev/pts
podman --root=root --runroot=runroot --tmpdir=tmp --runtime="$RUNC" --storage-driver=vfs system service --time=0 \
    unix://"$1"/podman.sock >podman.log 2>&1 &
service=$!
trap 'kill $service; wait $service || true' EXIT
until [ -S podman.sock ]; do kill -0 $service; sleep 0.05; done
"$PYTHON" scene.py
"""

STEPS = """
import contextlib, io, json, os, subprocess, sys
from pathlib import Path
import pynvml
from migctl.cli.app import run
from migctl.runtimes.containers import Containers
from tests.support.engines import reachable_engine

def migctl(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            code = run(words)
        except SystemExit as end:
            code = end.code
    return code, out.getvalue()

def cdi():
    return sorted(path.name for path in Path("/run/cdi").iterdir())

# The library tells of a process on the GPU, beside which its mode cannot be changed: an administrator has done it before.
pynvml.nvmlInit()
pynvml.nvmlDeviceSetMigMode(pynvml.nvmlDeviceGetHandleByIndex(0), 1)
told = {}
with reachable_engine() as client:
    told["check"] = migctl("check", "--json")
    told["up"] = migctl("up", "plan.yaml", "--json")
    told["cdi"] = cdi()
    code, status = migctl("status", "--json")
    told["status"] = json.loads(status)
    assert told["up"][0] == 0, told["up"]
    jobs = told["status"]["runs"][0]["jobs"]
    told["held"] = {
        job["name"]: sorted(str(path.relative_to(f"/proc/{job['pid']}/root")) for path in
                            Path(f"/proc/{job['pid']}/root/dev").rglob("nvidia*") if path.is_char_device())
        for job in jobs if job["pid"]
    }
    Path("/run/cdi/nvidia.json").write_text(json.dumps({
        "cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
        "devices": [{"name": "MIG-gone", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}]}))
    client.remove_container(jobs[0]["container_id"], force=True)
    told["check again"] = migctl("check", "--json")
    told["down"] = migctl("down", "r", "--timeout", "1", "--json")
    told["cdi after"] = cdi()
    told["left"] = len(client.containers(all=True))
    if os.fork() == 0:
        Containers._make = lambda *_: os._exit(9)  # killed when the specification is written and no container asked for yet
        run(["up", "plan.yaml"])
    told["killed"] = os.waitstatus_to_exitcode(os.wait()[1])
    told["cdi killed"] = cdi()
    told["down killed"] = migctl("down", "r", "--json")
    told["cdi end"] = cdi()
    told["gpus"] = json.loads(migctl("status", "--json")[1])["gpus"]
Path("told.json").write_text(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each step of the scene printed and left."""
    runc = shutil.which("runc", path="/usr/sbin:/usr/bin:/sbin")
    needed = [shutil.which(program) for program in ("podman", "unshare", "cc", "busybox")]
    if os.geteuid() != 0 or runc is None or None in needed:
        missing(
            "a scene with podman and a GPU's device nodes needs root, podman, catatonit, runc, gcc and busybox-static"
        )
    if not Path("/proc/driver").is_dir():
        missing("this kernel has no /proc/driver")
    # Not pytest's folder: a socket's path has at most 107 characters.
    folder = Path("/tmp") / tmp_path_factory.mktemp("migctl-scene").parent.name / "scene"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", folder / "bin/libnvidia-ml.so.1", LIBRARY], check=True)
    for gi_id in range(15):
        for name, minor in ((f"gi{gi_id}/access", 100 + 2 * gi_id), (f"gi{gi_id}/ci0/access", 101 + 2 * gi_id)):
            file = folder / "proc/nvidia/capabilities/gpu0/mig" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    (folder / "proc/nvidia-caps").mkdir()
    (folder / "bin/nvidia-modprobe").write_text(MODPROBE)
    (folder / "bin/nvidia-modprobe").chmod(0o755)
    (folder / "containers.conf").write_text('[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n')
    (folder / "plan.yaml").write_text(PLAN)
    (folder / "scene.py").write_text(STEPS)
    environ = {
        "PATH": f"{folder}/bin:{os.environ['PATH']}:/usr/sbin:/sbin",
        "HOME": str(folder),
        "RUNC": runc,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "LD_LIBRARY_PATH": f"{folder}/bin",
        "CONTAINERS_CONF": f"{folder}/containers.conf",
        "DOCKER_HOST": f"unix://{folder}/podman.sock",
        "MIGCTL_STATE_DIR": f"{folder}/state",
        "MIGCTL_RUN_DIR": f"{folder}/run-dir",
        "MIGCTL_RECORDING": "off",
        "MODPROBE_LOG": f"{folder}/modprobe.log",
        "NO_COLOR": "1",
    }
    scene = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SCENE, "scene", str(folder)]
    try:
        done = subprocess.run(scene, env=environ, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        found: dict[str, Any] = json.loads((folder / "told.json").read_text())
        found["modprobe"] = (folder / "modprobe.log").read_text().splitlines()
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def findings(answer: list[Any]) -> dict[str, str]:
    return {finding["id"]: finding["message"] for finding in json.loads(answer[1])["findings"]}


def test_check_says_how_containers_get_their_instance(told: dict[str, Any]) -> None:
    found = findings(told["check"])

    assert (
        found["gpu-access"] == "containers get their instance by CDI, with migctl's own specification in /var/run/cdi"
    )
    assert found["runtime"].startswith("podman 4.")


def test_up_starts_each_job_with_exactly_its_own_instances_nodes(told: dict[str, Any]) -> None:
    jobs = {job["name"]: job for job in told["status"]["runs"][0]["jobs"]}

    assert told["up"][0] == 0, told["up"][1]
    assert [jobs[name]["state"] for name in ("a", "b")] == ["running", "running"]
    assert told["held"] == {
        name: sorted(
            ["dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-uvm-tools"]
            + [f"dev/nvidia-caps/nvidia-cap{100 + 2 * job['gi_id'] + part}" for part in (0, 1)]
        )
        for name, job in jobs.items()
    }


def test_the_capability_nodes_were_made_by_nvidia_modprobe(told: dict[str, Any]) -> None:
    files = {
        f"gi{job['gi_id']}/{part}" for job in told["status"]["runs"][0]["jobs"] for part in ("access", "ci0/access")
    }

    assert {line.partition("/mig/")[2] for line in told["modprobe"]} == files


def test_each_job_has_a_specification_while_it_is_up_and_none_after_down_though_a_container_vanished(
    told: dict[str, Any],
) -> None:
    assert len(told["cdi"]) == 2
    assert told["down"][0] == 0, told["down"][1]
    assert told["cdi after"] == ["nvidia.json"]
    assert told["left"] == 0
    assert told["gpus"][0]["instances"] == []


def test_what_an_up_that_was_killed_had_written_is_taken_away_by_down_too(told: dict[str, Any]) -> None:
    assert told["killed"] == 9
    assert len(told["cdi killed"]) >= 2
    assert told["down killed"][0] == 0, told["down killed"][1]
    assert told["cdi end"] == ["nvidia.json"]


def test_check_names_what_a_vanished_container_left_and_what_a_strangers_specification_has_stale(
    told: dict[str, Any],
) -> None:
    found = findings(told["check again"])

    assert "this engine has no container of it" in found["cdi-left-over"]
    assert found["cdi-stale"].startswith("nvidia.com/gpu=MIG-gone in /var/run/cdi/nvidia.json is stale")
