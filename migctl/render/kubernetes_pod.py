"""The pod of a Job: one container with whole CPUs, one device, and a script that counts its workers at the start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from migctl.core.cluster.clusterjobs import Group
from migctl.core.handover import Reference, parts, writable_places
from migctl.core.plan import Job, Plan, Volume
from migctl.core.yaml_text import Lines, Noted, Value
from migctl.errors import PlanError
from migctl.render.at_start import share_script
from migctl.render.exported import Exporter, argv
from migctl.render.kubernetes_values import dns_name, literal, quantity, too_many
from migctl.render.shell_words import is_name, word
from migctl.render.withheld import WHY, Withheld

_CONTAINER = "job"
_MOST_BYTES = 1 << 20
_PULL = {"missing": "IfNotPresent", "always": "Always", "never": "Never"}


def pod_spec(
    plan: Plan,
    group: Group,
    exporter: Exporter,
    devices: Mapping[str, Value],
    selector: Mapping[str, str],
    hidden: Withheld,
) -> dict[str, Value]:
    """The pod's specification.

    Args:
        plan: the job's plan.
        group: the jobs.
        exporter: who the pod runs as where the job names no user.
        devices: extended resources, or `claim`: the name of a ResourceClaimTemplate.
        selector: labels of the nodes.
        hidden: values that come from the plan's Secret.

    Raises:
        PlanError: there is no command to set variables for.
    """
    job, settings = group.first, plan.kubernetes
    mounts, volumes = _volumes(group)
    optional: dict[str, Value] = {
        "serviceAccountName": settings.service_account,
        "priorityClassName": settings.priority_class,
        "runtimeClassName": settings.runtime_class,
        "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
        "nodeSelector": dict(selector),
        "activeDeadlineSeconds": max(1, math.ceil(job.timeout_s)) if job.timeout_s else None,
        "hostNetwork": job.network_mode == "host" or None,
        "hostIPC": job.ipc == "host" or None,
        "hostAliases": _hosts(job),
        "securityContext": _pod_security(job, exporter),
    }
    claim = devices.get("claim")
    if claim is not None:
        optional["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": claim}]
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(job.stop_grace_period_s),
        **{key: value for key, value in optional.items() if value},
        "containers": [_container(plan, group, exporter, devices, mounts, hidden)],
        "volumes": volumes,
        # Nodes with GPUs are commonly tainted so (GKE by itself); the admission plugin ExtendedResourceToleration adds the same.
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }


def _container(
    plan: Plan,
    group: Group,
    exporter: Exporter,
    devices: Mapping[str, Value],
    mounts: list[Value],
    hidden: Withheld,
) -> dict[str, Value]:
    job = group.first
    container: dict[str, Value] = {"name": _CONTAINER, "image": job.image, "imagePullPolicy": _PULL[job.pull_policy]}
    script = _script(group, hidden)
    if script is not None:
        # One text for each job: a single one of more than 128 KiB cannot be given to a program (execve(2), MAX_ARG_STRLEN).
        whole: list[Value] = ["sh", "-c", Lines(script)]
        if group.array:
            whole += ["job", *map(Lines, _members(group, hidden))]
        if job.entrypoint is not None:
            container["command"] = whole
        else:
            container["args"] = Noted(whole, above=("behind the image's own entry point, if it has one",))
    if job.working_dir:
        container["workingDir"] = job.working_dir
    container["env"] = _environment(plan, group, exporter, hidden, counted=script is not None)
    # Equal requests and limits with whole CPUs: only then the kubelet's static CPU manager pins (policy_static.go).
    amounts: dict[str, Value] = {"cpu": str(group.cpus)}
    given = () if group.memory_given else ("no mem_limit in the plan: an estimate for the processes and /dev/shm",)
    amounts["memory"] = Noted(quantity(group.memory_bytes), above=given)
    amounts |= {name: amount for name, amount in devices.items() if name != "claim"}
    resources: dict[str, Value] = {"limits": amounts}
    resources["requests"] = {
        name: amount.value if isinstance(amount, Noted) else amount for name, amount in amounts.items()
    }
    if "claim" in devices:
        resources["claims"] = [{"name": "gpu"}]
    container["resources"] = resources
    if job.ports:
        container["ports"] = [{"containerPort": p.container, "protocol": p.protocol.upper()} for p in job.ports]
    if security := _container_security(job):
        container["securityContext"] = security
    container["volumeMounts"] = mounts
    return container


def _script(group: Group, hidden: Withheld) -> str | None:
    """What the container runs; `None`: the image's own command, with numbers as planned."""
    if not any(argv(job) for job in group.members):
        if group.array and len({job.environment for job in group.members}) > 1:
            raise PlanError(
                "command-missing",
                f"the jobs of {group.first.origin} differ in their variables and have no command that could be given them",
                where=group.first.where,
                hint="add command: what the image would run",
            )
        return None
    own = frozenset(name for job in group.members for name, _ in job.environment)
    text = "set -u\n" + share_script(group, own, limited=True)
    text += "case ${NVIDIA_VISIBLE_DEVICES-} in MIG-*) MIGCTL_MIG_UUID=$NVIDIA_VISIBLE_DEVICES ;; *) MIGCTL_MIG_UUID= ;; esac\n"
    text += "export MIGCTL_MIG_UUID\n"
    if not group.array:
        return text + _member(group.first, hidden) + 'exec "$@"\n'
    return (
        text
        + '# Behind this script stands the text of each index.\nshift "$JOB_COMPLETION_INDEX"\neval "$1"\nexec "$@"\n'
    )


def _members(group: Group, hidden: Withheld) -> list[str]:
    """Variables and command of each index.

    Raises:
        PlanError: together they are more than an API server keeps in one object (etcd: 1.5 MiB).
    """
    texts = [_member(job, hidden) for job in group.members]
    if sum(map(len, texts)) > _MOST_BYTES:
        raise too_many(group)
    return texts


def _member(job: Job, hidden: Withheld) -> str:
    """Kubernetes would replace `$(NAME)` in the job's own words; in ours it finds no name of a variable."""
    given = hidden.of(job)

    def assigned(name: str, value: str) -> str:
        return f'"${{{given[name]}:?{WHY}}}"' if name in given else word(literal(value))

    lines = [f"export MIGCTL_JOB={word(job.name)}"]
    lines += [f"export {name}={assigned(name, value)}" for name, value in job.environment if is_name(name)]
    odd = [f"{word(literal(name))}={assigned(name, value)}" for name, value in job.environment if not is_name(name)]
    words = [*(["env", *odd] if odd else []), *(word(literal(text)) for text in argv(job))]
    lines.append(f"set -- {' '.join(words)}")
    return "".join(f"{line}\n" for line in lines)


def _environment(plan: Plan, group: Group, exporter: Exporter, hidden: Withheld, *, counted: bool) -> list[Value]:
    """What is known beforehand; with a script the rest is counted there."""
    job = group.first
    fixed = {"MIGCTL_RUN": plan.name, "MIGCTL_ATTEMPT": "1", "MIGCTL_PROFILE": group.profile or ""}
    if group.gpu_memory_mib is not None:
        fixed["MIGCTL_GPU_MEMORY_MIB"] = str(group.gpu_memory_mib)
    if group.batch_size is not None:
        fixed["MIGCTL_BATCH_SIZE"] = str(group.batch_size)
    if job.user is None and not _is_root(exporter.ids):
        fixed |= writable_places(exporter.name)
    if not counted:
        fixed |= {
            "MIGCTL_JOB": group.name,
            "MIGCTL_CPUS": str(group.cpus),
            "MIGCTL_NUM_WORKERS": str(group.num_workers),
        }
        fixed |= {
            name: value
            for name, value in job.environment
            if name not in hidden.of(job) and not any(isinstance(p, Reference) for p in parts(value))
        }
    entries: list[Value] = [{"name": name, "value": literal(value)} for name, value in fixed.items()]
    # With a script each job of the group gives its own variables their values, from these.
    kept = [
        {variable: variable for variable in hidden.of(one).values()} if counted else hidden.of(one)
        for one in group.members
    ]
    for name, variable in {name: variable for found in kept for name, variable in found.items()}.items():
        reference: dict[str, Value] = {"name": secret_name(plan), "key": variable}
        entries.append({"name": name, "valueFrom": {"secretKeyRef": reference}})
    if counted:
        limit: dict[str, Any] = {"resourceFieldRef": {"resource": "limits.cpu"}}
        entries.append({"name": "MIGCTL_CPU_LIMIT", "valueFrom": limit})
    return entries


def secret_name(plan: Plan) -> str:
    """Of the Secret with the plan's values that are not written into the manifests."""
    return dns_name(f"{plan.name}-secrets")


def _volumes(group: Group) -> tuple[list[Value], list[Value]]:
    """Mounts of the container, and the pod's volumes; /dev/shm first, which is 64 MiB otherwise."""
    memory: dict[str, Value] = {"medium": "Memory", "sizeLimit": quantity(group.shm_bytes)}
    mounts: list[Value] = [{"name": "shm", "mountPath": "/dev/shm"}]
    volumes: list[Value] = [{"name": "shm", "emptyDir": memory}]
    names: dict[str, str] = {}
    for volume in group.first.volumes:
        key = volume.source or volume.target
        name = names.get(key) if volume.source else None
        if name is None:
            name = f"volume-{len(names) + 1}"
            names[key] = name
            volumes.append({"name": name, **_source(volume)})
        mount: dict[str, Value] = {"name": name, "mountPath": volume.target}
        mounts.append(mount | ({"readOnly": True} if volume.read_only else {}))
    for number, spelt in enumerate(group.first.tmpfs, 1):
        path, _, options = spelt.partition(":")
        size = next((o.removeprefix("size=") for o in options.split(",") if o.startswith("size=")), "")
        limit = {"sizeLimit": size.upper().rstrip("B") + ("i" if size[-1:].isalpha() else "")} if size.isalnum() else {}
        volumes.append({"name": f"tmpfs-{number}", "emptyDir": {"medium": "Memory", **limit}})
        mounts.append({"name": f"tmpfs-{number}", "mountPath": path})
    return mounts, volumes


def _source(volume: Volume) -> dict[str, Value]:
    if volume.kind == "tmpfs":
        return {"emptyDir": {"medium": "Memory"}}
    if volume.kind == "volume":
        return {"persistentVolumeClaim": {"claimName": dns_name(volume.source)}} if volume.source else {"emptyDir": {}}
    return {"hostPath": Noted({"path": volume.source}, beside="of the node: it must be there on every one")}


def _hosts(job: Job) -> list[Value]:
    by_address: dict[str, list[str]] = {}
    for spelt in job.extra_hosts:
        name, _, address = spelt.partition(":")
        if address != "host-gateway":
            by_address.setdefault(address.strip("[]"), []).append(name)
    return [{"ip": address, "hostnames": names} for address, names in by_address.items()]


def _is_root(ids: str) -> bool:
    return ids.partition(":")[0] == "0"


def _pod_security(job: Job, exporter: Exporter) -> dict[str, Value]:
    """Numbers only: names are the image's business, and root is whom the image or the cluster makes it."""
    context: dict[str, Value] = {}
    ids = job.user if job.user not in (None, "image") else ("" if job.user or _is_root(exporter.ids) else exporter.ids)
    uid, _, gid = (ids or "").partition(":")
    if uid.isdigit():
        context["runAsUser"] = int(uid)
        if gid.isdigit():
            context["runAsGroup"] = int(gid)
    if groups := [int(group) for group in job.group_add if group.isdigit()]:
        context["supplementalGroups"] = groups
    return context


def _container_security(job: Job) -> dict[str, Value]:
    context: dict[str, Value] = {}
    if job.cap_add:
        context["capabilities"] = {"add": [name.upper().removeprefix("CAP_") for name in job.cap_add]}
    if any(option.startswith("no-new-privileges") and not option.endswith("false") for option in job.security_opt):
        context["allowPrivilegeEscalation"] = False
    return context
