"""A Slurm site as its nodes describe it, and which of its own GPU types a profile of the plan means there; never a guess."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from migctl.core.words import counted
from migctl.errors import DoesNotFit, MigctlError, PlanError, Where

MIG_TYPE = re.compile(r"(?:.*[_.:-])?(?P<profile>(?P<slices>[1-7])g\.(?P<memory>[0-9]+)gb(?P<attribute>[+-][a-z.]+)?)")
"""A type that names a MIG profile, alone or behind the GPU's name (https://slurm.schedmd.com/gres.html#MIG_Management)."""
_WHOLE_SLICES = 7
_LIST = "sinfo -N -h -o '%N %P %G' lists them"


@dataclass(frozen=True, slots=True)
class Gres:
    """GPUs of one type on a node."""

    kind: str
    """The type's name; nothing where the site has none."""
    count: int

    @property
    def profile(self) -> str | None:
        """The MIG profile that the type names; `None`: a whole GPU, or a name that tells nothing."""
        found = MIG_TYPE.fullmatch(self.kind)
        return found["profile"] if found else None

    @property
    def slices(self) -> int:
        """Compute slices of all of them."""
        found = MIG_TYPE.fullmatch(self.kind)
        return self.count * (int(found["slices"]) if found else _WHOLE_SLICES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node that has GPUs, in one partition."""

    name: str
    partition: str
    gres: tuple[Gres, ...]
    cores: int
    threads_per_core: int = 1

    @property
    def slices(self) -> int:
        """Compute slices of all its GPUs."""
        return sum(gres.slices for gres in self.gres)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What jobs can be sent to."""

    nodes: tuple[SlurmNode, ...]
    """Those with GPUs, once for each partition."""
    partitions: tuple[str, ...] = ()
    """All of them."""
    default: str | None = None
    """The partition of jobs that name none."""

    def within(self, partition: str | None) -> tuple[SlurmNode, ...]:
        """The nodes that a job of this partition can get; a list of names means any of them."""
        wanted = partition or self.default
        names = set(wanted.split(",")) if wanted else None
        return tuple(node for node in self.nodes if names is None or node.partition in names)


def gres(text: str) -> tuple[Gres, ...]:
    """The GPUs in sinfo's `%G`: `gpu:a100_1g.5gb:7(S:0-1),gpu:a100:1,shard:4`."""
    found: list[Gres] = []
    for part in re.split(r",(?![^(]*\))", text):
        name, *rest = re.sub(r"\(.*?\)", "", part).split(":")
        if name != "gpu":
            continue
        number = rest.pop() if rest and rest[-1].isdigit() else "1"
        found.append(Gres(":".join(rest), int(number)))
    return tuple(found)


def kinds(nodes: Iterable[SlurmNode]) -> tuple[str, ...]:
    """The types on these nodes, each once."""
    return tuple(dict.fromkeys(gres.kind for node in nodes for gres in node.gres if gres.count))


def gres_type(profile: str, told: Mapping[str, str], site: Site, partition: str | None, where: Where | str) -> str:
    """The site's type for a profile.

    Args:
        profile: as the plan has it.
        told: profile → type, from the plan's `slurm: {gres: …}`.
        site: what is there.
        partition: that the jobs go to; `None`: the default one.
        where: for errors.

    Raises:
        DoesNotFit: no node that the jobs can get has such a type.
        PlanError: several types could be meant.
    """
    here = kinds(site.within(partition))
    asked = told.get(profile)
    if asked is not None:
        if asked in here:
            return asked
        raise _absent(f"type {asked}, which the plan gives for {profile},", [asked], site, partition, where)
    if profile in here:
        return profile
    able = _meant(profile, here)
    if len(able) == 1:
        return able[0]
    if able:
        raise _ambiguous(profile, able, where)
    raise _absent(f"GPU of profile {profile}", _meant(profile, kinds(site.nodes)), site, partition, where)


def whole_type(site: Site, partition: str | None, where: Where | str) -> str:
    """The type to ask for where a whole GPU is wanted; nothing: any will do.

    Raises:
        DoesNotFit: there are only parts of GPUs.
        PlanError: parts are there beside whole GPUs of several types, and `gpu:1` would mean any of them.
    """
    nodes = site.within(partition)
    there = [gres for node in nodes for gres in node.gres if gres.count]
    whole = tuple(dict.fromkeys(gres.kind for gres in there if gres.profile is None))
    if not whole:
        raise _absent("whole GPU", [], site, partition, where)
    if len(whole) == len(kinds(nodes)):
        return ""
    if len(whole) == 1:
        return whole[0]
    raise PlanError(
        "which-gres",
        f"the jobs want a whole GPU, and there are {', '.join(kind or 'untyped ones' for kind in whole)} beside MIG devices",
        where=where,
        hint=f"slurm: {{options: [--gres=gpu:{whole[0]}:1]}} in the plan says which",
    )


def node_share(site: Site, partition: str | None, types: Iterable[str]) -> SlurmNode | None:
    """The node with the fewest cores for each compute slice among those that have one of these types; nothing if none has."""
    wanted = set(types)
    able = [n for n in site.within(partition) if n.slices and (not wanted or any(g.kind in wanted for g in n.gres))]
    return min(able, key=lambda node: (Fraction(node.cores, node.slices), node.cores), default=None)


def _meant(profile: str, there: Iterable[str]) -> list[str]:
    """Types whose profile is this one; sites write `+me` also as `.me`."""
    spelt = {profile.casefold(), profile.replace("+", ".").casefold()}
    return [kind for kind in there if (kind.casefold() in spelt) or any(_ends(kind.casefold(), one) for one in spelt)]


def _ends(kind: str, profile: str) -> bool:
    return kind.endswith(profile) and kind[-len(profile) - 1] in "_.:-"


def _ambiguous(profile: str, able: list[str], where: Where | str) -> PlanError:
    return PlanError(
        "which-gres",
        f"{profile} could be any of {', '.join(able)} on this cluster",
        where=where,
        hint=f"slurm: {{gres: {{{profile}: {able[0]}}}}} in the plan says which",
        data={"types": able},
    )


def _absent(what: str, elsewhere: list[str], site: Site, partition: str | None, where: Where | str) -> MigctlError:
    here = [kind or "gpu without a type" for kind in kinds(site.within(partition))]
    name = partition or site.default
    place = f"partition {name}{'' if partition else ' (the default)'}" if name else "the cluster"
    if partition and site.partitions and not set(partition.split(",")) <= set(site.partitions):
        unknown = ", ".join(sorted(set(partition.split(",")) - set(site.partitions)))
        return PlanError(
            "no-partition",
            f"the cluster has no partition {unknown}; there {'is' if len(site.partitions) == 1 else 'are'} "
            + ", ".join(site.partitions),
            where=where,
            hint="slurm: {partition: NAME}",
        )
    others = sorted({n.partition for n in site.nodes if any(g.kind in elsewhere for g in n.gres)})
    offered = f"; it has {', '.join(here[:8])}{' …' if len(here) > 8 else ''}" if here else "; it has no GPU at all"
    if others:
        hint = f"{counted(len(others), 'partition')} {'has' if len(others) == 1 else 'have'} it: slurm: {{partition: {others[0]}}}"
    else:
        hint = f"{_LIST}; nodes are partitioned by their administrator: migctl export mig-parted"
    return DoesNotFit(
        "no-gres", f"{place} has no {what}{offered}".replace(",;", ";"), where=where, hint=hint, data={"types": here}
    )
