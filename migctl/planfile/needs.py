"""`needs` of each job as names of expanded jobs; unknown names, cycles and needs of a later stage are mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from migctl.core import names
from migctl.core.queueing.precedence import late, ordered
from migctl.planfile.expand import Draft
from migctl.planfile.problems import MOST, Report, did_you_mean
from migctl.planfile.turn_fields import Need

MOST_NEEDS = 200_000
"""Of all jobs together; a group that waits for a whole other group is what stages are for."""

_NEAR = 200
"""Names that a misspelt one is compared with."""


def resolved(drafts: Sequence[Draft], keys: Iterable[str], report: Report) -> tuple[tuple[str, ...], ...]:
    """For each draft the names that it needs; mistakes go to the report.

    Args:
        drafts: all jobs, in the file's order.
        keys: the names under `jobs:`, also of jobs with a mistake.
        report: takes the mistakes.
    """
    if not any(draft.model.needs for draft in drafts):
        return ((),) * len(drafts)
    known = _Names(drafts, keys, report)
    found: list[tuple[str, ...]] = []
    total = 0
    for draft in drafts:
        needs = known.of(draft)
        total += len(needs)
        if total > MOST_NEEDS:
            report.error(
                "too-many-needs",
                f"with job {draft.origin} the plan has more than {MOST_NEEDS} needs from job to job",
                draft.nodes["needs"].start,
                "write stage: 1 and stage: 2 where one group of jobs follows another",
            )
            return ((),) * len(drafts)
        found.append(needs)
    _check_order(drafts, found, report)
    return tuple(found)


class _Names:
    """The names that `needs` may hold."""

    def __init__(self, drafts: Sequence[Draft], keys: Iterable[str], report: Report) -> None:
        groups: dict[str, list[str]] = {key: [] for key in keys}
        for draft in drafts:
            groups.setdefault(draft.origin, []).append(draft.name)
        self._groups = {key: tuple(group) for key, group in groups.items()}
        self._single = {draft.name: draft.origin for draft in drafts}
        self._report = report
        self._unknown = 0
        self._complete = not any(error.id in ("too-many-jobs", "bad-matrix") for error in report.errors)
        self._seen: dict[tuple[Need, ...], tuple[str, ...]] = {}

    def of(self, draft: Draft) -> tuple[str, ...]:
        """What this job needs, each once."""
        needs = draft.model.needs or ()
        if needs not in self._seen:
            self._seen[needs] = self._resolved(draft, needs)
        found = self._seen[needs]
        # Only here is it known which of them is the job itself, so the file's place of it is looked for again.
        if draft.name in found:
            self._report.error(
                "needs-itself",
                f"job {draft.origin} needs itself",
                self._place(draft, needs),
                f"write needs: [] in {draft.origin}" if self._inherited(draft, needs) else "delete it",
            )
            return ()
        return found

    def _resolved(self, draft: Draft, needs: tuple[Need, ...]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for need in needs:
            group = self._group(need.name)
            if group is None:
                self._refuse(draft, need)
            else:
                found.update(dict.fromkeys(group))
        return tuple(found)

    def _group(self, name: str) -> tuple[str, ...] | None:
        if name in self._groups:
            return self._groups[name]
        # As the names of expanded jobs are made: a value may hold characters that no name may, or be too long.
        exact = name if name in self._single else names.expanded(name)
        return (exact,) if exact in self._single else None

    def _refuse(self, draft: Draft, need: Need) -> None:
        if not self._complete:
            return
        self._unknown += 1
        self._report.error(
            "unknown-job",
            f"job {draft.origin} needs {need.name[:80]!r}, and there is no such job",
            need.offset,
            self._near(need.name) if self._unknown <= MOST else None,
        )

    def _near(self, name: str) -> str | None:
        """Of a plan of 10,000 jobs only some are compared: first the keys, then the jobs of the one that it begins with."""
        if near := did_you_mean(name, list(self._groups)[:_NEAR]):
            begun = [key for key in self._groups if name.startswith(f"{key}-")]
            expanded = [one for key in begun for one in self._groups[key]][:_NEAR]
            return did_you_mean(name, expanded) or near
        begun = [key for key in self._groups if name.startswith(f"{key}-")]
        expanded = [one for key in begun for one in self._groups[key]][:_NEAR]
        if not expanded:
            return f"there are {', '.join(list(self._groups)[:5])}" if len(self._groups) <= 5 else None
        return did_you_mean(name, expanded) or f"there is {expanded[0]}; {begun[0]} means all of them"

    def _place(self, draft: Draft, needs: tuple[Need, ...]) -> int:
        return next(
            (need.offset for need in needs if draft.name in (self._group(need.name) or ())), draft.nodes["needs"].start
        )

    def _inherited(self, draft: Draft, needs: tuple[Need, ...]) -> bool:
        return 0 <= self._place(draft, needs) < draft.start


def _check_order(drafts: Sequence[Draft], found: Sequence[tuple[str, ...]], report: Report) -> None:
    by_name = {draft.name: draft for draft in drafts}
    needs: Mapping[str, tuple[str, ...]] = {draft.name: of for draft, of in zip(drafts, found, strict=True)}
    order = ordered(needs)
    told: set[frozenset[str]] = set()
    for cycle in order.cycles:
        origins = frozenset(by_name[name].origin for name in cycle)
        if origins in told:
            continue  # of the same jobs, with other values of the matrix
        told.add(origins)
        shown = cycle if len(cycle) <= 8 else (*cycle[:4], "…", *cycle[-3:])
        report.error(
            "needs-cycle",
            f"jobs need each other: {' → '.join(shown)}",
            by_name[cycle[-2]].nodes["needs"].start,
            "delete one of these needs",
        )
    if order.cycles:
        return
    stages = {draft.name: draft.model.stage for draft in drafts if draft.model.stage is not None}
    for one in late(needs, order.names, stages):
        draft = by_name[one.name]
        whose = "" if one.through == one.needs else f" through {one.through}"
        report.error(
            "needs-later-stage",
            f"job {one.name} of stage {one.stage} needs {one.needs} of stage {one.needs_stage}{whose}, "
            f"which begins only when stage {one.stage} has ended",
            draft.nodes["needs"].start,
            f"give {draft.origin} stage {one.needs_stage} or later",
        )
