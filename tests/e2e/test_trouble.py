"""Trouble as users meet it: the exit code, the words, the next step, and what is left on the machine."""

from __future__ import annotations

import json
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from migctl.nvml.simstate import SimState
from tests.support.program import Program

SLEEPERS = """\
name: night
runtime: process
oversubscribe: true
jobs:
  one: {profile: 1g.5gb, command: [sleep, "600"]}
  two: {profile: 2g.10gb, command: [sleep, "600"]}
"""
CONTAINER = "jobs: {a: {profile: 1g.5gb, image: busybox, command: [sleep, '1']}}\n"


@dataclass(frozen=True)
class Refusal:
    """A command that is refused, and how."""

    name: str
    words: tuple[str, ...]
    code: int
    id: str
    says: str
    hint: str
    plan: str = SLEEPERS
    nvml: str = "sim:a100-40gb"


PROFILE_ON_T4 = "jobs: {a: {profile: 1g.5gb, runtime: process, command: x}}"
TOO_MUCH = "runtime: process\njobs: {small: {profile: 1g.5gb, command: x}, big: {memory: 100GiB, command: x}}\n"
REFUSALS = [
    Refusal(
        "no engine", ("up",), 4, "no-engine", "no container engine answers at unix://", "--runtime process", CONTAINER
    ),
    Refusal("no driver", ("up",), 4, "no-driver", "no NVIDIA driver is installed", "--nvml sim:", nvml=""),
    Refusal("profiles without driver", ("profiles",), 4, "no-driver", "no NVIDIA driver", "--nvml sim:", nvml=""),
    Refusal("no MIG", ("up",), 4, "no-mig", "one, two ask for a GPU instance", "strategy: shared", nvml="sim:t4"),
    Refusal(
        "mode off", ("up",), 4, "mig-mode-off", "MIG mode is off", "migctl up --enable-mig", nvml="sim:a100-40gb:off"
    ),
    Refusal(
        "unknown runtime", ("up", "--runtime", "lxc"), 2, "usage", "docker or process, not lxc", "migctl up --help"
    ),
    Refusal("unknown command", ("upp",), 2, "usage", "Did you mean 'up'?", "migctl --help"),
    Refusal("unknown option", ("up", "--wiat"), 2, "usage", "--wait", "migctl up --help"),
    Refusal("no plan file", ("up", "night.yml"), 2, "file-not-found", "night.yml", ""),
    Refusal("unknown run", ("down", "nihgt"), 2, "unknown-run", "no run is called nihgt", "migctl status"),
    Refusal("unknown job", ("logs", "one"), 2, "unknown-job", "no run is recorded", "migctl status"),
    Refusal("unknown simulator", ("up",), 2, "nvml-spec", "is no simulated machine", "sim:a100-40gb", nvml="a100"),
    Refusal("no program", ("up",), 2, "no-program", "/no/such", "", SLEEPERS.replace("[sleep, ", "[/no/such, ")),
    Refusal("never fits", ("up",), 3, "never-fits", "big", "", TOO_MUCH),
]


@pytest.mark.parametrize("case", REFUSALS, ids=[case.name for case in REFUSALS])
def test_what_cannot_be_done_is_refused_with_its_reason_and_the_next_step(program: Program, case: Refusal) -> None:
    program.plan(case.plan)

    for_people = program.run(*case.words, MIGCTL_NVML=case.nvml).ended(case.code)
    for_programs = program.run(*case.words, "--json", MIGCTL_NVML=case.nvml).ended(case.code)

    assert case.says in for_people.told, for_people
    assert case.hint in for_people.told, for_people
    assert for_people.out == "", for_people
    told = json.loads(for_programs.out)
    assert told["version"] == 1
    first = told["errors"][0]
    assert set(first) >= {"id", "message", "where", "hint", "exit_code"}
    assert (first["id"], first["exit_code"]) == (case.id, case.code)
    assert for_programs.err == "", for_programs
    assert program.instances() == []


MISTAKES = """\
nmae: night
gpu: nonsense
runtime: lxc
jobs:
  a: {profile: 1g.5gb, memory: 5GiB, command: x}
  b: {profil: 1g.5gb, command: x}
  c: {privileged: true, command: x}
  d: {cpus: 012, command: x}
  e: {environment: {CUDA_VISIBLE_DEVICES: 0}, command: x}
  f: {stop_grace_period: soon, command: x}
  g: {num_workers: many, command: x}
  a: {command: x}
"""


def test_ten_mistakes_are_told_at_once_each_at_its_place(program: Program) -> None:
    program.plan(MISTAKES)

    done = program.run("up").ended(2)
    errors = program.json("up")["errors"]

    places = re.findall(r"plan\.yaml:(\d+):\d+", done.err)
    assert len(places) >= 10, done
    assert {int(line) for line in places} == {1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12}, done
    assert len(re.findall(r"^ *[|│] *\^", done.err, re.MULTILINE)) == len(places), done
    assert len(errors) == len(places)
    assert not program.state.exists()
    assert not program.simulator.exists()


def test_without_the_right_to_make_instances_nothing_is_made_and_the_reason_is_told(program: Program) -> None:
    program.plan(SLEEPERS)
    state = SimState.create(program.simulator, "a100-40gb")
    state.no_permission = True
    state.save(program.simulator)

    done = program.run("up").ended(4)

    assert "only root may read" in done.told, done
    assert "mig/config capability" in done.told, done
    assert program.instances() == []
    assert program.jobs() == {}


def test_the_smallest_conflict_is_named_and_what_is_too_much_at_once_waits(program: Program) -> None:
    program.plan(
        "runtime: process\noversubscribe: true\ndefaults: {command: [sleep, '600']}\njobs:\n"
        "  little: {profile: 1g.5gb}\n  left: {profile: 4g.20gb}\n  right: {profile: 4g.20gb}\n"
    )

    planned = program.json("plan")
    up = program.up()

    assert planned["conflict"] == ["left", "right"]
    assert planned["waiting"] == ["right"]
    assert "waiting: right: no room: needs 4g.20gb" in " ".join(up.out.split())
    assert {name: job["state"] for name, job in program.jobs().items()} == {
        "little": "running",
        "left": "running",
        "right": "queued",
    }


def test_a_cpuset_beyond_the_machine_is_refused(program: Program) -> None:
    program.plan("runtime: process\njobs: {a: {profile: 1g.5gb, cpuset: '4000', command: x}}\n")

    done = program.run("up")

    assert done.code in (2, 3, 4), done
    assert "4000" in done.told, done
    assert program.instances() == []


def test_a_name_taken_from_another_path_is_refused_with_both_ways_out(program: Program) -> None:
    program.plan(SLEEPERS)
    other = program.folder / "other"
    other.mkdir()
    (other / "plan.yaml").write_text(SLEEPERS, "utf-8")
    program.up()

    done = program.run("up", "other/plan.yaml").ended(2)

    assert str(program.folder / "plan.yaml") in done.err.replace("\n       ", ""), done
    assert "migctl down night" in done.told, done
    assert len(program.instances()) == 2


def test_up_twice_changes_nothing_and_down_leaves_nothing(program: Program) -> None:
    program.plan(SLEEPERS)
    program.up()
    before = program.jobs()

    program.up()

    after = program.jobs()
    assert {n: (j["pid"], j["mig_uuid"], j["attempt"]) for n, j in before.items()} == {
        n: (j["pid"], j["mig_uuid"], j["attempt"]) for n, j in after.items()
    }
    assert all(alive(job["pid"]) for job in after.values())
    program.run("down", "--timeout", "0").ended(0)
    assert program.instances() == []
    assert not any(alive(job["pid"]) for job in after.values())
    assert not list(program.claims.glob("*.json"))


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text("utf-8")
    except FileNotFoundError:
        return False


def caught(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal: from then on it is in the command, no longer on the way there."""
    found = re.search(r"^SigCgt:\t(\w+)$", Path(f"/proc/{pid}/status").read_text("utf-8"), re.MULTILINE)
    assert found
    return bool(int(found[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("damage", ["deleted", "garbage"])
def test_a_lost_store_is_rebuilt_and_up_and_down_go_on(program: Program, damage: str) -> None:
    program.plan(SLEEPERS)
    program.up()
    before = program.jobs()
    for path in program.state.glob("store.db*"):
        path.write_bytes(b"\0garbage" * 1000) if damage == "garbage" else path.unlink()

    seen = program.jobs()
    program.up()

    assert {n: j["pid"] for n, j in seen.items()} == {n: j["pid"] for n, j in before.items()}
    assert {n: j["mig_uuid"] for n, j in program.jobs().items()} == {n: j["mig_uuid"] for n, j in before.items()}
    program.run("down", "--timeout", "0").ended(0)
    assert program.instances() == []
    assert not any(alive(job["pid"]) for job in before.values())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "migctl-test", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a full disk needs a small tmpfs, which only root can mount: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_said_and_nothing_is_left_on_the_gpu(program: Program, small_disk: Path) -> None:
    program.plan(SLEEPERS)
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(b"\0" * 1_000_000)

    done = program.run("up", "--state-dir", str(small_disk / "state")).ended(5)

    assert "No space left" in done.told or "full" in done.told or "no room" in done.told, done
    assert program.instances() == []


def slow(program: Program, **delays_s: float) -> None:
    """The simulated GPU takes its time, as a real one does."""
    state = SimState.create(program.simulator, "a100-40gb")
    state.delays_s = dict(delays_s)
    state.save(program.simulator)


def until(condition: object, seconds: float = 20.0) -> None:
    """Wait for something outside to come true."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_up_creates_undoes_everything(program: Program, number: signal.Signals, code: int) -> None:
    program.plan(SLEEPERS)
    slow(program, create=0.5)
    process = program.start("up")
    until(lambda: len(program.instances()) == 1)

    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert process.returncode == code, out + err
    assert "Traceback" not in err
    assert "undo" in err, err
    assert program.instances() == []
    assert program.json("status")["runs"] == []
    assert not list(program.claims.glob("*.json"))


def test_a_second_ctrl_c_stops_at_once_and_names_the_way_out(program: Program) -> None:
    program.plan(SLEEPERS)
    slow(program, create=1.5)
    process = program.start("up")
    until(lambda: len(program.instances()) == 1)

    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    until(lambda: select.select([process.stderr], [], [], 0)[0])
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "migctl down night" in err, err
    program.run("down", "--timeout", "0").ended(0)
    assert program.instances() == []


def test_ctrl_c_in_wait_detaches_and_the_jobs_go_on(program: Program) -> None:
    program.plan(SLEEPERS)
    program.up()
    jobs = program.jobs()
    process = program.start("wait")
    until(lambda: caught(process.pid, signal.SIGTERM))
    time.sleep(0.3)

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 130, out + err
    assert "the jobs go on" in err, err
    assert "migctl stop night" in err, err
    assert all(alive(job["pid"]) for job in jobs.values())


def test_commands_that_read_create_nothing(program: Program) -> None:
    program.plan(SLEEPERS)
    for words in (
        ["status"],
        ["plan"],
        ["plan", "--on", "a100-40gb"],
        ["check", "--runtime", "process"],
        ["profiles"],
        ["workers"],
        ["up", "--dry-run"],
        ["schema"],
    ):
        program.run(*words).ended(0)

    assert sorted(path.name for path in program.folder.iterdir()) == ["plan.yaml"]


def test_a_reader_that_goes_away_is_no_error(program: Program) -> None:
    command = f"{sys.executable} -m migctl schema | head -1"

    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=program.environ, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


def test_wait_fails_when_a_job_fails_and_says_where_to_look(program: Program) -> None:
    program.plan(
        "name: night\nruntime: process\noversubscribe: true\njobs:\n"
        "  good: {profile: 1g.5gb, command: ['true']}\n"
        "  bad: {profile: 1g.5gb, command: [sh, -c, 'echo no such data >&2; exit 3']}\n"
    )
    program.up()

    done = program.run("wait").ended(8)

    assert "good: succeeded (exit code 0)" in done.out, done
    assert "bad: failed (exit code 3)" in done.out, done
    assert "migctl logs night/bad" in done.told, done
    assert "no such data" in program.run("logs", "bad").ended(0).out
    told = json.loads(program.run("wait", "--json").ended(8).out)
    assert told["errors"][0]["exit_code"] == 8
    program.up()
    assert {name: job["attempt"] for name, job in program.jobs().items()} == {"good": 1, "bad": 1}
    program.up("--retry")
    assert {name: job["attempt"] for name, job in program.jobs().items()} == {"good": 1, "bad": 2}


def test_wait_gives_up_in_time_and_the_jobs_go_on(program: Program) -> None:
    program.plan(SLEEPERS)
    program.up()

    done = program.run("wait", "--timeout", "0.5").ended(5)

    assert "one" in done.told, done
    assert all(alive(job["pid"]) for job in program.jobs().values())


def test_up_and_wait_in_one_command(program: Program) -> None:
    program.plan("name: night\nruntime: process\njobs: {a: {profile: 1g.5gb, command: [sh, -c, 'exit 4']}}\n")

    assert "exit code 4" in program.run("up", "--wait").ended(8).out


def test_run_starts_one_command_on_an_instance_of_its_own(program: Program) -> None:
    program.run(
        "run", "-p", "1g.5gb", "--name", "solo", "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES; sleep 600"
    ).ended(0)

    (job,) = program.jobs().values()
    until(lambda: program.log("solo", "solo") != "")
    assert program.run("logs").out == f"on {job['mig_uuid']}\n"
    assert program.run("exec", "solo", "--", "sh", "-c", "echo beside; exit 5").ended(5).out == "beside\n"
    program.run("down", "--timeout", "0").ended(0)
    assert program.instances() == []


def test_run_attached_gives_the_commands_exit_code_and_leaves_nothing(program: Program) -> None:
    done = program.run("run", "-i", "--", "sh", "-c", "echo working; exit 3").ended(3)

    assert done.out == "working\n"
    assert program.instances() == []
    assert program.json("status")["runs"] == []
    assert not list(program.claims.glob("*.json"))


def test_stop_ends_the_job_and_keeps_its_place(program: Program) -> None:
    program.plan(SLEEPERS)
    program.up()
    before = program.jobs()

    program.run("stop", "one").ended(0)

    after = program.jobs()
    assert {name: job["state"] for name, job in after.items()} == {"one": "stopped", "two": "running"}
    assert not alive(before["one"]["pid"])
    assert after["one"]["mig_uuid"] == before["one"]["mig_uuid"]
    assert len(program.instances()) == 2


def test_status_without_a_driver_still_shows_the_run(program: Program) -> None:
    program.plan(SLEEPERS)
    program.up()

    done = program.run("status", MIGCTL_NVML="").ended(0)

    assert "night" in done.out, done
    assert "one" in done.out, done
    assert "driver" in " ".join((done.out + done.err).split()), done


def test_another_gpu_source_never_loses_what_the_run_made(program: Program) -> None:
    program.plan(SLEEPERS)
    program.up()
    elsewhere = str(program.folder / "elsewhere.json")

    for words in (["down", "--timeout", "0"], ["up"], ["stop", "one"]):
        done = program.run(*words, MIGCTL_NVML="sim:h100-sxm5-80gb", MIGCTL_SIM_STATE=elsewhere)
        assert done.code not in (0, 1), done
        assert "sim:a100-40gb" in done.told, done

    assert len(program.instances()) == 2
    program.run("down", "--timeout", "0").ended(0)
    assert program.instances() == []


def test_somebody_elses_instance_is_never_touched(program: Program) -> None:
    program.plan(SLEEPERS)
    state = SimState.create(program.simulator, "a100-40gb")
    state.add_foreign_instance(0, "3g.20gb", 4)
    state.save(program.simulator)
    before = program.instances()

    program.up()
    assert len(program.instances()) == 3
    program.run("down", "--timeout", "0").ended(0)

    assert program.instances() == before


def test_two_ups_at_once_make_one_run(program: Program) -> None:
    program.plan(SLEEPERS)
    slow(program, create=0.2)

    both = [program.start("up", "--wait-for", "30") for _ in range(2)]
    ends = [(*process.communicate(timeout=60), process.returncode) for process in both]

    assert [code for *_, code in ends] == [0, 0], ends
    assert len(program.instances()) == 2
    assert {job["state"] for job in program.jobs().values()} == {"running"}


def test_a_second_up_without_patience_names_the_holder(program: Program) -> None:
    program.plan(SLEEPERS)
    slow(program, create=2.5)
    first = program.start("up")
    until(lambda: len(program.instances()) >= 1)

    done = program.run("up").ended(5)

    assert str(first.pid) in done.told, done
    out, err = first.communicate(timeout=60)
    assert first.returncode == 0, out + err
