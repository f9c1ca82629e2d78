"""Which way into a container is chosen, for each kind of engine."""

from __future__ import annotations

from typing import Any

import pytest

from migctl.runtimes.access import GpuAccess, Way, choose_access

RUNC: dict[str, Any] = {"Runtimes": {"runc": {}}}
NVIDIA: dict[str, Any] = {"Runtimes": {"runc": {}, "nvidia": {}}}
CDI: dict[str, Any] = {"Runtimes": {"runc": {}}, "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}
BOTH: dict[str, Any] = CDI | NVIDIA


def engine(version: str, *, podman: bool = False) -> dict[str, Any]:
    return {"Version": version, "Components": [{"Name": "Podman Engine" if podman else "Engine"}]}


OLD, MIDDLE, NEW, PODMAN = engine("20.10.24+dfsg1"), engine("28.2.2"), engine("29.2.0"), engine("4.3.1", podman=True)

# what the engine says, its version, the hook on its PATH, simulated → way, driver
TABLE: list[tuple[str, dict[str, Any], dict[str, Any], bool | None, bool, Way, str]] = [
    ("a runtime nvidia wins on an old engine", NVIDIA, OLD, None, False, Way.RUNTIME, ""),
    ("a runtime nvidia wins over CDI and over the hook", BOTH, NEW, True, False, Way.RUNTIME, ""),
    ("a runtime nvidia serves a simulated GPU too", NVIDIA, OLD, False, True, Way.RUNTIME, ""),
    ("the hook, by capability before engine 29", RUNC, OLD, True, False, Way.REQUEST, ""),
    ("the hook, by capability on 28 though CDI is there", CDI, MIDDLE, True, False, Way.REQUEST, ""),
    (
        "the hook by name from 29 on, or a stale CDI spec wins",
        CDI,
        NEW,
        True,
        False,
        Way.REQUEST,
        "nvidia.runtime-hook",
    ),
    ("an unknown hook is tried for a real GPU", RUNC, OLD, None, False, Way.REQUEST, ""),
    ("an unknown hook is not tried for a simulated GPU", RUNC, OLD, None, True, Way.NONE, ""),
    ("a hook is used for a simulated GPU", RUNC, OLD, True, True, Way.REQUEST, ""),
    ("no hook on an old engine", RUNC, OLD, False, False, Way.NONE, ""),
    ("no hook, but CDI", CDI, NEW, False, False, Way.CDI, ""),
    ("no hook, CDI, simulated", CDI, NEW, False, True, Way.NONE, ""),
    ("podman has CDI only", RUNC, PODMAN, None, False, Way.CDI, ""),
    ("podman with a simulated GPU", RUNC, PODMAN, True, True, Way.NONE, ""),
    ("an engine that says nothing at all", {}, {}, False, False, Way.NONE, ""),
]


@pytest.mark.parametrize(
    ("case", "info", "version", "hook", "simulated", "way", "driver"), TABLE, ids=[r[0] for r in TABLE]
)
def test_the_way_is_chosen_on_purpose(
    case: str, info: dict[str, Any], version: dict[str, Any], hook: bool | None, simulated: bool, way: Way, driver: str
) -> None:
    chosen = choose_access(info, version, simulated, hook=hook)

    assert (chosen.way, chosen.driver) == (way, driver)
    assert chosen.usable == (way in (Way.RUNTIME, Way.REQUEST))
    assert str(chosen).startswith("none: ") != chosen.usable


def test_a_hardened_toolkit_makes_the_next_way_the_chosen_one() -> None:
    hook = choose_access(NVIDIA, OLD, False, hook=True, variable_allowed=False)
    none = choose_access(NVIDIA, OLD, False, hook=False, variable_allowed=False)

    assert hook.way is Way.REQUEST
    assert none.way is Way.NONE
    assert "accept-nvidia-visible-devices-envvar-when-unprivileged" in none.reason


def test_a_guess_says_that_only_a_start_can_prove_it() -> None:
    assert str(choose_access(RUNC, OLD, False, hook=None)) == "device request (--gpus), which only a start can prove"


REQUEST = {"Driver": "", "Count": 0, "DeviceIDs": ["MIG-1"], "Capabilities": [["gpu"]], "Options": {}}
SETTINGS = [
    (GpuAccess(Way.RUNTIME), "MIG-1", {"Runtime": "nvidia"}, ("NVIDIA_VISIBLE_DEVICES=MIG-1",)),
    (GpuAccess(Way.REQUEST), "MIG-1", {"DeviceRequests": [REQUEST]}, ()),
    (GpuAccess(Way.REQUEST, driver="d"), "MIG-1", {"DeviceRequests": [REQUEST | {"Driver": "d"}]}, ()),
    (GpuAccess(Way.NONE), "MIG-1", {}, ("NVIDIA_VISIBLE_DEVICES=void",)),
    (GpuAccess(Way.CDI), "MIG-1", {}, ("NVIDIA_VISIBLE_DEVICES=void",)),
    (GpuAccess(Way.RUNTIME), None, {}, ("NVIDIA_VISIBLE_DEVICES=void",)),
]


@pytest.mark.parametrize(("access", "device", "host", "variables"), SETTINGS)
def test_a_device_is_named_once_and_in_one_way_only(
    access: GpuAccess, device: str | None, host: dict[str, Any], variables: tuple[str, ...]
) -> None:
    assert access.settings(device) == (host, variables)
