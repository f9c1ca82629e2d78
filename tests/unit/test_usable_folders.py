"""`check` says of folders what `up` would say, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from migctl.core.choices import RuntimeName
from migctl.core.views.findings import Level
from migctl.engine.checks.check import check
from migctl.engine.session import Session
from migctl.errors import HostError
from migctl.host.caller import caller
from migctl.host.paths import make_private, make_shared
from migctl.host.usable import private_problem, shared_problem

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")

# Where nobody, not even root, can make a folder, however it looks to access(2).
HOPELESS = ("/proc/migctl", "/proc/self/task/migctl", "/sys/kernel/migctl", "/dev/null/migctl", "/dev/null")


@pytest.mark.parametrize("folder", HOPELESS)
def test_what_cannot_be_made_is_found_out_without_trying(folder: str) -> None:
    me = caller({})
    private, shared = private_problem(Path(folder), me), shared_problem(Path(folder))

    assert private is not None
    assert shared is not None
    with pytest.raises(HostError) as raised:
        make_private(Path(folder), me)
    assert raised.value.id == private.id == "state-dir-unusable"
    with pytest.raises(HostError) as raised:
        make_shared(Path(folder))
    assert raised.value.id == shared.id == "run-dir-unusable"


def test_a_folder_that_can_be_made_is_not_made_and_nothing_is_touched(tmp_path: Path) -> None:
    before = tmp_path.stat()

    assert private_problem(tmp_path / "a/b", caller({})) is None
    assert shared_problem(tmp_path / "a/b") is None

    assert list(tmp_path.iterdir()) == []
    assert tmp_path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_link_in_the_place_of_a_folder_is_told_before(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert "link" in str(private_problem(tmp_path / "link", caller({})))
    assert "link" in str(shared_problem(tmp_path / "link"))


@needs_root
def test_looking_takes_no_folder_over_from_whoever_came_first(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    folder.chmod(0o1777)

    assert shared_problem(folder) is None
    assert folder.stat().st_uid == 65534

    make_shared(folder)
    assert folder.stat().st_uid == 0


@needs_root
def test_a_full_file_system_is_told(tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M,nr_inodes=2", "none", str(tmp_path)], check=False)
    if mounted.returncode:
        pytest.skip("this container may not mount")
    try:
        (tmp_path / "last").write_text("")

        assert "No space left" in str(private_problem(tmp_path / "state", caller({})))
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


# Variable; its value; the failure of `check`.
PROMISES = (
    ("MIGCTL_STATE_DIR", "/proc/x", "state-dir-unusable"),
    ("MIGCTL_RUN_DIR", "/proc/y", "run-dir-unusable"),
    ("MIGCTL_SIM_STATE", "/proc/z", "simulator-state"),
    ("MIGCTL_SIM_STATE", "/dev/null/z", "simulator-state"),
)


@pytest.mark.parametrize(("variable", "value", "failure"), PROMISES)
def test_check_does_not_promise_what_up_refuses(tmp_path: Path, variable: str, value: str, failure: str) -> None:
    environ = {"MIGCTL_STATE_DIR": f"{tmp_path}/state", "MIGCTL_RUN_DIR": f"{tmp_path}/run", variable: value}
    if variable == "MIGCTL_STATE_DIR":
        environ["MIGCTL_SIM_STATE"] = f"{tmp_path}/simulator.json"
    found = check(Session(environ=environ, nvml="sim:a100-40gb"), RuntimeName.PROCESS, None)

    failures = [finding for finding in found if finding.level is Level.FAILURE]
    assert [finding.id for finding in failures] == [failure]
    assert "rm " not in str(failures[0].hint)
    assert list(tmp_path.iterdir()) == []
