"""The container runtime on a real Docker engine, judged from outside: `docker inspect`, /proc, the job's own environment."""

from __future__ import annotations

import os
import pty
import secrets
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.plan import Job, Port, Ulimit, Volume
from migctl.core.runs.record import JobState
from migctl.errors import Busy, HostError, Interrupted, MigctlError, PlanError
from migctl.runtimes.containers import Containers
from tests.support.engines import BUSYBOX, import_busybox, reachable_engine
from tests.support.launches import job, launch

pytestmark = pytest.mark.docker
ONE = CpuSet({max(os.sched_getaffinity(0))})
RUN = f"t{secrets.token_hex(4)}"
Create = Callable[..., str]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """The SDK's own client, to look from outside."""
    with reachable_engine() as found:
        yield found


@pytest.fixture
def containers(client: Any) -> Iterator[Containers]:
    runtime = Containers(dict(os.environ))
    yield runtime
    runtime.close()


@pytest.fixture
def create(client: Any, containers: Containers) -> Iterator[Create]:
    """Creates a container of a shell script or of any job; everything of this run is gone at the end."""

    def make(script: str | None = None, spec: Job | None = None, **changes: Any) -> str:
        spec = spec or job(command=("sh", "-c", script or "sleep 60"), image=BUSYBOX)
        image = containers.prepare([spec], simulated=True)[spec.name]
        values = {"run": RUN, "image_id": image, "cpus": ONE, "owner": os.getuid(), "environment": (("LR", "1e-4"),)}
        return containers.create(launch(spec, **(values | changes)))

    yield make
    for left in client.containers(all=True, filters={"label": f"io.migctl.run={RUN}"}):
        client.remove_container(left["Id"], force=True, v=True)


def run(containers: Containers, handle: str) -> str:
    """Runs it to its end and gives its output."""
    containers.start(handle)
    assert containers.wait(handle, 20) is not None
    return b"".join(containers.logs(handle, follow=False, tail=None)).decode()


def test_a_started_container_runs_on_exactly_its_cpus(containers: Containers, create: Create, client: Any) -> None:
    handle = create()
    unit = containers.start(handle)

    assert unit.state is JobState.RUNNING
    assert unit.pid == client.inspect_container(handle)["State"]["Pid"]
    status = Path(f"/proc/{unit.pid}/status").read_text()
    assert f"Cpus_allowed_list:\t{ONE}\n" in status
    assert unit.cpus == ONE


def test_a_container_on_other_cpus_than_its_label_is_killed_and_failed(
    containers: Containers, create: Create, client: Any
) -> None:
    handle = create(labels=(("io.migctl.cpus", "0-63"), ("io.migctl.owner", str(os.getuid()))))
    unit = containers.start(handle)

    assert unit.state is JobState.FAILED
    assert unit.reason is not None
    assert "not on its CPUs: wanted 0-63" in unit.reason
    assert client.inspect_container(handle)["State"]["Running"] is False


def test_the_container_is_what_the_plan_asked_for(
    containers: Containers, create: Create, client: Any, tmp_path: Path
) -> None:
    spec = job(
        image=BUSYBOX,
        entrypoint=("sh",),
        command=("-c", "sleep 60"),
        working_dir="/tmp",
        volumes=(
            Volume("/data", source=str(tmp_path), read_only=True),
            Volume("/scratch", kind="tmpfs"),
            Volume("/anonymous", kind="volume"),
        ),
        tmpfs=("/fast:size=16m",),
        group_add=("4242",),
        ulimits=(Ulimit("core", 0, 0),),
        extra_hosts=("store:10.0.0.7",),
        cap_add=("SYS_NICE",),
        security_opt=("no-new-privileges",),
        ipc="private",
        mem_limit_bytes=256 << 20,
        stop_grace_period_s=12.5,
        labels=(("team", "vision"),),
        network_mode="host",
    )
    data = client.inspect_container(create(spec=spec, user="1234:5678", shm_size_bytes=123 << 20, mems=CpuSet({0})))
    host, config = data["HostConfig"], data["Config"]

    assert (config["Entrypoint"], config["Cmd"], config["WorkingDir"]) == (["sh"], ["-c", "sleep 60"], "/tmp")
    assert (config["User"], config["StopTimeout"], config["StopSignal"]) == ("1234:5678", 13, "SIGTERM")
    assert config["Labels"]["team"] == "vision"
    assert config["Labels"]["io.migctl.run"] == RUN
    assert (host["CpusetCpus"], host["CpusetMems"], host["ShmSize"]) == (str(ONE), "0", 123 << 20)
    assert (host["Init"], host["AutoRemove"], host["OomScoreAdj"]) == (True, False, 500)
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-file": "4", "max-size": "50m"}}
    assert (host["NetworkMode"], host["IpcMode"], host["Memory"]) == ("host", "private", 256 << 20)
    assert (host["GroupAdd"], host["ExtraHosts"], host["CapAdd"]) == (["4242"], ["store:10.0.0.7"], ["SYS_NICE"])
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Tmpfs"] == {"/fast": "size=16m"}
    limits = {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in host["Ulimits"]}
    assert limits["core"] == (0, 0)
    assert limits["nofile"][0] > 1024
    mounts = {mount["Target"]: mount for mount in host["Mounts"]}
    assert mounts["/data"] == {"Type": "bind", "Source": str(tmp_path), "Target": "/data", "ReadOnly": True}
    assert mounts["/scratch"]["Type"] == "tmpfs"
    assert mounts["/anonymous"]["Type"] == "volume"


def test_ports_are_asked_for_as_written(create: Create, client: Any) -> None:
    spec = job(image=BUSYBOX, ports=(Port(80, 8080, host_ip="127.0.0.1"), Port(90, 0, "udp")), network_mode=None)
    data = client.inspect_container(create(spec=spec))

    assert data["HostConfig"]["PortBindings"] == {
        "80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}],
        "90/udp": [{"HostIp": "", "HostPort": ""}],
    }


def test_the_job_sees_its_environment_and_no_gpu_when_there_is_none(containers: Containers, create: Create) -> None:
    handle = create("env; grep Cpus_allowed_list /proc/self/status; df -m /dev/shm | tail -1", shm_size_bytes=99 << 20)
    lines = run(containers, handle).splitlines()

    assert "LR=1e-4" in lines
    assert "NVIDIA_VISIBLE_DEVICES=void" in lines
    assert f"Cpus_allowed_list:\t{ONE}" in lines
    assert not [line for line in lines if line.startswith("CUDA_VISIBLE_DEVICES")]
    assert lines[-1].split()[1] == "99"


def test_an_images_own_gpu_variables_are_neutralised(containers: Containers, create: Create, client: Any) -> None:
    image = "migctl-test-cuda:1"
    import_busybox(client, image, ["ENV CUDA_VISIBLE_DEVICES=3", "ENV NVIDIA_VISIBLE_DEVICES=all", "ENV KEPT=1"])
    output = run(containers, create(spec=job(image=image, command=("env",)))).splitlines()

    assert "KEPT=1" in output
    assert "NVIDIA_VISIBLE_DEVICES=void" in output
    assert not [line for line in output if line.startswith("CUDA_VISIBLE_DEVICES")]
    plain = client.inspect_container(create())["Config"]["Env"]
    assert not [line for line in plain if line.startswith("CUDA_VISIBLE_DEVICES")]


@pytest.mark.parametrize(
    ("script", "state", "code", "words"),
    [
        ("exit 0", JobState.SUCCEEDED, 0, None),
        ("exit 3", JobState.FAILED, 3, "exit code 3"),
        ("kill -9 $$", JobState.FAILED, 137, "ended by SIGKILL (exit code 137)"),
    ],
)
def test_the_exit_is_reported(
    containers: Containers, create: Create, script: str, state: JobState, code: int, words: str | None
) -> None:
    handle = create(script)
    containers.start(handle)
    unit = containers.wait(handle, 20)

    assert unit is not None
    assert (unit.state, unit.exit_code, unit.reason) == (state, code, words)
    assert unit.started_at is not None
    assert unit.finished_at is not None
    assert abs(unit.finished_at - time.time()) < 20


def test_a_job_killed_for_memory_says_so(containers: Containers, create: Create) -> None:
    spec = job(image=BUSYBOX, command=("sh", "-c", "tail /dev/zero"), mem_limit_bytes=16 << 20)
    handle = create(spec=spec)
    containers.start(handle)
    unit = containers.wait(handle, 30)

    assert unit is not None
    assert unit.state is JobState.FAILED
    assert unit.reason is not None
    assert "out of memory" in unit.reason


def test_units_are_found_by_run_and_owner_in_every_state(containers: Containers, create: Create) -> None:
    ended, running, made = create("exit 4"), create(), create()
    containers.start(running)
    run(containers, ended)
    create(owner=os.getuid() + 1)

    other = Containers(dict(os.environ))
    units = {unit.handle: unit for unit in other.units(RUN)}
    other.close()

    assert {h: u.state for h, u in units.items()} == {
        ended: JobState.FAILED,
        running: JobState.RUNNING,
        made: JobState.STARTING,
    }
    assert units[running].pid_start is not None
    assert {unit.handle for unit in containers.units(None)} >= set(units)
    assert containers.units("no-such-run") == []


def test_strangers_containers_are_seen_with_their_cpus_and_never_touched(
    containers: Containers, create: Create, client: Any
) -> None:
    containers.start(create())
    spec = {
        "Image": BUSYBOX,
        "Cmd": ["sleep", "60"],
        "HostConfig": {"CpusetCpus": "0", "NetworkMode": "none", "Init": True},
    }
    stranger = client.create_container_from_config(spec, f"stranger-{RUN}")["Id"]
    try:
        client.start(stranger)
        seen = {foreign.name: foreign.cpus for foreign in containers.foreign()}
        assert seen[f"stranger-{RUN}"] == CpuSet({0})
        assert not [name for name in seen if name.startswith("migctl-")]
        for touch in (
            lambda: containers.stop(stranger, 0),
            lambda: containers.remove(stranger),
            lambda: containers.exec(stranger, ["true"], tty=False),
            lambda: containers.start(stranger),
            lambda: containers.wait(stranger),
        ):
            with pytest.raises(HostError) as error:
                touch()
            assert error.value.id == "not-ours"
        assert client.inspect_container(stranger)["State"]["Running"]
    finally:
        client.remove_container(stranger, force=True)


def test_sigterm_reaches_the_main_process_only(containers: Containers, create: Create) -> None:
    handle = create(
        """
        (trap 'echo worker got it; exit' TERM; while :; do sleep 0.05; done) &
        trap 'echo main got it; sleep 0.3; exit 0' TERM
        echo ready
        while :; do sleep 0.05; done
        """
    )
    containers.start(handle)
    time.sleep(0.3)
    containers.stop(handle, 10)

    assert b"".join(containers.logs(handle, follow=False, tail=None)) == b"ready\nmain got it\n"


def test_what_ignores_sigterm_is_killed_after_the_grace(containers: Containers, create: Create, client: Any) -> None:
    handle = create("trap '' TERM; while :; do sleep 0.05; done")
    containers.start(handle)
    begin = time.monotonic()
    containers.stop(handle, 1)

    assert 0.9 <= time.monotonic() - begin < 8
    assert client.inspect_container(handle)["State"]["ExitCode"] == 137
    containers.stop(handle, 1)


def test_a_second_ctrl_c_skips_the_rest_of_the_grace(containers: Containers, create: Create) -> None:
    handle = create("trap '' TERM; while :; do sleep 0.05; done")
    containers.start(handle)
    hurry = threading.Event()
    threading.Timer(0.2, hurry.set).start()
    begin = time.monotonic()
    containers.stop(handle, 60, hurry=hurry)

    assert time.monotonic() - begin < 8


def test_waiting_ends_with_the_job_or_with_the_patience(containers: Containers, create: Create) -> None:
    handle = create("sleep 1.5; exit 6")
    containers.start(handle)

    assert containers.wait(handle, 0.3) is None
    unit = containers.wait(handle)
    assert unit is not None
    assert unit.exit_code == 6


def test_logs_keep_bytes_tail_time_and_order(containers: Containers, create: Create, tmp_path: Path) -> None:
    handle = create(r"printf 'a\rb\303\251\n'; sleep 0.1; echo err >&2; sleep 0.1; echo last")
    containers.start(handle)
    followed = b"".join(containers.logs(handle, follow=True, tail=None))

    assert followed == b"a\rb\xc3\xa9\nerr\nlast\n"
    assert b"".join(containers.logs(handle, follow=False, tail=1)) == b"last\n"
    stamped = b"".join(containers.logs(handle, follow=False, tail=1, timestamps=True))
    assert stamped.startswith(b"20")
    assert stamped.endswith(b"Z last\n")
    assert b"".join(containers.logs(handle, follow=False, tail=None, since=time.time() + 60)) == b""
    containers.save_log(handle, str(tmp_path / "log"))
    containers.remove(handle)
    assert (tmp_path / "log").read_bytes() == followed
    containers.save_log(handle, str(tmp_path / "log"))
    assert (tmp_path / "log").read_bytes() == followed
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_removal_takes_anonymous_volumes_along_and_refuses_what_runs(
    containers: Containers, create: Create, client: Any
) -> None:
    handle = create(spec=job(image=BUSYBOX, volumes=(Volume("/v", kind="volume"),)))
    containers.start(handle)
    volume = client.inspect_container(handle)["Mounts"][0]["Name"]
    with pytest.raises(Busy) as error:
        containers.remove(handle)
    assert error.value.id == "still-running"

    containers.stop(handle, 0)
    containers.remove(handle)
    containers.remove(handle)

    assert volume not in [v["Name"] for v in client.volumes()["Volumes"] or []]
    assert containers.units(RUN) == []


def test_our_dead_container_of_the_same_attempt_gives_its_name_up(
    containers: Containers, create: Create, client: Any
) -> None:
    first = create(token="feedface00", name=f"migctl-{RUN}-same")
    second = create(token="feedface00", name=f"migctl-{RUN}-same")

    assert first != second
    containers.start(second)
    with pytest.raises(Busy) as error:
        create(token="feedface00", name=f"migctl-{RUN}-same")
    assert error.value.id == "name-taken"
    assert client.inspect_container(second)["State"]["Running"]


def test_a_strangers_name_is_never_taken(create: Create, client: Any) -> None:
    name = f"taken-{RUN}"
    stranger = client.create_container_from_config({"Image": BUSYBOX, "Cmd": ["true"]}, name)["Id"]
    try:
        with pytest.raises(Busy) as error:
            create(name=name)
        assert error.value.id == "name-taken"
        assert client.inspect_container(stranger)["Name"] == f"/{name}"
    finally:
        client.remove_container(stranger)


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], type[MigctlError], str]] = [
    ("a CPU that is not there", {}, {"cpus": CpuSet({0, 999})}, HostError, "cpuset-beyond-machine"),
    ("a memory node that is not there", {}, {"mems": CpuSet({77})}, HostError, "cpuset-beyond-machine"),
    ("a user the image does not know", {}, {"user": "nobody-here"}, PlanError, "no-user"),
    ("an image that is gone", {}, {"image_id": "sha256:" + "0" * 64}, HostError, "image-missing"),
]


@pytest.mark.parametrize(("case", "spec", "changes", "kind", "name"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_the_engine_refuses_is_said_in_our_words(
    containers: Containers,
    create: Create,
    case: str,
    spec: dict[str, Any],
    changes: dict[str, Any],
    kind: type[MigctlError],
    name: str,
) -> None:
    with pytest.raises(kind) as error:
        containers.start(create(spec=job(image=BUSYBOX, **spec), **changes))

    assert error.value.id == name


def test_everything_is_checked_before_anything_is_created(containers: Containers, client: Any) -> None:
    jobs = [
        job(name="missing", image="registry.invalid/none:1", pull_policy="never"),
        job(name="bind", image=BUSYBOX, volumes=(Volume("/x", source="/no/such/folder"),)),
        job(name="nothing", image=None),
    ]
    with pytest.raises(MigctlError) as error:
        containers.prepare(jobs, simulated=True)

    assert {e.id for e in error.value.all} == {"image-missing", "no-bind-source", "no-image"}
    assert client.containers(all=True, filters={"label": f"io.migctl.run={RUN}"}) == []


def test_a_failed_pull_names_the_credentials_file(containers: Containers) -> None:
    with pytest.raises(HostError) as error:
        containers.prepare([job(image="127.0.0.1:9/none:1")], simulated=True)

    assert error.value.id == "image-pull-failed"
    assert "config.json" in error.value.message


def test_a_signal_ends_a_pull_from_a_registry_that_does_not_answer(containers: Containers) -> None:
    cancel = threading.Event()
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        spec = job(image=f"127.0.0.1:{silent.getsockname()[1]}/none:1")
        threading.Timer(0.3, cancel.set).start()
        with pytest.raises(Interrupted):
            containers.prepare([spec], simulated=True, cancel=cancel)

    assert time.monotonic() - began < 15


def test_a_real_gpu_without_any_way_into_a_container_is_refused_first(containers: Containers) -> None:
    with pytest.raises(HostError) as error:
        containers.prepare([job(image=BUSYBOX)], simulated=False)

    assert error.value.id == "no-gpu-access"


def test_facts_name_the_engine_its_address_and_its_cpus(containers: Containers, client: Any) -> None:
    facts = containers.facts()

    assert facts.name == f"docker {client.version()['Version'].partition('+')[0]}"
    assert facts.endpoint == os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    assert facts.local
    assert facts.cpus is not None
    assert facts.cpus >= ONE
    assert facts.gpu_access.startswith("none: ")


@pytest.mark.parametrize("words", [["sh", "-c", "echo out; echo err >&2; cat; exit 7"]])
def test_exec_joins_the_streams_and_the_exit_code(
    containers: Containers, create: Create, words: list[str], tmp_path: Path
) -> None:
    handle = create()
    containers.start(handle)
    names = ("in", "out", "err")
    (tmp_path / "in").write_bytes(b"typed\n" * 20_000)
    code = in_child(
        f"""
        import os, sys
        from migctl.runtimes.containers import Containers
        sys.exit(Containers(dict(os.environ)).exec({handle!r}, {words!r}, tty=False))
        """,
        *(tmp_path / name for name in names),
    )

    assert code == 7
    assert (tmp_path / "out").read_bytes() == b"out\n" + b"typed\n" * 20_000
    assert (tmp_path / "err").read_bytes() == b"err\n"


def in_child(code: str, stdin: Path, stdout: Path, stderr: Path) -> int:
    with stdin.open("rb") as i, stdout.open("wb") as o, stderr.open("wb") as e:
        root = Path(__file__).parents[2]
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], stdin=i, stdout=o, stderr=e, cwd=root, timeout=60
        ).returncode


def test_exec_on_a_terminal_is_a_terminal_of_the_same_size(containers: Containers, create: Create) -> None:
    handle = create()
    containers.start(handle)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(Path(__file__).parents[2])
        code = f"""
import os, sys
from migctl.runtimes.containers import Containers
sys.exit(Containers(dict(os.environ)).exec({handle!r}, ["sh", "-c", "sleep 0.5; tty; stty size; read x; echo got $x"], tty=True))
"""
        os.environ["COLUMNS"], os.environ["LINES"] = "101", "37"
        os.execv(sys.executable, [sys.executable, "-W", "ignore", "-c", code])
    output = b""
    os.write(terminal, b"hello\n")  # typed before the terminal is raw: it must not get lost
    while True:
        try:
            piece = os.read(terminal, 1000)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(terminal)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0, output
    assert b"/dev/pts/" in output
    assert b"37 101" in output
    assert b"got hello" in output


def test_seven_containers_come_up_side_by_side(containers: Containers, create: Create) -> None:
    handles: list[str] = []
    threads = [threading.Thread(target=lambda: handles.append(create())) for _ in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    units: list[Any] = []
    threads = [threading.Thread(target=lambda h=h: units.append(containers.start(h))) for h in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [unit.state for unit in units] == [JobState.RUNNING] * 7
    assert len(containers.units(RUN)) == 7
