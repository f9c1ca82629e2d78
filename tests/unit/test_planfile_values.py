"""What a plan's text becomes: values, merging, expansion, interpolation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from migctl import planfile
from migctl.core.choices import CpuShare, CpuSplit, Numa, RuntimeName, Storage, Strategy
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.plan import (
    Auto,
    ByInstance,
    ByMemory,
    ByProfile,
    BySlices,
    GpuSelector,
    Job,
    Plan,
    Port,
    Ulimit,
    Volume,
)
from migctl.errors import Problems, Where

PLANS = Path(__file__).parents[1] / "data" / "plans"


def plan(
    text: str, folder: Path = Path("/nowhere"), environ: dict[str, str] | None = None, **more: planfile.Value
) -> Plan:
    return planfile.loads(text, "plan.yaml", folder, environ or {}, **more)


def job(text: str, folder: Path = Path("/nowhere"), environ: dict[str, str] | None = None) -> Job:
    (one,) = plan(f"jobs:\n  a:\n    image: i\n    {text}\n", folder, environ).jobs
    return one


VALUES = (
    ("profile: 2g.10gb", "request", ByProfile("2g.10gb")),
    ("instance: MIG-8ff2e3a4-11b0-5d63-9a31-0c55e1d1a0b2", "request", ByInstance("MIG-8ff2e3a4-11b0-5d63-9a31-0c55e1d1a0b2")),
    ("instance: MIG-GPU-8ff2e3a4/1/0", "request", ByInstance("MIG-GPU-8ff2e3a4/1/0")),
    ("profile: 1G.10GB", "request", ByProfile("1g.10gb")),
    ("profile: MIG 1g.5gb", "request", ByProfile("1g.5gb")),
    ("profile: 3c.3g.20gb", "request", ByProfile("3g.20gb")),
    ("profile: 1g.5gb+me", "request", ByProfile("1g.5gb+me")),
    ("profile: 1g.5gb.me", "request", ByProfile("1g.5gb+me")),
    ("profile: 1g.24gb-me", "request", ByProfile("1g.24gb-me")),
    ("profile: 1g.24gb+me.all", "request", ByProfile("1g.24gb+me.all")),
    ("memory: 10GiB", "request", ByMemory(10240)),
    ("memory: 1.5gb", "request", ByMemory(1536)),
    ("memory: 10GiB", "memory_mib", 10240),
    ("slices: 2", "request", BySlices(2)),
    ("profile:", "request", Auto()),
    ("cpus: 2", "cpus", 2),
    ("cpus: 2.0", "cpus", 2),
    ("cpuset: 4", "cpuset", CpuSet([4])),
    ("cpuset: 0-3,8", "cpuset", CpuSet([0, 1, 2, 3, 8])),
    ("cpuset: [0, 1, 4-5]", "cpuset", CpuSet([0, 1, 4, 5])),
    ("num_workers: auto", "num_workers", None),
    ("num_workers: 0", "num_workers", 0),
    ("gpu: 0", "gpus", (GpuSelector(index=0),)),
    ("gpu: GPU-8ff2e3a4", "gpus", (GpuSelector(uuid="GPU-8ff2e3a4"),)),
    ("gpu: 3B:00.0", "gpus", (GpuSelector(pci="0000:3b:00.0"),)),
    ("gpu: 00000000:3B:00.0", "gpus", (GpuSelector(pci="0000:3b:00.0"),)),
    ("gpu: {model: A100}", "gpus", (GpuSelector(model="A100"),)),
    ("gpu: all", "gpus", (GpuSelector(all=True),)),
    ("gpu: [0, {model: H100}]", "gpus", (GpuSelector(index=0), GpuSelector(model="H100"))),
    ("storage: nvme", "storage", Storage.NVME),
    ("storage: auto", "storage", Storage.AUTO),
    ("shm_size: 8g", "shm_size_bytes", 8 << 30),
    ("shm_size: 67108864", "shm_size_bytes", 64 << 20),
    ("mem_limit: auto", "mem_limit_auto", True),
    ("mem_limit: 512m", "mem_limit_bytes", 512 << 20),
    ("stop_grace_period: 1m30s", "stop_grace_period_s", 90.0),
    ("stop_grace_period: 500ms", "stop_grace_period_s", 0.5),
    ("stop_grace_period: 0", "stop_grace_period_s", 0.0),
    ("stop_grace_period:", "stop_grace_period_s", 60.0),
    ("batch_fixed_memory:", "batch_fixed_memory_mib", 1536),
    ("pull_policy: if_not_present", "pull_policy", "missing"),
    ("command: python 'train me.py' --x", "command", ("python", "train me.py", "--x")),
    ("command: [python, 1, 0.10, on, ~, 'a b']", "command", ("python", "1", "0.10", "on", "~", "a b")),
    ("command: ''", "command", ()),
    ("command:", "command", None),
    ("entrypoint: [a]", "entrypoint", ("a",)),
    ("user: 1000", "user", "1000"),
    ("user: 1000:1000", "user", "1000:1000"),
    ("user: image", "user", "image"),
    ("group_add: [video, 44]", "group_add", ("video", "44")),
    ("tmpfs: /run", "tmpfs", ("/run",)),
    ("tmpfs: [/run:size=1g]", "tmpfs", ("/run:size=1g",)),
    ("labels: {a: 1.10, b: }", "labels", (("a", "1.10"), ("b", ""))),
    ("labels: [a=b, c]", "labels", (("a", "b"), ("c", ""))),
    ("extra_hosts: ['a:1.2.3.4', 'b=::1']", "extra_hosts", ("a:1.2.3.4", "b:::1")),
    ("extra_hosts: {a: 1.2.3.4}", "extra_hosts", ("a:1.2.3.4",)),
    ("ulimits: {nofile: 1024}", "ulimits", (Ulimit("nofile", 1024, 1024),)),
    ("ulimits: {memlock: {soft: -1, hard: -1}}", "ulimits", (Ulimit("memlock", -1, -1),)),
    ("ports: [80]", "ports", (Port(80, 0),)),
    ("ports: ['127.0.0.1:8080:80/udp']", "ports", (Port(80, 8080, "udp", "127.0.0.1"),)),
    ("ports: ['[::1]:8080:80']", "ports", (Port(80, 8080, "tcp", "::1"),)),
    ("ports: [{target: 80, published: 8080}]", "ports", (Port(80, 8080),)),
    ("privileged: false", "cap_add", ()),
    ("restart: no", "cap_add", ()),
    ("x-note: anything", "cap_add", ()),
)  # fmt: skip


@pytest.mark.parametrize(("text", "field", "value"), VALUES, ids=lambda value: repr(value)[:40])
def test_a_jobs_key_means(text: str, field: str, value: object) -> None:
    assert getattr(job(text), field) == value


def test_the_plans_keys_mean() -> None:
    text = (
        "name: lr-sweep\ngpu: [0, 1]\nstrategy: mig\nruntime: docker\nengine: local\nenable_mig: true\nreserve_cores: 2\n"
        "cpu_share: all\ncpu_split: equal\nnuma: strict\noversubscribe: true\nallow_overlap: [db]\nthreads_per_core: 2\n"
        "max_parallel: 3\nfail_fast: false\nstagger: 0s\non_finish: keep\non_reboot: hold\nnotify:\njobs: {a: {image: i}}\n"
    )

    made = plan(text, Path("/srv/x"))

    assert made == Plan(
        name="lr-sweep",
        path="",
        folder="/srv/x",
        jobs=made.jobs,
        gpus=(GpuSelector(index=0), GpuSelector(index=1)),
        strategy=Strategy.MIG,
        runtime=RuntimeName.DOCKER,
        enable_mig=True,
        reserve_cores=2,
        cpu_share=CpuShare.ALL,
        cpu_split=CpuSplit.EQUAL,
        numa=Numa.STRICT,
        oversubscribe=True,
        allow_overlap=("db",),
        threads_per_core=2,
        max_parallel=3,
    )
    assert made.jobs == (Job(name="a", origin="a", image="i", where=made.jobs[0].where),)
    assert made.jobs[0].where == Where("plan.yaml", 20, 8, "jobs: {a: {image: i}}")


def test_environment_values_keep_their_spelling() -> None:
    (first, second) = planfile.load(PLANS / "traps.yaml", {}).jobs

    assert first.name == "no"
    assert first.environment == (
        ("LR", "1e-4"), ("SEED", "08"), ("T", "22:22"), ("D", "2026-11-30"), ("AMP", "on"), ("WD", "0.10"), ("N", "1_0"),
        ("E", "3e-05"), ("F", ""), ("G", "0x10"), ("H", "yes"),
    )  # fmt: skip
    assert first.command == ("train", "--amp", "on", "--lr", "1e-4", "--wd", "0.10", "--seed", "08")
    assert first.labels == (("version", "1.10"), ("day", "2026-11-30"))
    assert first.image == "train:1.10"
    assert (second.cpuset, second.user, second.ports) == (CpuSet([4]), "1000", (Port(22, 22),))


def test_a_sweep_is_expanded_in_the_files_order_and_spelling() -> None:
    made = planfile.load(PLANS / "sweep.yaml", {})

    assert (made.name, made.path, made.folder) == ("lr-sweep", str(PLANS / "sweep.yaml"), str(PLANS))
    assert [one.name for one in made.jobs] == [
        "baseline", "sweep-lr0.1-seed1", "sweep-lr0.1-seed2", "sweep-lr0.01-seed1", "sweep-lr0.01-seed2", "plain-1", "plain-2",
    ]  # fmt: skip
    baseline, sweep, plain = made.jobs[0], made.jobs[4], made.jobs[5]
    assert baseline.command == ("python", "train.py", "--workers", "${MIGCTL_NUM_WORKERS}")
    assert baseline.environment == (("WANDB_MODE", "offline"), ("LR", "1e-4"))
    assert sweep.command == ("python", "train.py", "--lr", "0.01", "--seed", "2")
    assert sweep.origin == "sweep"
    assert sweep.volumes == (Volume("/workspace", str(PLANS)), Volume("/scratch", "/tmp", read_only=True))
    assert (sweep.shm_size_bytes, sweep.stop_grace_period_s) == (2 << 30, 90.0)
    assert (plain.shm_size_bytes, plain.request) == (None, ByMemory(10240))
    assert made.notices == ()


def test_a_job_replaces_the_defaults_size_and_cpus_by_its_own() -> None:
    text = "defaults: {image: i, profile: 1g.5gb, cpus: 2}\njobs: {a: {memory: 10g, cpuset: 0-3}, b: {}}"

    a, b = plan(text).jobs

    assert (a.request, a.cpus, a.cpuset) == (ByMemory(10240), None, CpuSet(range(4)))
    assert (b.request, b.cpus, b.cpuset) == (ByProfile("1g.5gb"), 2, None)


def test_lists_of_a_job_follow_the_defaults_and_a_volume_replaces_one_of_the_same_target(
    tmp_path: Path,
) -> None:
    (tmp_path / "own").mkdir()
    text = (
        "defaults: {image: i, volumes: ['.:/w', '/tmp:/t'], cap_add: [A], command: [x]}\n"
        "jobs: {a: {volumes: ['./own:/w', named:/n], cap_add: [B], command: [y]}}"
    )

    (a,) = plan(text, tmp_path).jobs

    assert a.volumes == (
        Volume("/w", str(tmp_path / "own")),
        Volume("/t", "/tmp"),
        Volume("/n", "named", "volume"),
    )
    assert (a.cap_add, a.command) == (("A", "B"), ("y",))


def test_volumes_have_short_and_long_forms(tmp_path: Path) -> None:
    text = (
        "volumes: ['.:/a:ro', '~:/b', name:/c, /anon, {type: bind, source: ., target: /d, read_only: true}, "
        "{type: volume, source: v, target: /e}, {type: tmpfs, target: /f}, './:/g/']"
    )

    made = job(text, tmp_path, {"HOME": str(tmp_path)})

    here = str(tmp_path)
    assert made.volumes == (
        Volume("/a", here, read_only=True), Volume("/b", here), Volume("/c", "name", "volume"), Volume("/anon", None, "volume"),
        Volume("/d", here, read_only=True), Volume("/e", "v", "volume"), Volume("/f", None, "tmpfs"), Volume("/g", here),
    )  # fmt: skip


INTERPOLATED = (
    ("${A}", "1"),
    ("${A}${B}", "1two words"),
    ("${NONE:-x}", "x"),
    ("${EMPTY:-x}", "x"),
    ("${EMPTY-x}", ""),
    ("${NONE-x}", "x"),
    ("${NONE:-${ALSO:-${A}}}", "1"),
    ("${A:?message}", "1"),
    ("${A:+yes}", "yes"),
    ("${NONE:+yes}", ""),
    ("$A $HOME", "$A $HOME"),
    ("$$A $${A}", "$A ${A}"),
    ("$", "$"),
    ("cost: 5$", "cost: 5$"),
    ("${FILE}", "from .env"),
    ("${BOTH}", "from the environment"),
    ("${MIGCTL_JOB}-${MIGCTL_RUN:-x}", "${MIGCTL_JOB}-${MIGCTL_RUN:-x}"),
)


@pytest.mark.parametrize(("text", "value"), INTERPOLATED)
def test_interpolation(text: str, value: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FILE='from .env'\nBOTH=file\n")
    environ = {"A": "1", "B": "two words", "EMPTY": "", "BOTH": "from the environment"}

    made = job(f"command: ['{text}']\n    environment: {{X: '{text}'}}", tmp_path, environ)

    assert made.command == (value,)
    assert made.environment == (("X", value),)


def test_a_number_can_come_from_interpolation_and_text_may_look_like_one() -> None:
    made = job("cpus: ${N}\n    working_dir: /${N}\n    labels: {v: '${V}'}", environ={"N": "2", "V": "1.10"})

    assert (made.cpus, made.working_dir, made.labels) == (2, "/2", (("v", "1.10"),))
    assert plan("jobs: {a: {image: '${I}'}}", environ={"I": "1.10"}).jobs[0].image == "1.10"


def test_the_default_of_a_start_value_is_kept_for_the_start() -> None:
    assert job("command: x ${MIGCTL_BATCH_SIZE:-${B:-32}}").command == ("x", "${MIGCTL_BATCH_SIZE:-32}")


def test_a_matrix_reaches_every_key_and_may_itself_be_interpolated() -> None:
    text = (
        "defaults: {image: 'i:${matrix.tag}'}\njobs:\n  a:\n    matrix: {tag: [1.10, '${T}'], cores: [2]}\n"
        "    cpus: ${matrix.cores}\n    environment: {'TAG': '${matrix.tag}'}\n"
    )

    made = plan(text, environ={"T": "2.0"})

    assert [(one.name, one.image, one.cpus, one.environment) for one in made.jobs] == [
        ("a-tag1.10-cores2", "i:1.10", 2, (("TAG", "1.10"),)),
        ("a-tag2.0-cores2", "i:2.0", 2, (("TAG", "2.0"),)),
    ]


def test_environment_takes_empty_values_from_the_caller_and_files_before_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text(
        "export A=file # comment\nB='raw ${X}'\nC=\"line\\nbreak ${X}\"\nD=x#y\nE\n\n# comment\nF=\nA=later\n"
    )
    text = "env_file: [a.env, {path: none.env, required: false}]\n    environment: {B: , G: own, H: }"

    made = job(text, tmp_path, {"X": "1", "B": "caller", "E": "passed"})

    assert made.environment == (
        ("A", "later"), ("B", "caller"), ("C", "line\nbreak 1"), ("D", "x#y"), ("E", "passed"), ("F", ""), ("G", "own"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "kind", "column", "shown"),
    [
        ("=x", "bad-env-line", 1, "**"),
        ("A='x", "bad-env-line", 3, "A=**"),
        ("A B", "bad-env-line", 1, "***"),
        ("A=${NONE}", "unknown-variable", 3, "A=*******"),
    ],
)
def test_a_mistake_in_an_env_file_is_told_with_its_place_and_without_values(
    tmp_path: Path, line: str, kind: str, column: int, shown: str
) -> None:
    (tmp_path / ".env").write_text(f"OK=1\n{line}\n")

    with pytest.raises(Problems) as caught:
        job("cpus: 1", tmp_path)

    (error,) = caught.value.all
    assert (error.id, error.where) == (kind, Where(".env", 2, column, shown))


def test_merge_keys_fill_what_is_not_there_and_earlier_ones_win() -> None:
    text = "x-a: &a {image: a, cpus: 1}\nx-b: &b {image: b, slices: 2}\njobs: {one: {<<: [*a, *b], cpus: 3}, two: *b}"

    one, two = plan(text).jobs

    assert (one.image, one.cpus, one.request) == ("a", 3, BySlices(2))
    assert (two.image, two.cpus, two.request) == ("b", None, BySlices(2))


NOTICES = (
    ("docker", "profile: 1g.5gb.me", "label-form", "1g.5gb+me"),
    ("docker", "command: python t.py && echo done", "no-shell", "&&"),
    ("docker", "command: torchrun --nproc_per_node=2 t.py", "several-ranks", "2 processes"),
    ("docker", "command: [python, -m, torch.distributed.run, --nproc-per-node, '4', t.py]", "several-ranks", "4 processes"),
    ("docker", "environment: {WORLD_SIZE: 2}", "several-ranks", "WORLD_SIZE=2"),
    ("docker", "ipc: host", "ipc-host", "ipc: host"),
    ("docker", "matrix: {lr: [1]}", "matrix-unused", "${matrix.lr}"),
    ("docker", "environment: {NOT_THERE: }", "variable-not-set", "NOT_THERE"),
    ("process", "command: [x]\n    shm_size: 1g\n    volumes: ['./none:/x']\n    ipc: host", "container-only-keys",
     "image, volumes, shm_size, ipc"),
)  # fmt: skip


@pytest.mark.parametrize(("runtime", "text", "kind", "message"), NOTICES)
def test_what_a_user_should_know_is_noticed_once(runtime: str, text: str, kind: str, message: str) -> None:
    made = plan(f"jobs:\n  a:\n    image: i\n    replicas: 2\n    {text}\n", runtime=runtime)

    (notice,) = made.notices
    assert notice.id == kind
    assert message in notice.message
    assert isinstance(notice.where, Where)
    assert notice.hint


@pytest.mark.parametrize(
    "text",
    [
        "command: [sh, -c, 'a && b']",
        "command: torchrun --nproc_per_node=1 t.py",
        "command: python t.py --nproc_per_node=2",
        "environment: {WORLD_SIZE: 1}",
    ],
)
def test_nothing_is_noticed_where_nothing_is_wrong(text: str) -> None:
    assert plan(f"jobs: {{a: {{image: i, {text}}}}}").notices == ()


def test_a_process_starts_in_a_folder_that_exists_and_joins_entry_point_and_command(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    text = "runtime: process\njobs: {a: {entrypoint: [python, -u], command: t.py --x, working_dir: work}}"

    (a,) = plan(text, tmp_path).jobs

    assert (a.command, a.entrypoint, a.working_dir) == (
        ("python", "-u", "t.py", "--x"),
        None,
        str(tmp_path / "work"),
    )
    with pytest.raises(Problems) as caught:
        plan(text.replace("work}", "none}"), tmp_path)
    assert caught.value.id == "missing-source"


NAMES = (
    ("lr.yaml", "lr"),
    ("my sweep.yml", "my-sweep"),
    ("plan.yaml", "folder"),
    ("migctl.yaml", "folder"),
    ("plan.yml", "folder"),
    ("훈련.yaml", "plan"),
)


@pytest.mark.parametrize(("file", "name"), NAMES)
def test_a_plan_without_name_is_named_after_its_file_or_folder(tmp_path: Path, file: str, name: str) -> None:
    path = tmp_path / "folder" / file
    path.parent.mkdir()
    path.write_text("jobs: {a: {image: i}}")

    assert planfile.load(path, {}).name == name


def test_the_standard_names_are_found_and_named_where_missing(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"neither plan\.yaml nor migctl\.yaml in ") as caught:
        planfile.find(tmp_path)
    assert caught.value.exit_code == 2  # type: ignore[attr-defined]  # a PlanError

    (tmp_path / "migctl.yaml").touch()
    assert planfile.find(tmp_path) == tmp_path / "migctl.yaml"
    (tmp_path / "plan.yaml").touch()
    assert planfile.find(tmp_path) == tmp_path / "plan.yaml"


def test_files_that_cannot_be_read_are_plan_errors(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"name: x\n# caf\xe9\n")
    (tmp_path / "large").write_bytes(b"#" * (1 << 20) + b"\n")
    found = []
    for name in ("none", ".", "latin", "large"):
        with pytest.raises(Problems) as caught:
            planfile.load(tmp_path / name, {})
        found.append((caught.value.id, caught.value.exit_code))

    assert found == [("file-not-found", 2), ("file-not-found", 2), ("not-utf8", 2), ("file-too-large", 2)]


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    text = "name: x\njobs:\n  a:\n    image: i\n    cpus: bad\n"

    with pytest.raises(Problems) as plain:
        plan(text)
    with pytest.raises(Problems) as windows:
        plan("\ufeff" + text.replace("\n", "\r\n"))

    assert plain.value.where == windows.value.where == Where("plan.yaml", 5, 11, "    cpus: bad")


def test_the_command_line_replaces_keys_of_the_plan() -> None:
    text = "runtime: docker\nstrategy: mig\njobs: {a: {command: x}}"

    made = plan(text, runtime="process", strategy=None)

    assert (made.runtime, made.strategy) == (RuntimeName.PROCESS, Strategy.MIG)


def test_one_job_from_the_command_line_goes_through_the_same_models(tmp_path: Path) -> None:
    made = planfile.one_job(
        folder=tmp_path,
        environ={},
        plan={"runtime": "process", "gpu": "0"},
        profile="1g.5gb",
        cpus="2",
        command=["python", "train.py", "${HOME}", "--workers=${MIGCTL_NUM_WORKERS}"],
        environment={"LR": "1e-4"},
    )

    assert (made.name, made.path, made.folder) == ("train", "", str(tmp_path))
    assert (made.runtime, made.gpus) == (RuntimeName.PROCESS, (GpuSelector(index=0),))
    assert made.jobs == (
        Job(
            name="train",
            origin="train",
            request=ByProfile("1g.5gb"),
            cpus=2,
            command=("python", "train.py", "${HOME}", "--workers=${MIGCTL_NUM_WORKERS}"),
            environment=(("LR", "1e-4"),),
        ),
    )


def test_mistakes_of_the_command_line_have_no_place(tmp_path: Path) -> None:
    with pytest.raises(Problems) as caught:
        planfile.one_job(folder=tmp_path, environ={}, name="a b", profile="19", cpus="x", command=["t"])

    assert {(error.id, error.where) for error in caught.value.all} == {
        ("bad-name", None), ("bad-profile", None), ("bad-value", None), ("image-missing", None),
    }  # fmt: skip


def test_a_start_value_of_the_command_line_must_exist(tmp_path: Path) -> None:
    with pytest.raises(Problems) as caught:
        planfile.one_job(folder=tmp_path, environ={}, image="i", command=["t", "--w=${MIGCTL_WORKERS}"])

    (error,) = caught.value.all
    assert (error.id, error.hint) == ("unknown-variable", "did you mean MIGCTL_NUM_WORKERS?")


def test_relative_paths_start_at_the_plans_folder_wherever_the_caller_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "data").mkdir(parents=True)
    (tmp_path / "here" / "p.yaml").write_text("jobs: {a: {image: i, volumes: ['./data:/d']}}")
    monkeypatch.chdir(tmp_path)

    made = planfile.load(Path("here/p.yaml"), dict(os.environ))

    assert (made.path, made.folder) == (str(tmp_path / "here/p.yaml"), str(tmp_path / "here"))
    assert made.jobs[0].volumes == (Volume("/d", str(tmp_path / "here/data")),)
    assert made.jobs[0].where == Where("here/p.yaml", 1, 8, "jobs: {a: {image: i, volumes: ['./data:/d']}}")
