"""The process runtime with real processes, judged from outside: /proc, files, exit codes."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.record import JobState
from migctl.errors import Busy, PlanError
from migctl.runtimes.processes import Processes
from tests.support.launches import job, launch

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}
AFFINITY = CpuSet(os.sched_getaffinity(0))
ONE = CpuSet({max(AFFINITY)})
Start = Callable[..., str]


@pytest.fixture
def processes() -> Processes:
    return Processes(ENVIRON)


@pytest.fixture
def create(processes: Processes, tmp_path: Path) -> Iterator[Start]:
    """Creates a job from a shell script; whatever is left at the end is stopped."""
    handles: list[str] = []

    def make(script: str, **changes: object) -> str:
        folder = tmp_path / f"attempt{len(handles)}"
        folder.mkdir(mode=0o700)
        changes.setdefault("cpus", ONE)
        handles.append(processes.create(launch(job(command=("sh", "-c", script)), folder, **changes)))
        return handles[-1]

    yield make
    for handle in handles:
        processes.stop(handle, 0)


def eventually(condition: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def status_of(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(name + ":"))


def log_of(handle: str) -> str:
    return Path(handle, "log").read_text()


def alive(pid: int) -> bool:
    try:
        return status_of(pid, "State")[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_started_job_runs_on_exactly_its_cpus(processes: Processes, create: Start) -> None:
    unit = processes.start(create("sleep 60"))

    assert unit.state is JobState.RUNNING
    assert unit.pid is not None
    assert status_of(unit.pid, "Cpus_allowed_list") == str(ONE)


def test_children_inherit_the_cpus_from_their_first_instruction(processes: Processes, create: Start) -> None:
    handle = create("grep Cpus_allowed_list /proc/self/status")
    processes.start(handle)
    processes.wait(handle, 10)

    assert log_of(handle).split() == ["Cpus_allowed_list:", str(ONE)]


def test_cpus_that_the_kernel_does_not_allow_fail_the_job_before_it_begins(processes: Processes, create: Start) -> None:
    handle = create("echo began", cpus=ONE | CpuSet({max(AFFINITY) + 7}))

    unit = processes.start(handle)

    assert unit.state is JobState.FAILED
    assert unit.reason is not None
    assert "not on its CPUs" in unit.reason
    assert log_of(handle) == ""


def test_the_environment_is_the_launchs_and_nothing_else(processes: Processes, create: Start) -> None:
    handle = create(
        "env", environment=(("PATH", "/usr/bin:/bin"), ("LR", "1e-4"), ("EMPTY", ""), ("LONG", "x" * 100_000))
    )
    processes.start(handle)
    processes.wait(handle, 10)

    seen = dict(line.split("=", 1) for line in log_of(handle).splitlines())
    assert {k: v for k, v in seen.items() if k not in ("PWD", "SHLVL", "_", "OLDPWD")} == {
        "PATH": "/usr/bin:/bin",
        "LR": "1e-4",
        "EMPTY": "",
        "LONG": "x" * 100_000,
    }


def test_output_is_kept_byte_for_byte(processes: Processes, create: Start) -> None:
    handle = create(r"printf 'a\rb\377\n\033[1mc'; printf err >&2")
    processes.start(handle)
    processes.wait(handle, 10)

    assert Path(handle, "log").read_bytes() == b"a\rb\xff\n\x1b[1mcerr"
    assert b"".join(processes.logs(handle, follow=False, tail=1)) == b"\x1b[1mcerr"


@pytest.mark.parametrize(
    ("script", "state", "code", "words"),
    [
        ("exit 0", JobState.SUCCEEDED, 0, None),
        ("exit 3", JobState.FAILED, 3, "exit code 3"),
        ("kill -9 $$", JobState.FAILED, 137, "ended by SIGKILL (exit code 137)"),
        ("kill -SEGV $$", JobState.FAILED, 139, "ended by SIGSEGV (exit code 139)"),
    ],
)
def test_the_exit_is_recorded(
    processes: Processes, create: Start, script: str, state: JobState, code: int, words: str | None
) -> None:
    handle = create(script)
    processes.start(handle)
    unit = processes.wait(handle, 10)

    assert unit is not None
    assert (unit.state, unit.exit_code, unit.reason) == (state, code, words)
    assert unit.started_at is not None
    assert unit.finished_at is not None
    assert unit.started_at <= unit.finished_at <= time.time()


def test_a_job_that_has_not_started_is_starting_and_one_that_runs_is_running(
    processes: Processes, create: Start
) -> None:
    handle = create("sleep 60")
    before = processes.units(None, [handle])[0].state
    processes.start(handle)
    after = processes.units(None, [handle])[0].state

    assert (before, after) == (JobState.STARTING, JobState.RUNNING)
    assert processes.wait(handle, 0.1) is None


def test_a_second_start_finds_the_running_job(processes: Processes, create: Start) -> None:
    handle = create("sleep 60")

    assert processes.start(handle).pid == processes.start(handle).pid


def test_a_program_that_vanished_ends_as_127_with_a_clear_line(processes: Processes, tmp_path: Path) -> None:
    program = tmp_path / "gone"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    handle = processes.create(launch(job(command=(str(program),)), tmp_path, cpus=ONE))
    program.unlink()

    processes.start(handle)
    unit = processes.wait(handle, 10)

    assert unit is not None
    assert unit.exit_code == 127
    assert unit.reason == f"cannot run {program} in /: No such file or directory"
    assert log_of(handle) == f"migctl: {unit.reason}\n"


def test_sigterm_reaches_the_main_process_only(processes: Processes, create: Start) -> None:
    script = """
        (trap 'echo worker got it; exit' TERM; while :; do sleep 0.05; done) &
        trap 'echo main got it; sleep 0.3; exit 0' TERM
        echo ready
        while :; do sleep 0.05; done
    """
    handle = create(script)
    processes.start(handle)
    eventually(lambda: "ready" in log_of(handle))

    processes.stop(handle, 10)

    # What the worker's shell says of its own child, killed with everything else at the end, is not the point.
    assert log_of(handle).startswith("ready\nmain got it\n")
    assert "worker got it" not in log_of(handle)


def test_what_ignores_sigterm_is_killed_after_the_grace_with_all_it_started(
    processes: Processes, create: Start
) -> None:
    handle = create(
        "trap '' TERM; setsid sh -c 'sleep 300 & sleep 300' & setsid sleep 300 & echo ready; while :; do sleep 1; done"
    )
    unit = processes.start(handle)
    eventually(lambda: "ready" in log_of(handle))
    shim = json.loads(Path(handle, "pid.json").read_text())["shim_pid"]
    eventually(lambda: len(below(shim)) >= 5)
    family = below(shim)

    begin = time.monotonic()
    processes.stop(handle, 0.5)

    assert 0.5 <= time.monotonic() - begin < 5
    assert not [pid for pid in family if alive(pid)]
    assert processes.units(None, [handle])[0].exit_code == 137
    assert unit.pid in family


def below(pid: int) -> list[int]:
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listing.splitlines()]
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        children = [child for child, above in pairs if above == parent]
        found += children
        todo += children
    return found


def test_a_second_ctrl_c_skips_the_rest_of_the_grace(processes: Processes, create: Start) -> None:
    handle = create("trap '' TERM; while :; do sleep 0.05; done")
    processes.start(handle)
    hurry = threading.Event()
    threading.Timer(0.2, hurry.set).start()

    begin = time.monotonic()
    processes.stop(handle, 60, hurry=hurry)

    assert time.monotonic() - begin < 5


def test_leftovers_of_a_job_that_ended_by_itself_are_gone_before_it_counts_as_ended(
    processes: Processes, create: Start
) -> None:
    handle = create("setsid sleep 300 & echo $!; exit 0")
    processes.start(handle)
    unit = processes.wait(handle, 10)

    assert unit is not None
    assert unit.state is JobState.SUCCEEDED
    assert not alive(int(log_of(handle)))


def test_a_job_outlives_the_command_that_started_it_killed_by_sigkill(
    processes: Processes, create: Start, tmp_path: Path
) -> None:
    handle = create("sleep 1; echo done")
    code = f"""
import os, signal
from migctl.runtimes.processes import Processes
Processes({ENVIRON!r}).start({handle!r})
os.killpg(0, signal.SIGKILL)
"""
    child = subprocess.run([sys.executable, "-c", code], start_new_session=True, cwd=Path(__file__).parents[2])

    assert child.returncode == -signal.SIGKILL
    unit = processes.wait(handle, 10)
    assert unit is not None
    assert unit.state is JobState.SUCCEEDED
    assert log_of(handle) == "done\n"


def test_a_terminal_that_closes_does_not_end_the_job(processes: Processes, create: Start) -> None:
    handle = create("sleep 60")
    unit = processes.start(handle)
    assert unit.pid is not None

    assert os.getsid(unit.pid) != os.getsid(0)
    assert os.getpgid(unit.pid) == unit.pid
    assert int(status_of(unit.pid, "SigIgn"), 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_a_killed_supervisor_leaves_a_running_job_that_can_be_stopped(processes: Processes, create: Start) -> None:
    handle = create("sleep 300 & sleep 300")
    processes.start(handle)
    record = json.loads(Path(handle, "pid.json").read_text())
    eventually(lambda: below(record["pid"]))
    family = [record["pid"], *below(record["pid"])]
    os.kill(record["shim_pid"], signal.SIGKILL)
    eventually(lambda: not alive(record["shim_pid"]))

    assert processes.units(None, [handle])[0].state is JobState.RUNNING
    processes.stop(handle, 0.2)

    assert not [pid for pid in family if alive(pid)]
    assert processes.units(None, [handle])[0].state is JobState.LOST


def test_after_a_reboot_a_job_is_lost_even_if_its_pid_is_used_again(processes: Processes, create: Start) -> None:
    handle = create("exit 0")
    processes.start(handle)
    processes.wait(handle, 10)
    Path(handle, "exit.json").unlink()
    record = json.loads(Path(handle, "pid.json").read_text())
    record |= {"pid": os.getpid(), "boot_id": "another"}
    Path(handle, "pid.json").write_text(json.dumps(record))

    unit = processes.units(None, [handle])[0]

    assert (unit.state, unit.reason) == (JobState.LOST, "the machine was restarted")
    processes.stop(handle, 0)  # and this test still runs


def test_a_pid_that_is_used_again_is_never_signalled(processes: Processes, create: Start) -> None:
    handle = create("exit 0")
    processes.start(handle)
    processes.wait(handle, 10)
    Path(handle, "exit.json").unlink()
    with subprocess.Popen(["sleep", "60"]) as other:
        record = json.loads(Path(handle, "pid.json").read_text())
        record |= {"pid": other.pid, "shim_pid": other.pid}
        Path(handle, "pid.json").write_text(json.dumps(record))

        processes.stop(handle, 0)

        assert other.poll() is None
        other.kill()


def test_files_are_private_and_removal_keeps_the_log_but_not_the_environment(
    processes: Processes, create: Start
) -> None:
    handle = create("echo hello", environment=(("PATH", "/usr/bin:/bin"), ("SECRET", "hunter2")))
    processes.start(handle)
    processes.wait(handle, 10)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path(handle).iterdir()}
    assert modes == dict.fromkeys(("launch.json", "lock", "pid.json", "log", "exit.json"), 0o600)
    processes.save_log(handle, f"{handle}/saved")
    processes.remove(handle)
    processes.remove(handle)
    assert {path.name for path in Path(handle).iterdir()} == {"log", "exit.json", "saved"}
    assert Path(handle, "saved").read_text() == "hello\n"
    assert processes.units(None, [handle]) == []


def test_a_running_job_is_not_removed(processes: Processes, create: Start) -> None:
    handle = create("sleep 60")
    processes.start(handle)

    with pytest.raises(Busy, match="still runs"):
        processes.remove(handle)


def test_no_link_is_followed_when_files_are_written(processes: Processes, create: Start, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    handle = create("echo overwritten")
    for name in ("log", "pid.json.new", "exit.json.new"):
        Path(handle, name).symlink_to(target)
    with pytest.raises(Exception, match=r"log"):
        processes.start(handle)

    assert target.read_text() == "precious"


def test_following_a_log_gives_everything_and_ends_with_the_job(processes: Processes, create: Start) -> None:
    handle = create("echo one; sleep 0.3; echo two; sleep 0.3; echo three")
    processes.start(handle)

    assert b"".join(processes.logs(handle, follow=True, tail=None)) == b"one\ntwo\nthree\n"


def test_exec_has_the_jobs_cpus_environment_and_folder(processes: Processes, create: Start, tmp_path: Path) -> None:
    handle = create("sleep 60", working_dir=str(tmp_path))
    processes.start(handle)
    out = tmp_path / "out"

    code = processes.exec(
        handle, ["sh", "-c", f"(taskset -cp $$ | sed 's/.*: //'; pwd; echo $MIGCTL_JOB) > {out}; exit 9"], tty=False
    )

    assert code == 9
    assert out.read_text().split() == [str(ONE), str(tmp_path), "a"]
    assert CpuSet(os.sched_getaffinity(0)) == AFFINITY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as somebody else")
def test_root_runs_the_job_as_its_user_who_also_owns_the_files(processes: Processes, create: Start) -> None:
    handle = create("id -u; id -g; id -G; echo $HOME $USER", user="nobody")
    for place in Path(handle).parents:
        if place.stat().st_uid == 0 and str(place).startswith("/tmp/"):
            place.chmod(0o755)
    os.chown(handle, 65534, 65534)
    processes.start(handle)
    processes.wait(handle, 10)

    assert log_of(handle).split() == ["65534", "65534", "65534", "/nonexistent", "nobody"]
    assert {Path(handle, name).stat().st_uid for name in ("log", "pid.json", "exit.json")} == {65534}


def test_programs_and_commands_are_checked_before_anything_changes(processes: Processes) -> None:
    processes.prepare([job(), job(command=("${MIGCTL_JOB}",))], simulated=False)
    with pytest.raises(PlanError, match="no program in any of the") as error:
        processes.prepare([job(command=("no-such-program",))], simulated=False)
    assert error.value.id == "no-program"
    with pytest.raises(PlanError) as error:
        processes.prepare([job(command=None)], simulated=False)
    assert error.value.id == "no-command"


def test_a_virtual_environments_python_stays_the_one_of_the_callers_path(tmp_path: Path) -> None:
    binary = tmp_path / "venv/bin"
    binary.mkdir(parents=True)
    (binary / "python").symlink_to(sys.executable)
    processes = Processes(ENVIRON | {"PATH": f"{binary}:/usr/bin:/bin"})
    spec = job(command=("python", "-c", "import sys; print(sys.executable)"))
    handle = processes.create(launch(spec, tmp_path, cpus=ONE, environment=(("PATH", f"{binary}:/usr/bin:/bin"),)))
    processes.start(handle)
    processes.wait(handle, 10)

    assert log_of(handle).strip() == str(binary / "python")


def test_seven_jobs_start_side_by_side(processes: Processes, create: Start) -> None:
    handles = [create("sleep 60") for _ in range(7)]
    units = []
    threads = [threading.Thread(target=lambda h=h: units.append(processes.start(h))) for h in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [unit.state for unit in units] == [JobState.RUNNING] * 7
    assert len({unit.pid for unit in units}) == 7


def test_a_folder_without_a_launch_record_is_no_unit(processes: Processes, tmp_path: Path) -> None:
    assert processes.units(None, [str(tmp_path), str(tmp_path / "none")]) == []
