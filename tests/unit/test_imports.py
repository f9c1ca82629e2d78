"""Files that people have today become plans that our own reader takes, or are refused with what they are and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from migctl import planfile
from migctl.core.plan import ByInstance, ByProfile, Plan
from migctl.errors import MigctlError
from migctl.planfile.importers import Format, Sketch, imported, merged
from migctl.planfile.source import Source
from tests.support import exports

DATA = Path(__file__).parents[1] / "data" / "imports"
A, B = "MIG-11111111-1111-5111-8111-111111111111", "MIG-22222222-2222-5222-8222-222222222222"

REFUSED = {
    "lgi-fragmented.txt": ("instance-list", "tells no UUIDs", "nvidia-smi -L"),
    "migparted-all-one-profile.yaml": ("several-configurations", "off, seven-small, one-media.me", "--config"),
    "partition-helper.txt": ("python-program", "Python program", "write a job"),
    "systemd-mig.service": ("systemd-unit", "partitions GPUs at boot", "systemctl disable"),
    "teardown-hide-errors.sh": ("no-trainings", "takes GPU instances away", "migctl down"),
    "two-slices-one-container.sh": ("two-instances", "one job gets one GPU instance", "a job for each"),
    "waves.md": ("prose", "text for people", "stage: 1, 2"),
    "wrong-ids.md": ("prose", "text for people", "migctl profiles"),
    "yaml-traps.yaml": ("duplicate-key", "1g.5gb stands twice", "delete or rename"),
}
PLANS = sorted(path.name for path in DATA.iterdir() if path.name not in REFUSED)


def sketch(name: str, **options: object) -> Sketch:
    return imported(Source((DATA / name).read_text("utf-8"), name), None, **options)  # type: ignore[arg-type]  # a table of options


def read(text: str) -> Plan:
    """By our own reader, on a machine that has no such folders."""
    return planfile.loads(text, "plan.yaml", Path("/srv/imported"), {}, engine="slurm")


def take(text: str, format_: Format | None = None, name: str = "file", **options: object) -> Plan:
    return read(imported(Source(text, name), format_, **options).text())  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("name", PLANS)
def test_what_is_understood_is_a_plan(name: str) -> None:
    assert read(sketch(name).text()).jobs


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_is_refused_with_what_it_is_and_what_to_do(name: str) -> None:
    kind, message, hint = REFUSED[name]

    with pytest.raises(MigctlError) as refused:
        sketch(name)

    assert refused.value.exit_code == 2
    assert refused.value.id == kind
    assert message in refused.value.message
    assert hint in str(refused.value.hint)


UNKNOWN = {
    "mig-parted": "version: v1\nmig-configs: {c: [{devices: [0], mig-enabled: true, device-filter: '0xODD', "
    "mig-devices: {1g.5gb: 1, odd-profile: 1}}]}",
    "compose": "odd-top: 1\nservices: {a: {image: i, odd-key: 1, restart: odd-restart, depends_on: [odd-need], gpus: odd-gpus, "
    "runtime: odd-runtime, environment: {NVIDIA_VISIBLE_DEVICES: odd-all}, deploy: {odd-deploy: 1, resources: {"
    "limits: {odd-limit: 1}, reservations: {odd-reservation: 1, devices: "
    "[{driver: odd-driver, count: 77, odd-device: 1, device_ids: [odd-id]}]}}}}}",
    "docker run": "#!/bin/sh\nodd-command before\ndocker run --odd-option odd-value --restart odd-restart "
    "--device odd-device --gpus odd-gpus -e CUDA_VISIBLE_DEVICES=odd-visible i x\n",
    "sbatch": "#!/bin/bash\n#SBATCH --odd-option=odd-value\n#SBATCH --gres=gpu:odd-kind:2\n#SBATCH --output odd-output\n"
    "module load odd-module\nsrun --odd-srun=1 python x.py\n",
    "kubernetes": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {odd-spec: 1, containers: [{image: i, odd-key: 1, "
    "env: [{name: ODD-ENV, valueFrom: {}}], resources: {limits: {odd/resource: 1, cpu: 77m}}, volumeMounts: "
    "[{name: odd-volume, mountPath: /odd-path}]}], volumes: [{name: odd-volume, configMap: {}}]}\n---\n"
    "apiVersion: v1\nkind: ODD-Kind\nmetadata: {name: odd-name}\n",
    "nvidia-smi": f"GPU 0: A (UUID: GPU-0)\n  MIG 1g.5gb      Device  0: (UUID: {A})\nodd-line\n",
    "cdi": f"cdiVersion: 0.5.0\ndevices: [{{name: odd-device}}, {{name: {A}, containerEdits: {{deviceNodes: "
    "[{path: /dev/nvidia-caps/nvidia-cap1}, {path: /dev/nvidia-caps/nvidia-cap2}]}}]",
    "task-spooler": "#!/bin/sh\nts -E odd-e python x.py\nts -G 0 python odd-cpu.py\nodd-command\n",
}


@pytest.mark.parametrize("format_", UNKNOWN)
def test_what_is_not_understood_stands_in_the_plan_as_a_comment_and_is_told(format_: str) -> None:
    found = imported(Source(UNKNOWN[format_], "file"), None)
    odd = set(re.findall(r"(?i)(?:0x)?\bodd[\w/-]*|\b77m?\b", UNKNOWN[format_]))

    comments = "\n".join(line for line in found.text().splitlines() if line.lstrip().startswith("#"))

    assert {word for word in odd if word not in comments} == set()
    assert {word for word in odd if word not in "\n".join(found.notices)} == set()
    assert read(found.text()).jobs


def test_each_instance_of_a_mig_parted_file_is_a_job_on_its_gpu() -> None:
    plan = read(sketch("migparted-mixed-per-gpu.yaml").text())

    layout = sorted((job.gpus[0].index, job.request.name) for job in plan.jobs if isinstance(job.request, ByProfile))

    assert layout == sorted([(4, "1g.5gb")] * 7 + [(7, "1g.5gb")] * 2 + [(7, "2g.10gb"), (7, "3g.20gb")])


def test_the_same_layout_on_several_gpus_keeps_each_gpus_own() -> None:
    plan = read(sketch("migparted-4g-3g.yaml").text())

    on_three = sorted(
        str(job.request.name) for job in plan.jobs if job.gpus[0].index == 3 and isinstance(job.request, ByProfile)
    )

    assert on_three == ["3g.40gb", "4g.40gb"]
    assert {job.gpus[0].index for job in plan.jobs} == {2, 3, 4, 5, 6, 7}


@pytest.mark.parametrize(
    ("devices", "gpus", "expected"),
    [("all", 1, {0}), ("all", 3, {0, 1, 2}), ("0", 1, {0}), ("[0, 2]", 1, {0, 2})],
)
def test_all_forms_of_devices_are_read(devices: str, gpus: int, expected: set[int]) -> None:
    text = f"version: v1\nmig-configs:\n  c:\n  - devices: {devices}\n    mig-enabled: true\n    mig-devices: {{'1g.5gb+me': 1}}\n"

    plan = take(text, gpus=gpus)

    assert {job.gpus[0].index for job in plan.jobs} == expected
    assert {job.request for job in plan.jobs} == {ByProfile("1g.5gb+me")}


@pytest.mark.parametrize("config", ["seven-small", "one-media.me"])
def test_a_configuration_is_chosen_by_name(config: str) -> None:
    assert sketch("migparted-all-one-profile.yaml", config=config).jobs


def test_a_configuration_that_makes_nothing_is_refused() -> None:
    with pytest.raises(MigctlError, match="makes no GPU instance"):
        sketch("migparted-all-one-profile.yaml", config="off")


@pytest.mark.parametrize(
    "text",
    [
        "name: one\njobs: {a: {image: i, profile: 3g.20gb}, b: {image: i, profile: 1g.5gb, replicas: 3}}",
        "name: two\ngpu: all\njobs: {a: {image: i, profile: 3g.20gb, replicas: 3}, b: {image: i, profile: 1g.5gb, replicas: 2}}",
    ],
)
def test_export_to_mig_parted_and_import_give_the_same_layout_and_then_the_same_plan(text: str) -> None:
    there = exports.machine("a100-40gbx2", cores=32)
    written = exports.mig_parted(planfile.loads(text.replace("{image: i", "{gpu: 0, image: i") if "gpu: all" not in text else text,
                                                "plan.yaml", Path("/"), {}), there)  # fmt: skip

    once = imported(Source(written, "mig-parted.yaml"), None).text()
    again = exports.mig_parted(read(once), there)

    assert yaml.safe_load(again) == yaml.safe_load(written)
    assert imported(Source(again, "mig-parted.yaml"), None).text() == once


def test_an_exported_compose_file_can_be_taken_back() -> None:
    text = exports.compose(
        exports.plan("name: n\njobs: {a: {image: i, profile: 1g.5gb, command: [x, '$$HOME'], shm_size: 4g}}")
    )

    (job,) = take(text).jobs

    assert job.command == ("x", "$HOME")
    assert job.shm_size_bytes == 4 << 30
    assert "MIGCTL_NUM_WORKERS" not in dict(job.environment)


@pytest.mark.parametrize("name", ["compose-device-ids.yaml", "compose-gpus-short.yaml", "compose-runtime-env.yaml"])
def test_a_services_device_is_the_jobs_instance(name: str) -> None:
    first = read(sketch(name).text()).jobs[0]

    assert first.request == ByInstance(A)
    assert first.user == "image", "Compose leaves the user to the image"


def test_the_form_before_driver_470_is_named_and_not_taken_for_a_uuid() -> None:
    found = sketch("compose-old-uuid-form.yaml")

    assert "GPU instance 2, compute instance 0" in found.text()
    assert "NVIDIA_VISIBLE_DEVICES=all" in found.text()
    assert not isinstance(read(found.text()).jobs[0].request, ByInstance)


def compose(service: str) -> Plan:
    return take(f"services: {{a: {{image: i, {service}}}}}", Format.COMPOSE)


@pytest.mark.parametrize(
    ("service", "found"),
    [
        ("cpus: 2.0", lambda job: job.cpus == 2),
        ("cpuset: '0,1', cpus: 1", lambda job: str(job.cpuset) == "0-1" and job.cpus is None),
        ("deploy: {replicas: 1, resources: {limits: {memory: 4g, cpus: '3'}}}",
         lambda job: job.mem_limit_bytes == 4 << 30 and job.cpus == 3),
        ("environment: {LR: 1e-4, X: }", lambda job: dict(job.environment) == {"LR": "1e-4"}),
        ("environment: [LR=1e-4, CUDA_VISIBLE_DEVICES=0]", lambda job: dict(job.environment) == {"LR": "1e-4"}),
        ("command: echo $$HOME", lambda job: job.command == ("echo", "$HOME")),
        ("volumes: ['./data:/data:ro,z']", lambda job: job.volumes[0].read_only and job.volumes[0].target == "/data"),
        (f"environment: [NVIDIA_VISIBLE_DEVICES={A}]", lambda job: job.request == ByInstance(A)),
        ("gpus: all", lambda job: not isinstance(job.request, ByInstance)),
        ("deploy: {resources: {reservations: {devices: [{device_ids: ['1'], capabilities: [gpu]}]}}}",
         lambda job: job.gpus[0].index == 1),
        ("user: '1000'", lambda job: job.user == "1000"),
    ],
)  # fmt: skip
def test_what_compose_says_is_what_the_plan_says(service: str, found: object) -> None:
    (job,) = compose(service).jobs

    assert callable(found)
    assert found(job), job


def test_two_devices_for_one_service_are_refused_and_success_of_another_is_a_need() -> None:
    with pytest.raises(MigctlError, match="one job gets one GPU instance"):
        compose(f"gpus: [{{device_ids: [{A}, {B}]}}]")
    plan = take(
        "services: {a: {image: i}, b: {image: i, depends_on: {a: {condition: service_completed_successfully}}}, "
        "c: {image: i, depends_on: [a]}}"
    )
    assert [job.needs for job in plan.jobs] == [(), ("a",), ()]


def test_sbatch_options_are_the_jobs_and_the_sites_words_stay() -> None:
    plan = read(sketch("sbatch-mig.sbatch").text())

    (job,) = plan.jobs
    assert (plan.slurm.partition, plan.slurm.gres) == ("gpu-mig", (("3g.40gb", "a100_3g.40gb"),))
    assert (job.request, job.cpus, job.timeout_s) == (ByProfile("3g.40gb"), 8, 8 * 3600)
    assert job.command == ("python", "-u", "train.py", "--num-workers", "${MIGCTL_NUM_WORKERS}")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("#SBATCH -t 1-02:00:30", {"timeout_s": 26 * 3600 + 30}),
        ("#SBATCH --time 90", {"timeout_s": 5400}),
        ("#SBATCH -c4", {"cpus": 4}),
        ("#SBATCH --gpus=1g.10gb:1", {"request": ByProfile("1g.10gb")}),
        ("#SBATCH --gres=gpu:h100_1g.10gb+me:1", {"request": ByProfile("1g.10gb+me")}),
    ],
)
def test_sbatch_spellings(lines: str, expected: dict[str, object]) -> None:
    (job,) = take(f"#!/bin/bash\n{lines}\nsrun python x.py\n").jobs

    assert {name: getattr(job, name) for name in expected} == expected


def test_an_array_is_a_matrix_and_its_limit_the_plans() -> None:
    plan = take("#!/bin/bash\n#SBATCH --array=1-5:2%2\n#SBATCH -J s\nsrun python x.py --seed $SLURM_ARRAY_TASK_ID\n")

    assert plan.max_parallel == 2
    assert [job.command for job in plan.jobs] == [("python", "x.py", "--seed", seed) for seed in ("1", "3", "5")]


def test_a_body_of_several_commands_goes_to_bash_as_it_stands() -> None:
    (job,) = take("#!/bin/bash\n#SBATCH -J s\nX=${Y:-1}\ntar xf data.tar && python x.py $X\npython y.py\n").jobs

    assert job.command == ("bash", "-c", "X=${Y:-1}\ntar xf data.tar && python x.py $X\npython y.py")


def test_a_loop_is_a_matrix() -> None:
    plan = take(
        "#!/bin/sh\nIMAGE=train:1\nfor lr in 0.1 1e-2; do\n  docker run -d --rm --gpus '\"device=0\"' --shm-size=8g -e LR=$lr "
        '-v "$PWD:/work" --name t-$lr "$IMAGE" python train.py --lr "$lr" \'$HOME\'\ndone\nwait\n'
    )

    assert [job.command for job in plan.jobs] == [("python", "train.py", "--lr", lr, "$HOME") for lr in ("0.1", "1e-2")]
    assert {job.image for job in plan.jobs} == {"train:1"}
    assert {dict(job.environment)["LR"] for job in plan.jobs} == {"0.1", "1e-2"}
    assert plan.jobs[0].volumes[0].source == "/srv/imported"
    assert plan.jobs[0].gpus[0].index == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--gpus all", {}),
        ("--gpus device=0", {"gpus": 0}),
        (f"--gpus '\"device={A}\"'", {"request": ByInstance(A)}),
        (f"--runtime=nvidia -e NVIDIA_VISIBLE_DEVICES={A}", {"request": ByInstance(A)}),
        (
            "--cpuset-cpus=0-3 --memory 16g --stop-timeout 30",
            {"stop_grace_period_s": 30.0, "mem_limit_bytes": 16 << 30},
        ),
        (
            "--ulimit memlock=-1 -p 8080:80 --network host --entrypoint /start",
            {"network_mode": "host", "entrypoint": ("/start",)},
        ),
        ("--mount type=bind,source=/a,target=/b,readonly", {}),
        ("-u 1000:1000 -w /work", {"user": "1000:1000", "working_dir": "/work"}),
        ("--privileged --restart=always --device /dev/nvidia0", {}),
    ],
)
def test_the_options_of_docker_run(words: str, expected: dict[str, object]) -> None:
    text = imported(
        Source(f"docker run {words.replace('-p 8080:80 --network host', '--network host')} i:1 python x.py\n", "r.sh"),
        None,
    )

    (job,) = read(text.text()).jobs

    assert job.command == ("python", "x.py")
    found = {name: getattr(job, name) if name != "gpus" else job.gpus[0].index for name in expected}
    assert found == expected


def test_a_task_spoolers_queue_keeps_its_order_slots_and_gpus() -> None:
    plan = read(sketch("task-spooler.sh").text())

    assert plan.max_parallel == 1
    assert [job.command[-1] for job in plan.jobs if job.command] == ["a.yaml", "b.yaml"]
    assert {job.gpus[0].index for job in plan.jobs} == {0}


def test_a_listing_is_a_job_for_each_device_and_a_broken_entry_of_a_specification_is_none() -> None:
    listed = read(sketch("nvidia-smi-L.txt").text())
    specified = sketch("cdi-nvidia.yaml")

    assert [job.request for job in listed.jobs] == [ByInstance(A), ByInstance(B)]
    assert [job.request for job in read(specified.text()).jobs] == [ByInstance(A)]
    assert f"not taken over: device {B}" in specified.text()


def test_a_pod_is_a_job() -> None:
    (job,) = read(sketch("k8s-pod-mixed.yaml").text()).jobs

    assert (job.request, job.cpus, job.mem_limit_bytes, job.shm_size_bytes) == (
        ByProfile("1g.5gb"),
        4,
        16 << 30,
        8 << 30,
    )


def test_an_exported_manifest_can_be_taken_back() -> None:
    text = exports.kubernetes(
        exports.plan("jobs: {a: {image: i, profile: 1g.5gb}, b: {image: i, profile: 2g.10gb, cpus: 3}}")
    )

    assert [job.request for job in take(text).jobs] == [ByProfile("1g.5gb"), ByProfile("2g.10gb")]


def test_several_files_are_one_plan_whose_names_do_not_clash() -> None:
    whole = merged([sketch("student-slice.env"), sketch("student-slice.env"), sketch("k8s-pod-mixed.yaml")])

    plan = read(whole.text())

    assert [job.name for job in plan.jobs] == ["train", "train-2", "train-a"]
    assert plan.jobs[2].image == "registry.example/train:1"


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("", "empty.yaml", "nothing-to-import"),
        ("just some words\n", "notes.txt", "unknown-format"),
        ("jobs: {a: {image: i}}\n", "plan.yaml", "is-a-plan"),
        ("services: {}\n", "compose.yaml", "nothing-to-import"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", "s.yaml", "nothing-to-import"),
        ("GPU 0: A (UUID: GPU-00000000-0000-4000-8000-000000000000)\n", "l.txt", "nothing-to-import"),
        ("#!/bin/sh\necho hello\n", "x.sh", "no-trainings"),
        ("#!/bin/sh\nnvidia-smi mig -cgi 9,9 -C\n", "x.sh", "no-trainings"),
        ("a: [1\n", "x.yaml", "yaml-syntax"),
    ],
)
def test_what_holds_nothing_for_a_plan_is_told_so(text: str, name: str, kind: str) -> None:
    with pytest.raises(MigctlError) as refused:
        imported(Source(text, name), None)

    assert (refused.value.exit_code, refused.value.id) == (2, kind)
    assert (
        refused.value.hint or kind == "yaml-syntax" or "empty" in refused.value.message or "no" in refused.value.message
    )


def test_calls_of_the_docker_sdk_are_jobs_as_far_as_they_are_written_out() -> None:
    found = sketch("docker-sdk.txt")

    (job,) = read(found.text()).jobs
    assert (job.name, job.image, job.command) == ("train-a", "registry.example/train:1", ("python", "train.py"))
    assert job.request == ByInstance(A)
    assert (str(job.cpuset), job.shm_size_bytes, job.security_opt, job.network_mode) == (
        "0-3",
        8 << 30,
        ("no-new-privileges",),
        "none",
    )
    assert "cap_drop=['ALL']" in found.text()
    odd = "import docker\ndocker.from_env().containers.run(IMAGE, name='x', image='i', odd_key=1, environment={'LR': lr()})\n"
    assert {"environment={'LR': lr()}", "odd_key=1"} <= set(
        re.findall(r"environment=.*?\)\}|odd_key=1", take_text(odd))
    )


def take_text(text: str) -> str:
    return imported(Source(text, "x.py"), None).text()
