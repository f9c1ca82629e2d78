"""Two `up`s at the same time, in two processes: nothing is shared that only one can have, and the slower one says so or goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.engine.follow import see
from migctl.host.procfs import own_affinity
from migctl.nvml.simstate import SimState
from tests.support.crash_server import Ended, Order, Server, server
from tests.support.crashes import Site, end_jobs, site_at

SPEC = {"one": "2g.10gb", "two": "1g.5gb"}
BUSY = {"locked", "blocked-by-others", "no-free-core"}
OTHER_UID = 54321
WAIT_S = 30.0
two_cores = pytest.mark.skipif(len(own_affinity()) < 2, reason="needs two CPUs to give each run one")


@pytest.fixture(scope="module")
def commands() -> Iterator[tuple[Server, Server]]:
    with server() as one, server() as other:
        yield one, other


def at_once(commands: tuple[Server, Server], *orders: Order) -> list[Ended]:
    for running, order in zip(commands, orders, strict=True):
        running.begin(order)
    return [running.end() for running in commands]


def neighbour(site: Site) -> Site:
    """Another user's migctl on the same machine; where only root could be another user, another run of the same."""
    folder = site.folder / "neighbour"
    folder.mkdir()
    uid = OTHER_UID if os.geteuid() == 0 else 0
    return replace(site, folder=folder, run="neighbour", uid=uid)


def cpus(site: Site) -> dict[str, CpuSet]:
    with site.session().ledger(write=False) as ledger:
        run = ledger.run(site.run)
    assert run is not None
    return {name: record.cpus for name, record in see(site.session(), run)[0].records.items()}


@pytest.mark.parametrize("wait_for_s", [0.0, WAIT_S], ids=["at once", "patient"])
def test_two_ups_of_one_plan_make_one_run(site: Site, commands: tuple[Server, Server], wait_for_s: float) -> None:
    strangers = site.gpu_instances()
    order = Order(site=site, command="up", spec=SPEC, wait_for_s=wait_for_s)

    ended = at_once(commands, order, order)

    assert "" in [e.error for e in ended]
    assert {e.error for e in ended} <= {"", *(BUSY if not wait_for_s else ())}
    site.assert_up(SPEC, strangers)
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("wait_for_s", [0.0, WAIT_S], ids=["at once", "patient"])
def test_two_users_share_no_placement(site: Site, commands: tuple[Server, Server], wait_for_s: float) -> None:
    strangers = site.gpu_instances()
    other = neighbour(site)

    ended = at_once(
        commands,
        *(Order(site=s, command="up", spec=SPEC, wait_for_s=wait_for_s) for s in (site, other)),
    )

    assert {e.error for e in ended} <= {"", *(BUSY if not wait_for_s else ())}
    ours = [i for i in site.gpu_instances() if i not in strangers]
    assert len(ours) == len(SPEC) * sum(e.error == "" for e in ended)
    for one in (site, other):
        one.down()
    assert site.gpu_instances() == strangers
    end_jobs(other.folder)


@two_cores
@pytest.mark.parametrize("boards", ["a100-40gb", "t4"], ids=["mig", "shared"])
def test_two_patient_users_share_no_core(tmp_path: Path, commands: tuple[Server, Server], boards: str) -> None:
    """Under `shared` no instance tells the second one that somebody was quicker: the claims do."""
    with site_at(tmp_path, foreign=(), boards=boards) as site:
        other = neighbour(site)
        spec = {"one": "1g.5gb"} if boards != "t4" else {"one": ""}

        ended = at_once(
            commands,
            *(Order(site=s, command="up", spec=spec, wait_for_s=WAIT_S, oversubscribe=False) for s in (site, other)),
        )

        assert {e.error for e in ended} <= {"", *BUSY}
        assert "" in [e.error for e in ended]
        held = [cpus(s)["one"] for s, e in zip((site, other), ended, strict=True) if not e.error]
        assert sum(len(c) for c in held) == len(CpuSet(cpu for c in held for cpu in c))
        for one in (site, other):
            one.down()


def test_an_up_and_a_down_of_one_run_exclude_each_other(site: Site, commands: tuple[Server, Server]) -> None:
    strangers = site.gpu_instances()
    site.up(SPEC)

    ended = at_once(
        commands,
        Order(site=site, command="down", spec=SPEC),
        Order(site=site, command="up", spec=SPEC),
    )

    assert {e.error for e in ended} <= {"", *BUSY}
    site.down()
    assert site.gpu_instances() == strangers
    assert not site.living()
    assert not SimState.load(site.sim).faults
