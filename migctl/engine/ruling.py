"""The administrator's policy in one command: what it leaves to this user, and what of a plan it forbids."""

from __future__ import annotations

import grp
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from migctl.core.judgement import (
    allowed_gpus,
    judge_allocation,
    judge_gpus,
    judge_mode,
    judge_plan,
    reserved_cpus,
)
from migctl.core.policy import MountRule, Policy, Rules
from migctl.errors import MigctlError, Problems
from migctl.host.caller import Caller
from migctl.host.policyfile import read_policy

if TYPE_CHECKING:
    from migctl.core.allocation import Allocation
    from migctl.core.gpu.mig import Gpu
    from migctl.core.machine import Machine
    from migctl.core.plan import Plan
    from migctl.engine.session import Session


@dataclass(frozen=True, slots=True)
class Ruling:
    """The policy, and the rules in it that hold for the caller."""

    policy: Policy
    rules: Rules

    def applied(self, machine: Machine) -> Machine:
        """The machine as this user may have it."""
        rule = self.rules.reserve_cores
        return replace(
            machine,
            allowed=allowed_gpus(self.rules, machine.gpus),
            reserved=reserved_cpus(self.rules, machine.topology),
            reserved_by=f"{rule.name} of {self.policy.owner}, {rule.where}" if rule is not None else "",
        )

    def on_gpus(self, plan: Plan, gpus: Sequence[Gpu]) -> tuple[MigctlError, ...]:
        """GPUs that the plan names and the user may not use."""
        return judge_gpus(self.policy, self.rules, plan, gpus)

    def on_mode(self, gpus: Sequence[Gpu]) -> tuple[MigctlError, ...]:
        """Whether the MIG mode of these GPUs may be changed."""
        return judge_mode(self.policy, self.rules, gpus)

    def on_plan(self, plan: Plan, allocation: Allocation, machine: Machine) -> tuple[MigctlError, ...]:
        """Everything else that the plan would break, with what it would get on this machine."""
        return (
            *judge_plan(self.policy, self.rules, plan, os.path.realpath),
            *judge_allocation(self.policy, self.rules, plan, allocation, machine),
        )


def ruling(session: Session) -> Ruling | None:
    """What holds for the caller; `None`: this machine has no policy.

    Raises:
        HostError, Problems: there is one that cannot be believed or read.
    """
    found = read_policy(session.environ, session.caller)
    if found is None:
        return None
    from migctl.planfile.policy import parse

    policy = parse(found.data, str(found.path), found.owner)
    caller = session.caller
    rules = policy.of(caller.name, caller.uid, [name for gid in caller.groups if (name := _group(gid))])
    return Ruling(policy, _with_home(rules, caller))


def refuse(broken: Sequence[MigctlError]) -> None:
    """Stop where a rule is broken.

    Raises:
        HostError, Problems: every broken rule.
    """
    if broken:
        raise Problems(broken) if len(broken) > 1 else broken[0]


def refuse_mode(session: Session, gpus: Sequence[Gpu]) -> None:
    """Stop before the MIG mode of these GPUs is changed, where that is forbidden.

    Raises:
        HostError: `policy-enable-mig`.
    """
    held = ruling(session) if gpus else None
    if held is not None:
        refuse(held.on_mode(gpus))


def _with_home(rules: Rules, caller: Caller) -> Rules:
    """Folders as the kernel knows them: `~` is the caller's home by the user database, and a link of the administrator's counts."""
    if rules.mounts is None:
        return rules
    home = _home(caller)
    places = tuple(
        MountRule(os.path.realpath(home + m.path[1:] if m.path.startswith("~") else m.path), m.read_only)
        for m in rules.mounts.value
    )
    return replace(rules, mounts=replace(rules.mounts, value=places))


def _home(caller: Caller) -> str:
    """Never from HOME, which a user may set to `/`."""
    import pwd

    try:
        return pwd.getpwuid(caller.uid).pw_dir
    except KeyError:
        return "/nonexistent"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""
