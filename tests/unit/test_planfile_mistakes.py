"""One mistake, one error: its kind, its place, its words, its hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from migctl import planfile
from migctl.errors import PlanError, Problems, Where
from migctl.planfile.nodes import compose
from migctl.planfile.problems import Report
from migctl.planfile.source import checked

JOB = "jobs:\n  a:\n    image: i\n    "

# YAML as such: text; kind; line:column; words of the message; words of the hint.
SYNTAX = (
    ("", "empty-plan", "0:0", "is empty", "jobs"),
    ("# a comment\n", "empty-plan", "0:0", "is empty", "jobs"),
    ("~", "empty-plan", "0:0", "is empty", "jobs"),
    ("[1]", "not-a-plan", "1:1", "here is a list", "jobs:"),
    ("jobs:", "no-jobs", "1:1", "jobs is empty", "NAME"),
    ("name: x", "no-jobs", "1:1", "no jobs", "NAME"),
    ("jobs: 3", "bad-value", "1:7", "jobs must be a mapping from name to keys, got a whole number", None),
    ("jobs: {a: 3}", "bad-job", "1:11", "job a must be a mapping of keys, got a whole number", "indented"),
    ("jobs:\n\ta: {image: i}\n", "yaml-tab", "2:1", "line 2: tab used for indentation", "spaces"),
    ("jobs:\n  a:\n  \timage: x\n", "yaml-tab", "3:3", "line 3: tab used for indentation", "spaces"),
    ("name: MIG-1: x", "yaml-syntax", "1:12", "a second ': '", "quote the value"),
    ("name: 'x", "yaml-syntax", "1:7", "never closed", "close the quote"),
    ('name: "a\\qb"', "yaml-syntax", "1:9", "unknown \\ escape", "'…'"),
    ("gpu: [0, 1", "yaml-syntax", "1:11", "a list in […]", "]"),
    ("name: @x", "yaml-syntax", "1:7", "cannot start a value", "quote"),
    ("name: *x", "unknown-alias", "1:7", "no anchor &x", "quote"),
    ("name: &x [*x]", "alias-of-itself", "1:11", "inside what it names", None),
    ("a: 1\n---\nb: 1", "several-documents", "2:1", "one document", "one file a plan"),
    ("[" * 3000, "yaml-syntax|too-deep", "1:", "nested", None),
    ("{a: " * 200, "too-deep", "1:129", "more than 32 levels", None),
    ("name: x\x00y", "control-character", "1:8", "U+0000", "UTF-16"),
    ("name: \x1bx", "control-character", "1:7", "U+001B", "delete"),
    ('name: "\\0"\njobs: {a: {image: i}}', "control-character", "1:7", "no argument or path", None),
    ("jobs: {a: {image: i}}\n<<: 3", "bad-merge", "2:5", "<< takes a mapping", "*name"),
    ("jobs:\n  a: {image: i}\n  b: {image: i}\n  a: {image: i}", "duplicate-key", "4:3", "line 2 and line 4", "rename"),
    ("jobs: {a: {image: i}}\n? [x]\n: 1", "bad-key", "2:3", "a key must be one word", "quote"),
    ("jobs: {a: {image: !secret i}}", "tag", "1:19", "!secret", "delete"),
    ("jobs: {a: {image: i}}\nx: " + "y" * (1 << 20), "file-too-large", "0:0", "larger than 1 MiB", "matrix"),
)  # fmt: skip

# Keys of the plan.
PLAN = (
    ("nmae: x", "unknown-key", "1:1", "nmae is not a key of a plan", "did you mean name?"),
    ("per_instance: 3", "unknown-key", "1:1", "per_instance belongs to a job", "under defaults or a job"),
    ("gpus: 2", "gpu-by-other-way", "1:1", "each job gets one instance", "write gpu"),
    ("services: {}", "compose-file", "1:1", "Compose file", "migctl import"),
    ("mig-configs: {}", "mig-parted-file", "1:1", "mig-parted", "migctl import"),
    ("name: no", "quote-it", "1:7", "name must be text, and no is a truth value", 'quote it: "no"'),
    ("name: ../x", "bad-name", "1:7", "may hold only", "write x"),
    ("name: ${X}", "bad-name", "1:7", "may hold only", "no ${…}"),
    ("name: " + "n" * 64, "bad-name", "1:7", "64 characters", "write n"),
    ("strategy: sequentail", "bad-choice", "1:11", "mig, shared or sequential", "did you mean sequential?"),
    ("strategy: mgi", "bad-choice", "1:11", "mig, shared or sequential, got 'mgi'", "did you mean mig?"),
    ("runtime: nvidia", "bad-choice", "1:10", "docker or process, got 'nvidia'", None),
    ("engine: slrum", "bad-choice", "1:9", "local, slurm or kubernetes", "did you mean slurm?"),
    ("slurm: {partitoin: p}", "unknown-key", "1:9", "unknown key 'partitoin'", "did you mean partition?"),
    ("slurm: {container: podman}", "bad-choice", "1:20", "pyxis, apptainer, docker or none", None),
    ("slurm: {gres: {1g.5gb: 'a b'}}", "bad-value", "1:24", "type of a GRES", "sinfo"),
    ("slurm: {options: [mail-type]}", "bad-value", "1:18", "options of sbatch", "--mail-type"),
    ("slurm: gpu", "bad-value", "1:8", "mapping of settings", "partition"),
    ("kubernetes: {mig_strategy: both}", "bad-choice", "1:28", "mixed or single", None),
    ("kubernetes: {namespace: My_Lab}", "bad-value", "1:25", "small letters", None),
    ("fail_fast: yes", "bad-value", "1:12", "must be true or false, got 'yes'", "write true"),
    ("stagger: 5", "bad-value", "1:10", "stagger must be a time like 1m30s, got 5", "write 5s"),
    ("on_finish: donw", "bad-choice", "1:12", "on_finish must be keep or down", "did you mean down?"),
    ("on_reboot: on", "bad-choice", "1:12", "on_reboot must be hold or resume, got 'on'", None),
    ("enable_mig: yes", "bad-value", "1:13", "must be true or false, got 'yes'", "write true"),
    ("reserve_cores: -1", "bad-value", "1:16", "at least 0, got -1", None),
    ("max_parallel: 0", "bad-value", "1:15", "at least 1, got 0", None),
    ("allow_overlap: db", "bad-value", "1:16", "must be a list, got text", "[a, b]"),
    ("defaults: 3", "bad-value", "1:11", "defaults must be a mapping", None),
    ("defaults: {iamge: x}", "unknown-key", "1:12", "iamge is not a key of a job", "did you mean image?"),
    ("defaults: {cpus: 012}", "yaml-number", "1:18", "012 is an octal number", "write 12"),
    ("gpu: MIG-1", "bad-value", "1:6", "got 'MIG-1'", "not a GPU"),
    ("gpu: A100", "bad-value", "1:6", "got 'A100'", "write {model: A100}"),
    ("gpu: 0,1", "bad-value", "1:6", "got '0,1'", "write [0,1]"),
    ("gpu: '0:1'", "bad-value", "1:6", "got '0:1'", "write 0; the number behind it is of a MIG device, and shifts"),
    ("gpu: 01", "yaml-number", "1:6", "octal", "write 1"),
    ("gpu: []", "bad-value", "1:6", "empty list", None),
    ("gpu: {modle: A100}", "unknown-key", "1:7", "takes only model", "did you mean model?"),
)  # fmt: skip

# Keys of a job, in the fourth line, from column 5 on.
JOBS = (
    ("num_worker: 3", "unknown-key", 5, "num_worker is not a key of a job", "did you mean num_workers?"),
    ("max_parallel: 3", "unknown-key", 5, "max_parallel belongs to the plan", "beside jobs"),
    ("env: {}", "unknown-key", 5, "env is not a key", "environment"),
    ("name: x", "unknown-key", 5, "its key under jobs", "jobs: {NAME: …}"),
    ("profile: 19", "bad-profile", 14, "profile must be like 1g.10gb, got 19", "migctl profiles"),
    ("profile: '19'", "bad-profile", 14, "got '19'", "profile ids differ between GPUs"),
    ("profile: '9,9,9'", "bad-profile", 14, "one job gets one GPU instance", "replicas"),
    ("profile: 3g", "bad-profile", 14, "got '3g'", "slices: 3"),
    ("profile: all-1g.5gb", "bad-profile", 14, "got 'all-1g.5gb'", "did you mean 1g.5gb?"),
    ("profile: 1g5gb", "bad-profile", 14, "got '1g5gb'", "did you mean 1g.5gb?"),
    ("profile: 1c.3g.20gb", "bad-profile", 14, "a job gets a whole one", "write 3g.20gb"),
    ("profile: 1g.5gb\n    memory: 4g", "two-sizes", 13, "job a gives profile and memory", "keep one"),
    ("profile: 1g.5gb\n    slices: 1", "two-sizes", 13, "profile and slices", "keep one"),
    ("memory: 10", "bad-value", 13, "10 bytes", "give a unit: 10m or 10g"),
    ("memory: 10x", "bad-value", 13, "a size like 8g, 512m or 1.5gb, got '10x'", "write 10g or 10m"),
    ("memory: 1e3GiB", "bad-value", 13, "got '1e3GiB'", "write 1000g"),
    ("memory: 5e99GiB", "bad-value", 13, "got '5e99GiB'", None),
    ("memory: 99999999999999999999GiB", "bad-value", 13, "less than an exbibyte", None),
    ("memory: 1.5 GiB.", "bad-value", 13, "a size like 8g", None),
    ("slices: 1.5", "bad-value", 13, "a whole number, got 1.5", None),
    ("slices: {1g.5gb: 2}", "bad-value", 13, "got a mapping", None),
    ("cpus: 2.5", "bad-value", 11, "whole physical cores, got 2.5", "no fractions"),
    ("cpus: 012", "yaml-number", 11, "012 is an octal number", "write 12"),
    ("cpus: 1_0", "yaml-number", 11, "1_0 is the number 10", "write 10"),
    ("cpus: '4'", "bad-value", 11, "got '4'", "without quotes"),
    ("cpus: 2\n    cpuset: 0-3", "cpus-and-cpuset", 13, "not both", "keep one"),
    ("cpuset: 012", "yaml-number", 13, "octal", "write 12"),
    ("cpuset: 3-1", "bad-value", 13, "runs backwards", None),
    ("cpuset: []", "bad-value", 13, "names no CPU", "0-3,8"),
    ("num_workers: atuo", "bad-value", 18, "auto or a whole number", "did you mean auto?"),
    ("stop_grace_period: 60", "bad-value", 24, "a time like 1m30s, got 60", "write 60s"),
    ("stop_grace_period: 1:30", "yaml-number", 24, "a number in base 60", "write 1m30s, or 1h30m"),
    ("timeout: 1:30:00", "yaml-number", 14, "a number in base 60", "write 1h30m"),
    ("shm_size: 8", "bad-value", 15, "8 bytes", "8g"),
    ("gpus: 2", "gpu-by-other-way", 5, "one job gets one GPU instance", "profile"),
    ("devices: [/dev/nvidia0]", "gpu-by-other-way", 5, "the neighbours' GPU", "delete"),
    ("deploy: {}", "gpu-by-other-way", 5, "Compose's way", "profile"),
    ("device_requests: []", "gpu-by-other-way", 5, "one job gets one GPU instance", "profile"),
    ("privileged: true", "privileged", 5, "every GPU and every instance", "cap_add"),
    ("restart: always", "restart-policy", 5, "after a reboot", "retries: 3"),
    ("runtime: nvidia", "runtime-in-job", 5, "migctl chooses", "key of the plan"),
    ("instance: MIG-GPU-12/1", "bad-value", 15, "must be a MIG UUID", "nvidia-smi -L"),
    ("instance: [MIG-1, MIG-2]", "two-instances", 15, "one GPU instance", "one UUID"),
    ("instance: MIG-1,MIG-2", "two-instances", 15, "one GPU instance", "one UUID"),
    ("instance: 7", "quote-it", 15, "7 is a whole number for YAML", "quote"),
    ("depends_on: [b]", "unknown-key", 5, "depends_on is not a key", "write needs"),
    ("storage: nvm", "bad-choice", 14, "nvme, ssd, hdd or auto", "did you mean nvme?"),
    ("working_dir: on", "quote-it", 18, "on is a truth value", 'quote it: "on"'),
    ("working_dir: x", "bad-value", 18, "an absolute path", "write /x"),
    ("pull_policy: allways", "bad-choice", 18, "missing, always", "did you mean always?"),
    ("command: echo 'x", "bad-command", 14, "a quote is not closed", "list"),
    ("command: [a, [b]]", "bad-value", 18, "a list as item number 2", "quote"),
    ("command: [a, ]", None, 0, "", None),
    ("command: [a, ~, ]", None, 0, "", None),
    ("command:\n      - a\n      -", "bad-value", 8, "an empty item (number 2)", '""'),
    ("command: 3", "quote-it", 14, "3 is a whole number for YAML", "quote"),
    ("environment: {A: [1]}", "bad-value", 22, "environment.A must be one value", None),
    ("environment: [A=1, A=2]", "duplicate-key", 24, "A twice", "delete"),
    ("environment: {CUDA_VISIBLE_DEVICES: 0}", "gpu-variable", 19, "chooses GPUs past the plan", "delete"),
    ("environment: [NVIDIA_MIG_CONFIG_DEVICES=all]", "gpu-variable", 19, "past the plan", "delete"),
    ("environment: {MIGCTL_JOB: x}", "reserved-variable", 19, "handed over", "delete"),
    ("environment: {a b: x}", "bad-variable", 19, "cannot be the name", None),
    ("env_file: none.env", "missing-env-file", 15, "none.env does not exist", "looked for at"),
    ("volumes: [/var/run/docker.sock:/s]", "engine-socket", 15, "root on this machine", "delete"),
    ("volumes: ['/run:/r']", "engine-socket", 15, "holds the container engine's socket", None),
    ("volumes: ['/:/host']", "engine-socket", 15, "holds the container engine's socket", None),
    ("volumes: ['/dev/nvidia0:/dev/nvidia0']", "gpu-by-other-way", 15, "/dev/nvidia0", "delete"),
    ("volumes: ['/dev:/dev']", "gpu-by-other-way", 15, "/dev", "delete"),
    ("volumes: ['./none:/x']", "missing-source", 15, "none, which does not exist", "mkdir -p"),
    ("volumes: ['a/b:/x']", "bad-value", 15, "volumes[0] must start with a path", "./a/b"),
    ("volumes: ['.:x']", "bad-value", 15, "an absolute path in the container", "source:/target"),
    ("volumes: ['.:/']", "bad-value", 15, "the whole container", "/workspace"),
    ("volumes: ['.:/x:z']", "bad-value", 15, "SELinux", "label=disable"),
    ("volumes: ['/tmp:/x', '/usr:/x']", "duplicate-target", 26, "the target /x", "keep one"),
    ("volumes: .:/x", "bad-value", 14, "must be a list, got text", "[a, b]"),
    ("volumes: [{sorce: x, target: /y}]", "unknown-key", 16, "unknown key 'sorce'", "did you mean source?"),
    ("volumes: [{type: bind, source: ., target: /w, bind: {create_host_path: true}}]", "bad-value", 15, "create", None),
    ("ports: ['99999:1']", "bad-value", 13, "a port from 1 to 65535, got 99999", None),
    ("ports: [22:22]", "quote-it", 13, "a number in base 60", 'quote it: "22:22"'),
    ("ports: ['1-2:1-2']", "bad-value", 13, "got '1-2:1-2'", "each port"),
    ("ports: ['1:1', '1:2']", "port-clash", 12, "host port 1/tcp is published by job a twice", '"2"'),
    ("ports: ['1:1']\n    network_mode: host", "ports-without-network", 12, "network_mode: host", "delete"),
    ("ulimits: {stac: 1}", "unknown-key", 15, "unknown limit 'stac'", "did you mean stack?"),
    ("ulimits: {nofile: {soft: 9, hard: 5}}", "bad-value", 23, "soft ≤ hard", None),
    ("labels: {io.migctl.run: x}", "reserved-label", 13, "migctl's own", None),
    ("extra_hosts: [c]", "bad-value", 19, "name:address", None),
    ("batch_size_memory: 40g", "batch-without-size", 24, "scales batch_size", "add batch_size"),
    ("batch_size: 8\n    batch_size_memory: 1g", "batch-memory", 24, "1536 MiB", None),
    ("command: x ${LR}", "unknown-variable", 16, "${LR} is not set", "${LR:-…}"),
    ("command: x ${LR", "bad-interpolation", 16, "${LR is not closed", "$$"),
    ("command: x ${a[0]}", "bad-interpolation", 16, "not a name", "$${a[0]}"),
    ("command: ${Q:?need Q}", "required-variable", 14, "${Q} is required: need Q", None),
    ("command: x ${MIGCTL_WORKER}", "unknown-variable", 16, "nothing that migctl hands", "MIGCTL_NUM_WORKERS"),
    ("command: x ${MIGCTL_BATCH_SIZE}", "no-batch-size", 16, "gives no batch_size", ":-32"),
    ("working_dir: /${MIGCTL_JOB}", "variable-of-start", 19, "only when the job starts", "environment"),
    ("command: ${matrix.x}", "unknown-variable", 14, "there is no matrix", "add matrix"),
    ("command: ${matrix.lrr}\n    matrix: {lr: [1]}", "unknown-variable", 14, "no key", "${matrix.lr}"),
    ("matrix: {lr: 0.1}", "bad-matrix", 18, "matrix.lr must be a list, got a number", "lr: [a, b]"),
    ("matrix: {lr: []}", "bad-matrix", 18, "an empty list", None),
    ("matrix: [1]", "bad-matrix", 13, "a mapping of lists, got a list", None),
    ("replicas: 17000", "too-many-jobs", 0, "more than 16384 jobs", "several plans"),
    ("replicas: 1e20", "bad-value", 15, "at most 18 digits, all written out, got 1e20", None),
    ("replicas: 100000000000000000000", "bad-value", 15, "at most 18 digits, all written out, got 1000", None),
    ("replicas: many", "bad-value", 15, "a whole number, got 'many'", None),
    ("replicas: 0", "bad-value", 15, "replicas must be at least 1", None),
)  # fmt: skip

NAMES = (
    ("no", "quote-it", "no is a truth value", 'quote it: "no"'),
    ("on", "quote-it", "on is a truth value", 'quote it: "on"'),
    ("012", "quote-it", "012 is an octal number", 'quote it: "012"'),
    ("1e3", "quote-it", "1e3 is a number", 'quote it: "1e3"'),
    ("null", "quote-it", "null is empty", 'quote it: "null"'),
    ("a b", "bad-name", "may hold only letters", "write a-b"),
    ("zürich", "bad-name", "may hold only letters", "write zurich"),
    ("ä b", "bad-name", "may hold only letters", "write a-b"),
    ("../x", "bad-name", "may hold only letters", "write x"),
    ("-x", "bad-name", "may hold only letters", "write x"),
    ("훈련", "bad-name", "may hold only letters", "write job"),
    ("${X}", "bad-name", "may hold only letters", "names take no ${…}"),
    ("x" * 64, "bad-name", "64 characters", "write xxx"),
)


def problems(text: str, folder: Path = Path("/nowhere"), **overrides: planfile.Value) -> tuple[PlanError, ...]:
    try:
        planfile.loads(text, "plan.yaml", folder, {}, **overrides)
    except Problems as found:
        return tuple(error for error in found.all if type(error) is PlanError and error.exit_code == 2)
    return ()


def place(error: PlanError) -> tuple[int, int]:
    assert isinstance(error.where, Where), error.where
    assert error.where.file == "plan.yaml"
    return error.where.line, error.where.column


@pytest.mark.parametrize(("text", "kind", "at", "message", "hint"), SYNTAX, ids=lambda value: repr(value)[:30])
def test_what_is_not_a_readable_mapping_is_told_in_one_error(
    text: str, kind: str, at: str, message: str, hint: str | None
) -> None:
    (error,) = problems(text)

    assert error.id in kind.split("|")
    assert message in error.message
    assert "\n" not in error.message
    assert (hint or "") in (error.hint or "")
    if at == "0:0":
        assert error.where in ("plan.yaml", Where("plan.yaml"))
    else:
        assert f"{place(error)[0]}:{place(error)[1]}".startswith(at)


def test_a_bad_key_does_not_also_make_the_jobs_empty() -> None:
    assert [error.id for error in problems("jobs: {[a]: {image: i}}")] == ["bad-key"]


BAD_IMAGES = (
    ("Bad Image!!", "no blanks"),
    ("Team/Train", "small letters: team/train"),
    ("train:", "docker images"),
    ("a//b", "docker images"),
    ("x" * 600, "docker images"),
)


@pytest.mark.parametrize(("image", "hint"), BAD_IMAGES)
def test_what_no_engine_takes_as_an_image_is_told_at_its_place(image: str, hint: str) -> None:
    (error,) = problems(f"jobs: {{a: {{image: '{image}'}}}}")

    assert (error.id, place(error)) == ("bad-image", (1, 19))
    assert "must be an image like python:3.12-slim, got" in error.message
    assert hint in str(error.hint)


GOOD_IMAGES = (
    "busybox",
    "python:3.12-slim",
    "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
    "localhost/train",
    "Lab.example:5000/team/train_1/x--y:v1.0_RC",
    "[::1]:5000/train",
    "train@sha256:" + "0" * 64,
    "train:1@sha256:" + "a" * 64,
    "sha256:" + "f" * 64,
    "0123456789ab",
)


@pytest.mark.parametrize("image", GOOD_IMAGES)
def test_whatever_an_engine_takes_as_an_image_is_one(image: str) -> None:
    assert problems(f"jobs: {{a: {{image: '{image}'}}}}") == ()


@pytest.mark.parametrize(("text", "kind", "at", "message", "hint"), PLAN, ids=lambda value: repr(value)[:30])
def test_a_mistake_in_the_plans_keys(text: str, kind: str, at: str, message: str, hint: str | None) -> None:
    errors = problems(f"{text}\njobs: {{a: {{image: i}}}}\n")

    assert [error.id for error in errors] == [kind]
    assert f"{place(errors[0])[0]}:{place(errors[0])[1]}" == at
    assert message in errors[0].message
    assert (hint or "") in (errors[0].hint or "")


@pytest.mark.parametrize(("text", "kind", "column", "message", "hint"), JOBS, ids=lambda value: repr(value)[:30])
def test_a_mistake_in_a_jobs_keys(text: str, kind: str | None, column: int, message: str, hint: str | None) -> None:
    errors = problems(JOB + text)

    assert [error.id for error in errors] == ([kind] if kind else [])
    for error in errors:
        line, at = place(error)
        assert line >= 4 or column == 0
        assert at == (column or 3)
        assert message in error.message
        assert (hint or "") in (error.hint or "")


@pytest.mark.parametrize(("name", "kind", "message", "hint"), NAMES, ids=lambda value: repr(value)[:30])
def test_a_name_that_cannot_be_one(name: str, kind: str, message: str, hint: str) -> None:
    (error,) = problems(f"jobs:\n  {name}:\n    image: i\n")

    assert (error.id, place(error)) == (kind, (2, 3))
    assert message in error.message
    assert error.hint is not None
    assert hint in error.hint


@pytest.mark.parametrize("text", [row[0] for row in SYNTAX], ids=lambda value: repr(value)[:30])
def test_yaml_without_libyaml_finds_the_same_in_the_same_lines(text: str) -> None:
    """PyYAML may have been built without libyaml; its own parser words its complaints differently."""
    found = []
    for libyaml in (True, False):
        try:
            report = Report(checked(text, "plan.yaml"))
        except PlanError:
            return
        compose(report, libyaml=libyaml)
        lines = [error.where.line if isinstance(error.where, Where) else 0 for error in report.errors]
        limit = "too deep" if "[" * 99 in text else ""  # libyaml stops before our own limit is met
        found.append([(line, limit or error.message) for line, error in zip(lines, report.errors, strict=True)])

    assert found[0] == found[1]


def test_aliases_that_explode_are_refused_before_they_are_unfolded() -> None:
    lines = ["x-a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"x-{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in zip("abcdefghij", "bcdefghijk", strict=True)]

    (error,) = problems("\n".join(lines))

    assert error.id == "too-many-values"
    assert place(error)[0] == 6


def test_aliases_deeper_than_the_limit_are_refused() -> None:
    lines = ["x-0: &a0 [x]"] + [f"x-{n}: &a{n} [[[[*a{n - 1}]]]]" for n in range(1, 20)]

    (error,) = problems("\n".join(lines))

    assert error.id == "too-deep"


def test_interpolation_that_explodes_is_refused() -> None:
    environ = {"BIG": "x" * 100_000}
    text = "jobs:\n  a:\n    image: i\n    command: [" + ", ".join(["'${BIG}${BIG}${BIG}'"] * 5000) + "]\n"

    with pytest.raises(Problems) as caught:
        planfile.loads(text, "plan.yaml", Path("/nowhere"), environ)

    assert caught.value.id == "too-large-after-interpolation"


def test_a_matrix_of_too_many_jobs_is_refused() -> None:
    axis = ", ".join(map(str, range(130)))
    (error,) = problems(JOB + f"matrix: {{a: [{axis}], b: [{axis}]}}\n    command: x ${{matrix.a}} ${{matrix.b}}")

    assert error.id == "too-many-jobs"


def test_the_same_mistake_of_many_variants_is_told_once() -> None:
    (error,) = problems(JOB + "matrix: {s: [1, 2, 3]}\n    command: x ${matrix.s}\n    shm_size: 8x\n    replicas: 3")

    assert error.message == "shm_size must be a size like 8g, 512m or 1.5gb, got '8x'"


def test_the_mistake_of_one_variant_names_its_value() -> None:
    (error,) = problems(JOB + "matrix: {p: [1g.5gb, 2g]}\n    profile: ${matrix.p}")

    assert error.message == "profile must be like 1g.10gb, got '2g'"


def test_jobs_written_as_a_list_are_told_with_their_other_mistakes() -> None:
    text = "jobs:\n  - name: no\n    image: 1.10\n    cpus: 012\n    slices:\n      1g.5gb: 2\n      1g.5gb: 3\n"

    found = [(error.id, place(error)) for error in problems(text)]

    assert found == [
        ("bad-value", (2, 3)),
        ("quote-it", (2, 11)),
        ("quote-it", (3, 12)),
        ("yaml-number", (4, 11)),
        ("bad-value", (6, 7)),
        ("duplicate-key", (7, 7)),
    ]


def test_no_more_than_a_hundred_errors_are_listed() -> None:
    text = "jobs: {a: {image: i}}\n" + "".join(f"key{n}: 1\n" for n in range(150))

    errors = problems(text)

    assert len(errors) == 101
    assert errors[-1].message == "and 50 further problems"


@pytest.mark.parametrize(
    ("strategy", "text", "kind"),
    [
        ("shared", "profile: 1g.5gb", "size-without-mig"),
        ("shared", "slices: 1", "size-without-mig"),
        ("shared", "memory: 10g", None),
        ("shared", "per_instance: 2", "size-without-mig"),
        ("sequential", "profile: 1g.5gb", "size-without-mig"),
        ("sequential", "instance: MIG-8ff2e3a4-11b0-5d63-9a31-0c55e1d1a0b2", "size-without-mig"),
        ("sequential", "memory: 10g", None),
        ("sequential", "per_instance: 1", None),
        ("mig", "profile: 1g.5gb", None),
    ],
)
def test_a_size_of_an_instance_needs_a_strategy_that_makes_one(strategy: str, text: str, kind: str | None) -> None:
    found = [error.id for error in problems(f"strategy: {strategy}\n{JOB}{text}")]

    assert found == ([kind] if kind else [])


def test_two_jobs_cannot_publish_one_host_port() -> None:
    text = (
        "defaults: {image: i}\njobs:\n  a: {ports: ['8080:80']}\n  b: {ports: ['127.0.0.1:8080:80']}\n"
        "  c: {ports: ['8080:80/udp', 80]}\n"
    )

    (error,) = problems(text)

    assert (error.id, place(error)[0]) == ("port-clash", 4)
    assert error.message == "host port 8080/tcp is published by jobs a and b"


def test_two_expanded_names_that_meet_are_an_error() -> None:
    (error,) = problems("defaults: {image: i}\njobs:\n  a: {replicas: 2}\n  a-1: {}\n")

    assert (error.id, place(error)) == ("name-clash", (4, 3))
    assert error.message == "two jobs have the name a-1: a and a-1"


def test_an_image_is_needed_for_containers_and_a_command_for_processes() -> None:
    (no_image,) = problems("jobs: {a: {command: x}}")
    (no_command,) = problems("jobs: {a: {image: x}}", runtime="process")

    assert (no_image.id, place(no_image)) == ("image-missing", (1, 8))
    assert "--runtime process" in (no_image.hint or "")
    assert (no_command.id, place(no_command)) == ("command-missing", (1, 8))


def test_gpu_variables_are_refused_in_an_env_file_with_their_place_there(tmp_path: Path) -> None:
    (tmp_path / "job.env").write_text("# mine\nLR=1\nNVIDIA_VISIBLE_DEVICES=all\n")

    (error,) = problems(JOB + "env_file: job.env", tmp_path)

    assert (error.id, error.where) == ("gpu-variable", Where("job.env", 3, 1, "NVIDIA_VISIBLE_DEVICES=***"))


def test_a_link_to_the_engines_socket_is_the_socket(tmp_path: Path) -> None:
    (tmp_path / "innocent").symlink_to("/var/run/docker.sock")

    (error,) = problems(JOB + "volumes: ['./innocent:/x']", tmp_path)

    assert error.id == "engine-socket"


def test_the_socket_named_by_docker_host_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "engine").touch()
    environ = {"DOCKER_HOST": f"unix://{tmp_path}/engine"}

    with pytest.raises(Problems) as caught:
        planfile.loads(JOB + "volumes: ['./engine:/x']", "plan.yaml", tmp_path, environ)

    assert caught.value.id == "engine-socket"
