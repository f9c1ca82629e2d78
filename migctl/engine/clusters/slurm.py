"""Slurm behind the seam to clusters: batch jobs and arrays, known again by the run's token in their comment."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from migctl.core.cluster.clusterjobs import Group, groups
from migctl.core.cluster.clusterrun import ClusterJob, ClusterRun
from migctl.core.cluster.clusters import SlurmContainer
from migctl.core.cluster.clusterturns import Turn, turns
from migctl.core.cluster.slurmsite import Site
from migctl.core.cluster.slurmstate import Told, settled, with_needs
from migctl.core.plan import Plan
from migctl.core.words import counted
from migctl.engine.clusters.slurmending import Ending
from migctl.engine.clusters.slurmlogs import followed
from migctl.engine.clusters.slurmplan import Placed, placed
from migctl.engine.session import Session
from migctl.errors import HostError, MigctlError, Notice, PartlyApplied, PlanError
from migctl.render.slurm import container_of, dependency, sbatch_scripts
from migctl.runtimes.logfile import read_log
from migctl.slurm.answers import one_each
from migctl.slurm.client import Slurm
from migctl.slurm.tellings import Tellings, key

_MOST_IN_AN_ARRAY: Final = 1000
"""Where the site does not say: MaxArraySize is 1001 by default."""
_COMMENT = re.compile(r"--comment[= ](.*)")


class SlurmEngine:
    """The cluster that the Slurm programs on the caller's PATH belong to.

    Args:
        session: of the caller.
        folder: where jobs write their logs and ends; the nodes must have it, too.
    """

    look_s = 2.0
    keeps_order = True

    def __init__(self, session: Session, folder: Path) -> None:
        self._session = session
        self._slurm = Slurm(session.environ)
        self._tellings = Tellings(folder)
        self._config: Mapping[str, str] | None = None
        self._site: Site | None = None

    def place(self, plan: Plan) -> str:  # noqa: ARG002 -- Slurm's programs belong to one cluster, whatever the plan says
        """The cluster's name."""
        return self._settings().get("ClusterName", "")

    def turns(self, plan: Plan) -> tuple[Sequence[Turn], Sequence[Notice]]:
        """See `ClusterEngine`."""
        if self._session.environ.get("SUDO_UID") and self._session.caller.uid != 0 and _is_root():
            raise HostError(
                "needs-no-root", "jobs of Slurm belong to who submits them, and need no root", hint="without sudo"
            )
        found = self._placed(plan)
        made = turns(found.plan, tuple(self._cut(groups(found.plan, found.node))))
        self._check_container(found.plan)
        return made, ()

    def submit(
        self, plan: Plan, turns: Sequence[Turn], run: ClusterRun, save: Callable[[ClusterRun], None]
    ) -> ClusterRun:
        """See `ClusterEngine`."""
        wanted = self._placed(plan).plan
        self._tellings.make()
        attempts = {job.name: job.attempt for job in run.jobs if job.attempt > 1}
        above = (f"run {run.run}, handed over by migctl",)
        scripts = sbatch_scripts(wanted, turns, above, told=str(self._tellings.folder), attempts=attempts)
        there = {job.name: key(job) for job in run.jobs if job.unit}
        ids: dict[str, str] = {}
        try:
            for turn, script in zip(turns, scripts, strict=True):
                options = self._options(wanted, turn.group, run)
                if script.after:
                    options += [f"--dependency={dependency(script.after, ids, there)}", "--kill-on-invalid-dep=yes"]
                where = turn.group.first.place("profile", "memory", "slices")
                ids[turn.group.name] = self._slurm.submit(script.text, options, where=str(where))
                run = run.with_jobs(_given(turn.group, ids[turn.group.name], run))
                save(run)
            self._verify(run, list(ids.values()))
        except BaseException as error:
            self._take_back(run, list(ids.values()), error)
            raise
        return run

    def look(self, run: ClusterRun) -> Mapping[str, ClusterJob]:
        """See `ClusterEngine`."""
        begun, ended = self._tellings.read()
        asking = [j for j in run.jobs if j.unit and not j.state.ended and key(j) not in ended]
        told: dict[tuple[str, int | None], Told] = {}
        if asking:
            told = dict(self._own(run))
            silent = [j for j in asking if (j.unit, j.index) not in told]
            if silent:
                # Some may have ended between the two looks: their word counts, not that the queue does not have them.
                begun, ended = self._tellings.read()
                gone = [key(j) for j in silent if key(j) not in ended]
                told |= one_each(self._slurm.ends(gone)) if gone else {}
        return with_needs(
            {j.name: settled(j, begun.get(key(j)), ended.get(key(j)), told.get((j.unit, j.index))) for j in run.jobs}
        )

    def advance(self, run: ClusterRun) -> Sequence[str]:  # noqa: ARG002 -- Slurm's dependencies do it
        """Nothing is left to do."""
        return ()

    def logs(
        self,
        run: ClusterRun,
        job: str,
        *,
        follow: bool,
        tail: int | None,
        since: float | None,
        timestamps: bool,
        cancel: threading.Event,
    ) -> Iterator[bytes]:
        """See `ClusterEngine`; Slurm keeps no times of lines."""
        if since is not None or timestamps:
            raise PlanError("usage", "Slurm's logs have no times", hint="migctl logs without --since and --timestamps")
        known = run.job(job)
        if known is None or not known.unit:
            return
        path = Path(self._tellings.log(known))
        if not follow:
            yield from read_log(str(path), tail=tail)
            return
        yield from followed(path, tail, lambda: self._is_over(run, known), cancel, look_s=self.look_s)

    def stop(self, run: ClusterRun, jobs: Collection[str], *, grace_s: float | None, cancel: threading.Event) -> None:
        """See `ClusterEngine`."""
        chosen = {(j.unit, j.index) for j in run.jobs if j.name in jobs and j.unit}
        self._ending(run, grace_s, cancel).end(lambda told: (told.unit, told.index) in chosen)

    def remove(self, run: ClusterRun, *, grace_s: float | None, cancel: threading.Event) -> None:
        """See `ClusterEngine`; what has ended leaves Slurm by itself."""
        self._ending(run, grace_s, cancel).end(lambda _: True)

    def _ending(self, run: ClusterRun, grace_s: float | None, cancel: threading.Event) -> Ending:
        return Ending(self._slurm, self._tellings, run, lambda: self._own(run).values(), grace_s=grace_s, cancel=cancel)

    def _is_over(self, run: ClusterRun, job: ClusterJob) -> bool:
        return self._tellings.has_ended(job) or self.look(replace(run, jobs=(job,)))[job.name].state.ended

    # What the plan means here

    def _placed(self, plan: Plan) -> Placed:
        if self._site is None:
            self._site = self._slurm.site()
        return placed(plan, self._site)

    def _settings(self) -> Mapping[str, str]:
        if self._config is None:
            self._config = self._slurm.config()
        return self._config

    def _cut(self, found: Sequence[Group]) -> Iterator[Group]:
        """Groups that are no larger than the site's arrays."""
        told = self._settings().get("MaxArraySize", "")
        most = max(1, int(told) - 1) if told.isdigit() else _MOST_IN_AN_ARRAY
        taken = {group.name for group in found}
        for group in found:
            yield replace(group, members=group.members[:most])
            for start in range(most, len(group.members), most):
                name, number = f"{group.name}-{start // most + 1}", start // most + 1
                while name in taken:
                    number += 1
                    name = f"{group.name}-{number}"
                taken.add(name)
                yield replace(group, name=name, members=group.members[start : start + most])

    def _check_container(self, plan: Plan) -> None:
        if container_of(plan) is not SlurmContainer.PYXIS or self._slurm.has_pyxis():
            return
        raise PlanError(
            "no-pyxis",
            "the jobs have images, and Slurm has no containers of its own here (srun knows no --container-image)",
            where=plan.place("slurm"),
            hint="slurm: {container: apptainer}, docker or none says how this site runs images; runtime: process needs none",
        )

    def _options(self, plan: Plan, group: Group, run: ClusterRun) -> list[str]:
        pattern = "%A_%a" if group.array else "%j"
        folder = str(self._tellings.folder).replace("%", "%%")
        given = [m[1].strip().strip("'\"") for option in plan.slurm.options if (m := _COMMENT.fullmatch(option))]
        return [f"--output={folder}/{pattern}.log", "--open-mode=append", f"--comment={' '.join([*given, mark(run)])}"]

    # What is there

    def _own(self, run: ClusterRun) -> Mapping[tuple[str, int | None], Told]:
        """What Slurm knows of this run's jobs: an id alone could be somebody else's by now."""
        here = self._settings().get("ClusterName", "")
        if run.place != here:
            raise HostError(
                "another-cluster",
                f"the run {run.run} is on the cluster {run.place}, and Slurm's programs here belong to {here}",
                where=f"run {run.run}",
                hint="where it was handed over; SLURM_CONF tells these programs which cluster theirs is",
            )
        sign = mark(run)
        return one_each(told for told in self._slurm.jobs() if sign in told.comment.split())

    def _verify(self, run: ClusterRun, ids: Sequence[str]) -> None:
        known = {unit for unit, _ in self._own(run)}
        missing = [unit for unit in ids if unit not in known]
        if missing:
            raise HostError(
                "slurm-not-kept",
                f"Slurm took {counted(len(missing), 'job')} and does not show {'it' if len(missing) == 1 else 'them'} with "
                "the comment that migctl knows its jobs by",
                where=f"run {run.run}",
                hint="a job_submit plugin of the site may change comments: ask its administrator",
            )

    def _take_back(self, run: ClusterRun, ids: Sequence[str], cause: BaseException) -> None:
        """Nothing of a submission that failed runs, also not what the last sbatch may have handed over unseen."""
        try:
            self._slurm.cancel(ids)
            left = [told.unit for (_, _), told in self._own(run).items() if told.unit not in ids and _is_new(told, run)]
            self._slurm.cancel(left)
        except MigctlError as error:
            if not ids:
                return
            raise PartlyApplied(
                "not-taken-back",
                f"the submission failed ({cause}), and of it {', '.join(ids[:5])} could not be cancelled: {error.message}",
                where=f"run {run.run}",
                hint=f"migctl down {run.run}",
            ) from error


def mark(run: ClusterRun) -> str:
    """The word in the comments of the run's jobs."""
    return f"migctl-{run.token}"


def _given(group: Group, unit: str, run: ClusterRun) -> Mapping[str, ClusterJob]:
    known = {job.name: job for job in run.jobs}
    found: dict[str, ClusterJob] = {}
    for number, member in enumerate(group.members):
        job = known.get(member.name)
        if job is not None:
            found[job.name] = replace(job, unit=unit, index=number if group.array else None)
    return found


def _is_new(told: Told, run: ClusterRun) -> bool:
    return all(job.unit != told.unit for job in (*run.jobs, *run.past))


def _is_root() -> bool:
    return os.geteuid() == 0
