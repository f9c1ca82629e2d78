"""What kubectl says when something is wrong, as errors with a way out: the one place that reads its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from migctl.errors import Busy, HostError, MigctlError, PlanError
from migctl.programs import Answer

_MOST: Final = 400
_NOISE = re.compile(r"Warning: |[EWIF][0-9]{4} ")
"""Warnings of the server, and lines of klog, which repeat what the last line says."""
_Make = Callable[[str, str, str | None], MigctlError]


def _no_namespace(said: str, where: str, name: str | None) -> MigctlError:
    return HostError(
        "no-namespace", said, where=where, hint=f"kubectl create namespace {name or 'NAME'}; or write another namespace"
    )


def _forbidden(said: str, where: str, _: str | None) -> MigctlError:
    quota = re.search(r"exceeded quota: ([^\s,]+)", said)
    if quota is not None:
        return Busy("quota", said, where=where, hint=f"kubectl describe quota {quota[1]} tells what is used")
    return HostError(
        "cluster-forbids",
        said,
        where=where,
        hint="kubectl auth can-i --list shows what you may; the administrator grants more",
    )


_KNOWN: Sequence[tuple[re.Pattern[str], _Make]] = (
    (
        re.compile(r"context \"?[^\"]*\"? does not exist|no context exists|context was not found"),
        lambda said, where, _: HostError(
            "no-context", said, where=where, hint="kubectl config get-contexts lists them; see context under kubernetes"
        ),
    ),
    (
        re.compile(
            r"must be logged in|Unauthorized|getting credentials|credentials plugin|token (?:has|is) expired",
            re.IGNORECASE,
        ),
        lambda said, where, _: HostError(
            "cluster-login", said, where=where, hint="log in to the cluster as always; `kubectl get jobs` must work"
        ),
    ),
    (
        re.compile(r"[Xx]509|certificate"),
        lambda said, where, _: HostError(
            "cluster-certificate",
            said,
            where=where,
            hint="kubectl config view shows the cluster's address and certificate",
        ),
    ),
    (
        re.compile(
            r"connection to the server .* refused|Unable to connect to the server|no such host|i/o timeout"
            r"|couldn't get current server API group list|was refused - did you specify|no route to host"
        ),
        lambda said, where, _: Busy(
            "cluster-unreachable",
            said,
            where=where,
            hint="kubectl cluster-info; without a kubeconfig: KUBECONFIG=FILE, or context under kubernetes",
        ),
    ),
    (re.compile(r"namespaces \"(?P<name>[^\"]+)\" not found"), _no_namespace),
    (
        re.compile(r"being terminated"),
        lambda said, where, _: Busy(
            "namespace-ends", said, where=where, hint="the namespace is being deleted; write another one"
        ),
    ),
    (
        re.compile(r"Too ?Many ?Requests|etcdserver: request timed out|ServiceUnavailable|Timeout: request did not"),
        lambda said, where, _: Busy("cluster-overloaded", said, where=where, hint="again in a while"),
    ),
    (
        re.compile(
            r"field is immutable|conflict(?:s)? with |object has been modified|the provided object specified uid"
        ),
        lambda said, where, _: Busy(
            "name-taken",
            said,
            where=where,
            hint="a Job of this name is there that is not this run's: kubectl get job NAME -o yaml; "
            "rename the run (name), or delete that Job",
        ),
    ),
    (re.compile(r"(?i)forbidden"), _forbidden),
    (
        re.compile(r"no matches for kind \"?(?:ResourceClaim|DeviceClass)|resource\.k8s\.io"),
        lambda said, where, _: HostError(
            "no-dra", said, where=where, hint="the cluster has no resource.k8s.io/v1 (Kubernetes 1.34); leave dra out"
        ),
    ),
    (
        re.compile(r"field not declared in schema|unknown field|strict decoding error"),
        lambda said, where, _: HostError(
            "cluster-too-old",
            said,
            where=where,
            hint="the cluster does not know this field; Kubernetes 1.29 or later knows all that migctl writes",
        ),
    ),
    (
        re.compile(r"admission webhook \"[^\"]*\" denied|ValidatingAdmissionPolicy"),
        lambda said, where, _: PlanError(
            "cluster-policy", said, where=where, hint="a rule of the cluster refuses it; its message says which"
        ),
    ),
    (
        re.compile(r" is invalid: |Invalid value|admission webhook"),
        lambda said, where, _: PlanError(
            "cluster-refuses", said, where=where, hint="migctl export kubernetes shows what was sent"
        ),
    ),
)


def translated(answer: Answer, doing: str, where: str) -> MigctlError:
    """The error that a kubectl with another exit code than 0 has met.

    Args:
        answer: what it said.
        doing: what was asked of it, e.g. `applying the Jobs`.
        where: the cluster, for people.
    """
    if answer.code == 127:
        return HostError(
            "no-kubectl",
            "engine: kubernetes works through kubectl, and there is none on the PATH",
            hint="install kubectl, of a version within one of the cluster's; migctl export kubernetes needs none",
        )
    if answer.code == -1:
        return Busy(
            "cluster-slow",
            f"kubectl did not end while {doing}",
            where=where,
            hint="kubectl cluster-info; again in a while",
        )
    said = _said(answer)
    for pattern, make in _KNOWN:
        if (found := pattern.search(said)) is not None:
            groups = found.groupdict()
            return make(f"{doing}: {_bare(said)}", where, groups.get("name"))
    return HostError("kubectl-failed", f"{doing}: {_bare(said) or f'kubectl ended with {answer.code}'}", where=where)


def is_gone(answer: Answer) -> bool:
    """Whether it failed because the object is not there any more, or is another of the same name by now."""
    said = _said(answer)
    other = "Precondition failed: UID" in said or ("metadata.uid" in said and "immutable" in said)
    return other or ("(NotFound)" in said and "namespaces" not in said)


def lacks_the_kind(answer: Answer) -> bool:
    """Whether the cluster knows no objects of the kind that was asked for."""
    return "have a resource type" in answer.errors


def _bare(said: str) -> str:
    """Without the reason in brackets, which says what the sentence says."""
    return re.sub(r"^\(\w+\) ", "", said)


def _said(answer: Answer) -> str:
    """Its first complaints on one line, without the words that stand before each and the warnings."""
    lines = [line for line in answer.errors.splitlines() if line.strip() and not _NOISE.match(line)]
    lines = list(dict.fromkeys(lines or answer.errors.splitlines()))
    said = " ".join(" ".join(lines).split())
    said = re.sub(
        r"^(?:error: |Error from server(?: \((?P<why>\w+)\))?: )", lambda m: f"({m['why']}) " if m["why"] else "", said
    )
    said = re.sub(r"\(BadRequest\) |Please review the fields above.*", "", said).strip()
    printable = "".join(sign if sign.isprintable() else "?" for sign in said)
    return printable if len(printable) <= _MOST else printable[: _MOST - 1] + "…"
