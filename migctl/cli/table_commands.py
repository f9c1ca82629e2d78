"""The tables: profiles, workers, schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import MOST_CORES, CommandBody, Option
from migctl.core.choices import Storage


def profiles(
    common: Common,
    on: Annotated[
        str | None, Option("--on", metavar="BOARD", help="A board's profiles instead of this machine's.")
    ] = None,
) -> None:
    """List the GPU instance profiles: ids, memory, SMs, how many fit and where."""
    from migctl.cli.tables import show_profiles

    show_profiles(common, on)


def workers(
    common: Common,
    cores: Annotated[
        int | None, Option("--cores", least=1, most=MOST_CORES, help="Physical cores; default: this machine's.")
    ] = None,
    jobs: Annotated[
        int | None,
        Option("--jobs", least=1, most=MOST_CORES, help="Trainings at the same time; default: a table of several."),
    ] = None,
    storage: Annotated[
        Storage | None, Option("--storage", help="Where the data lie; auto: the device behind this folder.")
    ] = None,
    markdown: Annotated[bool, Option("--markdown", help="A Markdown table, for a wiki or a README.")] = False,
) -> None:
    """Print how many num_workers each of several trainings should have."""
    from migctl.cli.tables import show_workers

    show_workers(common, cores=cores, jobs=jobs, storage=storage, markdown=markdown)


def schema(
    common: Common,
    policy: Annotated[bool, Option("--policy", help="Of the administrator's policy file instead.")] = False,
) -> None:
    """Print the JSON Schema of the plan file, for editors."""
    from migctl.cli.tables import show_schema

    show_schema(common, policy=policy)


COMMANDS: Mapping[str, CommandBody] = {"profiles": profiles, "workers": workers, "schema": schema}
