"""The systemd service: what is written, what systemctl is told, and when that is refused.

systemd itself does not run here: systemctl is a stand-in that notes its words, `systemd-analyze verify` is the real one where it is
installed, and the engine is the stand-in for newer ones.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from migctl.core.unitfile import Service, unit_name, unit_text
from migctl.engine import service
from migctl.errors import Busy, HostError
from tests.support.engine_stub import StubEngine, serving
from tests.support.systemctl import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def container(name: str, **host: Any) -> dict[str, Any]:
    return {
        "Id": f"{abs(hash(name)):064x}",
        "Name": f"/{name}",
        "Config": {"Labels": {}, "Env": []},
        "HostConfig": {"CpusetCpus": "", **host},
        "State": {"Status": "running", "Running": True, "Pid": 1, "ExitCode": 0, "Error": ""},
    }


def hooked(name: str) -> dict[str, Any]:
    return container(name, DeviceRequests=[{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}])


def by_cdi(name: str) -> dict[str, Any]:
    return container(name, DeviceRequests=[{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}])


def engine_with(*containers: dict[str, Any], driver: str = "systemd", options: tuple[str, ...] = ()) -> StubEngine:
    engine = StubEngine(version="28.3.0", info={"CgroupDriver": driver, "SecurityOptions": list(options)})
    engine.containers.update({one["Id"]: one for one in containers})
    return engine


def test_the_unit_is_written_enabled_and_read_and_taken_away_again(machine: Machine) -> None:
    there = service.install(machine.session, system=True, reload=True, folder=machine.units)
    name = there.unit

    text = (machine.units / name).read_text()
    assert machine.told() == [f"enable --no-reload {name}", "daemon-reload"]
    assert f'Environment="MIGCTL_STATE_DIR={machine.folder}/state"' in text
    assert '"-m" "migctl" "service" "run"' in text
    assert service.state(machine.session, folder=machine.units).enabled == "enabled"
    assert service.uninstall(machine.session, system=True, folder=machine.units)
    assert machine.files() == []
    assert machine.told()[2:] == [f"disable --no-reload {name}"]
    assert not service.uninstall(machine.session, system=True, folder=machine.units)
    assert service.state(machine.session, folder=machine.units).kind is None


@pytest.mark.parametrize(
    ("containers", "driver", "options", "system", "named"),
    [
        ((hooked("bert"), hooked("alice"), by_cdi("safe"), container("web")), "systemd", (), True, "alice, bert"),
        ((container("legacy", Runtime="nvidia"),), "systemd", (), True, "legacy"),
        ((hooked("bert"),), "cgroupfs", (), True, None),
        ((by_cdi("safe"), container("web")), "systemd", (), True, None),
        ((hooked("bert"),), "systemd", (), False, None),
        ((hooked("mine"),), "systemd", ("name=rootless",), False, "mine"),
    ],
    ids=["by a hook", "by the runtime", "cgroupfs", "by CDI, or none", "not the user's manager", "rootless"],
)
def test_a_reload_that_would_take_gpus_away_is_refused_with_their_names(
    machine: Machine,
    containers: tuple[dict[str, Any], ...],
    driver: str,
    options: tuple[str, ...],
    system: bool,
    named: str | None,
) -> None:
    with serving(engine_with(*containers, driver=driver, options=options)) as host:
        machine.environ["DOCKER_HOST"] = host
        if named is None:
            service.install(machine.session, system=system, reload=True, folder=machine.units)
            return
        with pytest.raises(Busy) as refused:
            service.install(machine.session, system=system, reload=True, folder=machine.units)

        assert f": {named}; nothing was changed" in refused.value.message
        assert (machine.told(), machine.files()) == ([], [])
        service.install(machine.session, system=system, reload=False, folder=machine.units)
        assert not any("daemon-reload" in line for line in machine.told())


def test_what_systemd_refuses_leaves_no_unit(machine: Machine) -> None:
    machine.environ["SYSTEMCTL_REFUSES"] = "yes"

    with pytest.raises(HostError, match="No medium found"):
        service.install(machine.session, system=True, reload=True, folder=machine.units)

    assert machine.files() == []


def test_where_systemd_does_not_run_the_unit_counts_from_the_next_start(machine: Machine) -> None:
    machine.environ["SYSTEMCTL_OFFLINE"] = "yes"

    there = service.install(machine.session, system=True, reload=True, folder=machine.units)

    assert [notice.id for notice in there.notices] == ["not-reloaded"]
    assert machine.files() == [there.unit]


def test_without_systemctl_it_says_so(machine: Machine) -> None:
    machine.environ["PATH"] = str(machine.folder)

    with pytest.raises(HostError) as missing:
        service.install(machine.session, system=True, reload=True, folder=machine.units)

    assert (missing.value.id, machine.files()) == ("no-systemctl", [])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("system", [True, False])
def test_systemd_reads_the_unit_as_it_is_meant(tmp_path: Path, system: bool) -> None:
    strange = 'a b%h$HOME"quoted"\\back'
    program = tmp_path / (strange if system else "a b%h")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / unit_name("kim.lee-2", system=system)
    text = unit_text(
        Service(
            user="kim.lee-2",
            command=(str(program), "service", strange),
            environment={"MIGCTL_STATE_DIR": strange},
            system=system,
        )
    )
    unit.write_text(text)

    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert unit.name == ("migctl-kim.lee\\x2d2.service" if system else "migctl.service")
