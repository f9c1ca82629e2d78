"""Asks Slurm's programs, and has them do things: no library of its version is needed, and no right but to submit jobs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from migctl.core.cluster.slurmsite import Site
from migctl.core.cluster.slurmstate import Told
from migctl.errors import HostError, MigctlError
from migctl.programs import find_program
from migctl.slurm import answers
from migctl.slurm.failures import NO_PROGRAM, NOT_IN_TIME, failure

_TIME_S: Final = 100.0
"""A busy controller answers after a minute (MessageTimeout is 10 s by default, and the programs try again)."""
_AT_ONCE: Final = 500
"""Ids on one command line."""
_FILTERS = re.compile(r"(?:SQUEUE|SINFO|SCANCEL|SACCT)_\w+")
"""Variables by which a user changes what these programs print or spare."""
_GONE = re.compile(r"invalid job id|already completing|job has finished|does not exist|job/step already", re.IGNORECASE)


class Slurm:
    """The cluster that the programs on the PATH belong to.

    Args:
        environ: the caller's environment, which submitted jobs get as well, as with sbatch itself.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        asking = {name: value for name, value in environ.items() if not _FILTERS.fullmatch(name)}
        self._asking = {**asking, "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}

    def config(self) -> Mapping[str, str]:
        """The cluster's settings by name, as `ClusterName`, `MaxArraySize`."""
        return answers.config(self._answer(["scontrol", "show", "config"]))

    def site(self) -> Site:
        """The nodes with GPUs, in all partitions."""
        return answers.site(self._answer(["sinfo", "--Node", "--all", "--noheader", "--format", answers.NODES]))

    def has_pyxis(self) -> bool:
        """Whether srun knows containers here."""
        return "--container-image" in self._answer(["srun", "--help"])

    def submit(self, script: str, options: Sequence[str], *, where: str) -> str:
        """Hand one batch script over; returns its id.

        Args:
            script: its text.
            options: of sbatch; they win over those in the script.
            where: what it is, for errors.
        """
        words = ["sbatch", "--parsable", *options]
        said = self._answer(words, self._environ, given=script, where=where)
        found = answers.submitted(said)
        if found is None:
            raise HostError(
                "slurm-failed", f"sbatch told no job id: {said.strip()[:200]}", where=where, hint="squeue --me"
            )
        return found

    def jobs(self) -> Sequence[Told]:
        """The caller's jobs, those that ended minutes ago as well; each member of an array by itself."""
        words = ["squeue", "--me", "--all", "--states=all", "--array", "--noheader", f"--format={answers.JOBS}"]
        return tuple(answers.jobs(self._answer(words)))

    def ends(self, units: Sequence[str]) -> Sequence[Told]:
        """What the accounting knows of these jobs; nothing where there is none."""
        found: list[Told] = []
        for some in _some(units):
            words = [
                "sacct",
                "--noheader",
                "--parsable2",
                "--allocations",
                f"--format={answers.ENDS}",
                "--jobs",
                ",".join(some),
            ]
            try:
                found += answers.ends(self._answer(words))
            except MigctlError:
                return ()
        return tuple(found)

    def cancel(self, ids: Sequence[str]) -> None:
        """End jobs: SIGTERM, and SIGKILL after the site's KillWait; those that have ended are fine."""
        for some in _some(ids):
            self._signalled(["scancel", *some])

    def terminate(self, ids: Sequence[str]) -> None:
        """SIGTERM to running jobs, and nothing more: their scripts learn that they are stopped, their steps may save.

        With --full srun would get it, too, and it kills its step a few seconds later.
        """
        for some in _some(ids):
            self._signalled(["scancel", "--ctld", "--batch", "--signal=TERM", *some])
            self._signalled(["scancel", "--ctld", "--signal=TERM", *some])

    def _signalled(self, words: Sequence[str]) -> None:
        code, _, errors = self._run(words, self._asking, "")
        left = "\n".join(line for line in errors.splitlines() if not _GONE.search(line))
        if code != 0 and left.strip():
            raise failure(words, code, left)

    def _answer(
        self,
        words: Sequence[str],
        environ: Mapping[str, str] | None = None,
        *,
        given: str = "",
        where: str | None = None,
    ) -> str:
        code, output, errors = self._run(words, environ or self._asking, given)
        if code != 0:
            raise failure(words, code, errors or output, where=where)
        return output

    def _run(self, words: Sequence[str], environ: Mapping[str, str], given: str) -> tuple[int, str, str]:
        """Exit code and both outputs. Ctrl-C in the terminal does not reach the program: a submission is never left half known."""
        program = find_program(words[0], environ)
        if program is None:
            return NO_PROGRAM, "", ""
        try:
            done = subprocess.run(
                [program, *words[1:]],
                env=environ,
                input=given.encode(),
                capture_output=True,
                timeout=_TIME_S,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            return NOT_IN_TIME, "", ""
        except OSError as error:
            return NO_PROGRAM, "", error.strerror or str(error)
        return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def _some(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[n : n + _AT_ONCE] for n in range(0, len(ids), _AT_ONCE))
