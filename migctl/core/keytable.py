"""Each key of a plan and how each target expresses it; whoever writes or runs a plan elsewhere reads it from here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from migctl.core.choices import RuntimeName
from migctl.core.cluster.clusters import SlurmContainer
from migctl.core.plan import Job, Plan


class Target(StrEnum):
    """What a plan can be handed to."""

    DOCKER = "docker"
    PROCESS = "process"
    COMPOSE = "compose"
    SHELL = "shell"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    MIG_PARTED = "mig-parted"


@dataclass(frozen=True, slots=True)
class Told:
    """The target can say it, in these words."""

    how: str


@dataclass(frozen=True, slots=True)
class Partly:
    """The target can say some of it."""

    how: str
    lost: str
    """What is not as with migctl, a clause."""
    when: Callable[[Job], bool] | None = None
    """Which jobs lose it; `None`: all that give the key."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The target cannot say it."""

    why: str


Support = Told | Partly | Unsupported


@dataclass(frozen=True, slots=True)
class Lost:
    """Keys of a plan that do not arrive at a target as they are meant, all for one reason."""

    keys: tuple[str, ...]
    jobs: tuple[str, ...]
    """Keys under `jobs:`; empty for a key of the plan."""
    support: Partly | Unsupported

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        several = len(self.keys) > 1
        whose = (
            f" of {', '.join(self.jobs[:3])}{' …' if len(self.jobs) > 3 else ''}" if self.jobs and not several else ""
        )
        what = f"{', '.join(self.keys)}{whose}"
        if isinstance(self.support, Partly):
            return f"{what}: {self.support.how}; {self.support.lost}"
        return f"{what} {'are' if several else 'is'} left out: {self.support.why}"


def lost(plan: Plan, target: Target) -> tuple[Lost, ...]:
    """The keys that the plan gives and the target cannot express as they are meant, in the table's order."""
    found: dict[Partly | Unsupported, dict[str, dict[str, None]]] = {}
    for key, row in PLAN_KEYS.items():
        if key in plan.keys and not isinstance(support := row[target], Told):
            found.setdefault(support, {})[key] = {}
    bare = target is Target.SLURM and plan.slurm.container is SlurmContainer.NONE and plan.runtime is RuntimeName.DOCKER
    for key, row in JOB_KEYS.items():
        support = _ON_THE_NODE if bare and isinstance(row[Target.PROCESS], Unsupported) else row[target]
        if isinstance(support, Told):
            continue
        when = support.when if isinstance(support, Partly) else None
        jobs = dict.fromkeys(j.origin for j in plan.jobs if key in j.keys and (when is None or when(j)))
        if jobs:
            found.setdefault(support, {})[key] = jobs
    return tuple(Lost(tuple(keys), tuple(dict.fromkeys(j for k in keys.values() for j in k)), support)
                 for support, keys in found.items())  # fmt: skip


_ON_THE_NODE = Unsupported("slurm: {container: none} runs the command on the node as it is")

Row = Mapping[Target, Support]


def _row(docker: object, process: object, compose: object, shell: object, slurm: object, kubernetes: object) -> Row:
    cells = (docker, process, compose, shell, slurm, kubernetes)
    row: dict[Target, Support] = {Target.MIG_PARTED: _GEOMETRY_ONLY}
    for target, cell in zip(tuple(Target)[:6], cells, strict=True):
        row[target] = cell if isinstance(cell, Partly | Unsupported) else Told(str(cell))
    return row


def _layout(told: str) -> Row:
    """A key that decides who gets what, before anything is written."""
    row = _row(told, told, told, told, told, told)
    return {**row, Target.MIG_PARTED: Told(told)}


def _same(told: object) -> Row:
    return _row(told, told, told, told, told, told)


def _heading(row: Row) -> Row:
    """A key that says what the whole is, rather than something about the jobs."""
    return {**row, Target.MIG_PARTED: Told("name of the configuration, or not used")}


def _local(told: str, cluster: str) -> Row:
    """A key of this machine's planning that a cluster decides for itself."""
    return _row(told, told, told, told, Unsupported(cluster), Unsupported(cluster))


def _running(told: str, exported: str, slurm: object, kubernetes: object) -> Row:
    """A key of the queue, which only a running migctl or another scheduler has."""
    return _row(told, told, Unsupported(exported), Unsupported(exported), slurm, kubernetes)


_GEOMETRY_ONLY = Unsupported("a mig-parted configuration holds GPU instances, and nothing of the jobs on them")
_NO_QUEUE = "nothing watches the jobs after they were started"
_NO_CONTAINER = Unsupported("a process has no container")
_SITE = "the cluster decides it for all its users"
_NODE_CORES = "the node decides which cores; the number is asked for"
_ANY_GPU = Partly("a kind of GPU, for its profiles", "the cluster chooses the GPU itself")
_POD = "a pod has no such setting"
_RUNTIME = "the site's container runtime decides it"

PLAN_KEYS: Mapping[str, Row] = {
    "name": _heading(_row("label io.migctl.run", "name of the run", "name", "a comment, and the containers' names",
                          "--job-name", "label app.kubernetes.io/part-of")),
    "gpu": {**_layout("the GPUs planned for"), **dict.fromkeys((Target.SLURM, Target.KUBERNETES), _ANY_GPU)},
    "strategy": _layout("the layout; whole GPUs where it is not mig"),
    "runtime": _row("the engine's API", "processes of the caller", "services", "docker run, or taskset for processes",
                    "the container option, or the command as it is", "containers"),
    "engine": _heading(_same("chosen by the export itself")),
    "slurm": _heading(_row("not used", "not used", "not used", "not used", "#SBATCH options", "not used")),
    "kubernetes": _heading(_row("not used", "not used", "not used", "not used", "not used", "fields of Job and pod")),
    "enable_mig": _row("nvmlDeviceSetMigMode", "nvmlDeviceSetMigMode", Partly("a comment", "MIG mode must be on before"),
                       "nvidia-smi -mig 1, as a comment", Unsupported("partitioning nodes is the administrator's"),
                       Unsupported("partitioning nodes is the administrator's")),
    "reserve_cores": _layout("cores planned with"),
    "cpu_share": _local("cores planned with", _SITE),
    "cpu_split": _local("cores planned with", "a job's cores go with its part of the GPU there"),
    "numa": _row("CpusetMems for strict", "set_mempolicy for strict", "near cores; cpuset only",
                 "near cores; --cpuset-mems for strict", Unsupported(_NODE_CORES),
                 Unsupported("the kubelet's Topology Manager decides it")),
    "oversubscribe": _local("cores planned with", "a cluster queues what has no core"),
    "allow_overlap": _local("cores planned with", "a cluster knows no foreign containers"),
    "threads_per_core": _layout("cores planned with"),
    "max_parallel": _row("the queue", "the queue", "profiles: what runs later is started by hand", "rounds of jobs",
                         Partly("%N of an array", "several arrays each run so many at a time"),
                         Partly("parallelism of an Indexed Job", "several Jobs each run so many at a time")),
    "fail_fast": _running("the queue", _NO_QUEUE, Unsupported("Slurm's arrays go on after a failure"),
                          Unsupported("Jobs go on after another one's failure")),
    "stagger": _running("the queue", _NO_QUEUE, Unsupported("the scheduler starts jobs when there is room"),
                        Unsupported("the scheduler starts jobs when there is room")),
    "on_finish": _running("the queue", _NO_QUEUE, Unsupported("Slurm frees what a job had when it ends"),
                          Partly("a finished pod frees its device", "it stays listed until it is deleted")),
    "on_reboot": _running("the supervisor", "nothing starts them again after a reboot",
                          Unsupported("the site requeues or not"), Unsupported("the Job controller makes lost pods again")),
    "notify": _running("command or webhook", _NO_QUEUE, Unsupported("write slurm: {options: [--mail-type=END]}"),
                       Unsupported("the cluster's own events and alerts tell")),
    "defaults": _heading(_same("merged into each job")),
    "jobs": _layout("the jobs"),
}  # fmt: skip
"""Keys of the plan itself."""

_LABELS_OF_SLURM = Unsupported("Slurm's jobs have no labels")
_SLURM_QUOTA = Unsupported("no container option of Slurm has it for all of pyxis, apptainer and docker")

JOB_KEYS: Mapping[str, Row] = {
    "profile": {**_row("the GPU instance", "the GPU instance", "device_ids", "nvidia-smi mig -cgi", "--gres=gpu:TYPE:1",
                       "nvidia.com/mig-PROFILE"), Target.MIG_PARTED: Told("mig-devices")},
    "memory": _layout("the profile that holds it"),
    "slices": _layout("the profile with so many"),
    "instance": _row("the administrator's instance", "the administrator's instance", "device_ids", "its UUID",
                     Unsupported("a cluster chooses the device itself"), Unsupported("a cluster chooses the device itself")),
    "gpu": {**_layout("the GPUs planned for"), **dict.fromkeys((Target.SLURM, Target.KUBERNETES), _ANY_GPU)},
    "cpus": _row("CpusetCpus", "sched_setaffinity", "cpuset", "--cpuset-cpus, taskset -c", "--cpus-per-task", "requests.cpu"),
    "cpuset": _row("CpusetCpus", "sched_setaffinity", "cpuset", "--cpuset-cpus, taskset -c",
                   Partly("--cpus-per-task", _NODE_CORES), Partly("requests.cpu", _NODE_CORES)),
    "num_workers": _same("MIGCTL_NUM_WORKERS"),
    "batch_size": _same("MIGCTL_BATCH_SIZE"),
    "batch_size_memory": _same("the scale of batch_size"),
    "batch_fixed_memory": _same("the scale of batch_size"),
    "storage": _same("MIGCTL_NUM_WORKERS"),
    "matrix": _row("a container each", "a process each", "a service each", "a line each", "--array", "an Indexed Job"),
    "replicas": _row("a container each", "a process each", "a service each", "a line each", "--array", "an Indexed Job"),
    "needs": _row("the queue", "the queue", Partly("profiles: what runs later is started by hand",
                                                      "nobody looks whether the needed jobs succeeded"),
                  "later rounds, if the need succeeded",
                  "--dependency=afterok, --kill-on-invalid-dep=yes",
                  Unsupported("a Job waits for no other; apply the next when the first has succeeded (kubectl wait)")),
    "stage": _row("the queue", "the queue", "profiles: what runs later is started by hand", "rounds of jobs",
                  "--dependency=afterany",
                  Unsupported("a Job waits for no other; apply the next when the first has ended (kubectl wait)")),
    "priority": _row("the queue", "the queue", "the order of rounds", "the order of rounds", "--nice",
                     Unsupported("priority classes are the cluster's: write kubernetes: {priority_class: NAME}")),
    "retries": _running("the queue", _NO_QUEUE, "a loop in the job", "backoffLimit, backoffLimitPerIndex"),
    "retry_on": _running("the queue", _NO_QUEUE, Unsupported("every failure of the command counts as one"),
                         Unsupported("every failure of the pod counts as one")),
    "timeout": _row("the queue", "the queue", Unsupported(_NO_QUEUE),
                    Partly("timeout of processes", "containers have no limit there", lambda job: job.image is not None),
                    "--time, in whole minutes", "activeDeadlineSeconds"),
    "expect": _running("status", _NO_QUEUE, Unsupported("it only informs"), Unsupported("it only informs")),
    "resumable": _running("the supervisor", "nothing starts it again after a reboot", "--requeue",
                          Partly("backoffLimit", "a lost pod is made again whether or not the job can resume")),
    "snapshot": _running("a copy of the source", "the folder is mounted as it is", Unsupported("the folder is used as it is"),
                         Unsupported("the image or volume is used as it is")),
    "mps": _running("CUDA_MPS_*", "no MPS server is started", Unsupported("the site's MPS plugin decides it"),
                    Unsupported("the device plugin's sharing decides it")),
    "per_instance": {
        **_layout("jobs on one instance"),
        Target.SLURM: Unsupported("a GRES belongs to one job"),
        Target.KUBERNETES: Unsupported("a device belongs to one container"),
    },
    "image": _row("Image", _NO_CONTAINER, "image", "docker run IMAGE", "--container-image, apptainer exec, docker run", "image"),
    "pull_policy": _row("pull", _NO_CONTAINER, "pull_policy", "--pull", Unsupported(_RUNTIME), "imagePullPolicy"),
    "command": _row("Cmd", "argv", "command", "the words after the image", "the words of srun", "a script in args"),
    "entrypoint": _row("Entrypoint", "argv", "entrypoint", "--entrypoint", "before the command's words",
                       "a script in command"),
    "environment": _row("Env", "the environment", "environment", "--env", "export", "env"),
    "env_file": _same("its variables as of now, among the environment's"),
    "volumes": _row("Mounts", _NO_CONTAINER, "volumes", "--mount",
                    Partly("bind mounts of the container", "named and anonymous volumes have no place there",
                           lambda job: any(volume.kind != "bind" for volume in job.volumes)),
                    Partly("hostPath of the node, a PersistentVolumeClaim of a volume's name, emptyDir",
                           "a host path must be there on every node",
                           lambda job: any(volume.kind == "bind" for volume in job.volumes))),
    "ports": _row("PortBindings", _NO_CONTAINER, "ports", "--publish", Unsupported("the job shares the node's network"),
                  Partly("containerPort", "no Service publishes it")),
    "network_mode": _row("NetworkMode", _NO_CONTAINER, "network_mode", "--network",
                         Unsupported("the job shares the node's network"),
                         Partly("hostNetwork for host", "other networks are the cluster's",
                                lambda job: job.network_mode != "host")),
    "shm_size": _row("ShmSize", _NO_CONTAINER, "shm_size", "--shm-size",
                     Partly("--shm-size of docker", "pyxis and apptainer have the node's /dev/shm"),
                     "emptyDir of medium Memory on /dev/shm"),
    "tmpfs": _row("Tmpfs", _NO_CONTAINER, "tmpfs", "--tmpfs", _SLURM_QUOTA,
                  Partly("emptyDir of medium Memory", "only the option size is kept")),
    "working_dir": _row("WorkingDir", "cwd", "working_dir", "--workdir, cd", "--container-workdir, --pwd, --workdir, cd",
                        "workingDir"),
    "group_add": _row("GroupAdd", _NO_CONTAINER, "group_add", "--group-add",
                      Unsupported("the job has the user's own groups"),
                      Partly("supplementalGroups", "only numbers can be given",
                             lambda job: not all(group.isdigit() for group in job.group_add))),
    "ulimits": _row("Ulimits", _NO_CONTAINER, "ulimits", "--ulimit", _SLURM_QUOTA, Unsupported(_POD)),
    "labels": _row("Labels", _NO_CONTAINER, "labels", "--label", _LABELS_OF_SLURM, "annotations of the pod"),
    "extra_hosts": _row("ExtraHosts", _NO_CONTAINER, "extra_hosts", "--add-host", _SLURM_QUOTA,
                        Partly("hostAliases", "host-gateway has no address there")),
    "cap_add": _row("CapAdd", _NO_CONTAINER, "cap_add", "--cap-add", _SLURM_QUOTA, "securityContext.capabilities.add"),
    "security_opt": _row("SecurityOpt", _NO_CONTAINER, "security_opt", "--security-opt", _SLURM_QUOTA,
                         Partly("allowPrivilegeEscalation for no-new-privileges", "other options are the cluster's")),
    "ipc": _row("IpcMode", _NO_CONTAINER, "ipc", "--ipc", Partly("--ipc of docker", "pyxis and apptainer share the node's"),
                Partly("hostIPC for host", "every other value is the pod's own", lambda job: job.ipc != "host")),
    "stop_grace_period": _row("StopTimeout", "SIGTERM, then SIGKILL", "stop_grace_period", "--stop-timeout",
                              Partly("--signal=TERM before the end of --time", "scancel waits as long as the site's KillWait"),
                              "terminationGracePeriodSeconds"),
    "mem_limit": _row("Memory", _NO_CONTAINER, "mem_limit", "--memory", "--mem", "requests.memory"),
    "user": _row("User", _NO_CONTAINER, "user", "--user", Unsupported("the job runs as who submits it"),
                 Partly("runAsUser, runAsGroup", "only numbers can be given",
                        lambda job: job.user not in (None, "image") and not job.user.replace(":", "").isdigit())),
}  # fmt: skip
"""Keys of a job."""


def unknown(keys: Iterable[str], table: Mapping[str, Row]) -> tuple[str, ...]:
    """Keys without a row."""
    return tuple(key for key in keys if key not in table)
