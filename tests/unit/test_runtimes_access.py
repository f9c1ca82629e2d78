"""Which way into a container is chosen, for each kind of engine."""

from __future__ import annotations

from typing import Any

import pytest

from migctl.runtimes.access import GpuAccess, Way, choose_access

RUNC: dict[str, Any] = {"Runtimes": {"runc": {}}}
NVIDIA: dict[str, Any] = {"Runtimes": {"runc": {}, "nvidia": {}}}
DIRS = ("/etc/cdi", "/var/run/cdi")


def engine(version: str, *, podman: bool = False) -> dict[str, Any]:
    return {"Version": version, "Components": [{"Name": "Podman Engine" if podman else "Engine"}]}


D20, D25, D28, D29 = engine("20.10.24+dfsg1"), engine("25.0.3"), engine("28.2.2"), engine("29.2.0")
P40, P43, P5 = engine("4.0.3", podman=True), engine("4.3.1", podman=True), engine("5.4.2", podman=True)

# what the engine says, its version, CDI folders, the hook on its PATH, simulated → way, driver
TABLE: list[tuple[str, dict[str, Any], dict[str, Any], tuple[str, ...], bool | None, bool, Way, str]] = [
    ("a runtime nvidia wins on an old engine", NVIDIA, D20, (), None, False, Way.RUNTIME, ""),
    ("a runtime nvidia wins over CDI and over the hook", NVIDIA, D29, DIRS, True, False, Way.RUNTIME, ""),
    ("a runtime nvidia serves a simulated GPU too", NVIDIA, D20, (), False, True, Way.RUNTIME, ""),
    ("the hook, by capability before engine 29", RUNC, D20, (), True, False, Way.REQUEST, ""),
    ("the hook, by capability on 25 without CDI", RUNC, D25, (), True, False, Way.REQUEST, ""),
    ("the hook, by capability on 28 though CDI is there", RUNC, D28, DIRS, True, False, Way.REQUEST, ""),
    (
        "F1a: hook by name from 29 on, where CDI would win",
        RUNC,
        D29,
        DIRS,
        True,
        False,
        Way.REQUEST,
        "nvidia.runtime-hook",
    ),
    ("F1b: CDI where only the toolkit's CDI part is there", RUNC, D29, DIRS, False, False, Way.CDI, ""),
    ("CDI rather than a guess on 28", RUNC, D28, DIRS, None, False, Way.CDI, ""),
    ("CDI on 25, where an administrator turned it on", RUNC, D25, DIRS, False, False, Way.CDI, ""),
    ("nothing on 25 without CDI and hook", RUNC, D25, (), False, False, Way.NONE, ""),
    ("an unknown hook is tried for a real GPU", RUNC, D20, (), None, False, Way.REQUEST, ""),
    ("an unknown hook is tried by name on 29", RUNC, D29, (), None, False, Way.REQUEST, "nvidia.runtime-hook"),
    ("an unknown hook is not tried for a simulated GPU", RUNC, D20, (), None, True, Way.NONE, ""),
    ("a hook is used for a simulated GPU", RUNC, D20, (), True, True, Way.REQUEST, ""),
    ("no hook on an old engine", RUNC, D20, (), False, False, Way.NONE, ""),
    ("no hook, CDI, simulated", RUNC, D29, DIRS, False, True, Way.NONE, ""),
    ("podman has CDI only", RUNC, P43, DIRS, None, False, Way.CDI, ""),
    ("podman ignores a runtime nvidia, so it is not used", NVIDIA, P43, DIRS, True, False, Way.CDI, ""),
    ("podman 5", RUNC, P5, DIRS, None, False, Way.CDI, ""),
    ("podman before 4.1 has no CDI", RUNC, P40, DIRS, None, False, Way.NONE, ""),
    ("podman with a simulated GPU", RUNC, P43, DIRS, True, True, Way.NONE, ""),
    ("an engine that says nothing at all", {}, {}, (), False, False, Way.NONE, ""),
]


@pytest.mark.parametrize(
    ("case", "info", "version", "folders", "hook", "simulated", "way", "driver"), TABLE, ids=[r[0] for r in TABLE]
)
def test_the_way_is_chosen_on_purpose(
    case: str,
    info: dict[str, Any],
    version: dict[str, Any],
    folders: tuple[str, ...],
    hook: bool | None,
    simulated: bool,
    way: Way,
    driver: str,
) -> None:
    folder = folders[-1] if folders else None
    chosen = choose_access(info, version, simulated, hook=hook, folders=folders, folder=folder)

    assert (chosen.way, chosen.driver) == (way, driver)
    assert chosen.usable == (way is not Way.NONE)
    assert str(chosen).startswith("none: ") != chosen.usable
    assert bool(chosen.hint) == (way is Way.NONE and not (simulated and "podman" in chosen.reason))


def test_a_hardened_toolkit_makes_the_next_way_the_chosen_one() -> None:
    hook = choose_access(NVIDIA, D20, False, hook=True, variable_allowed=False)
    none = choose_access(NVIDIA, D20, False, hook=False, variable_allowed=False)

    assert hook.way is Way.REQUEST
    assert none.way is Way.NONE
    assert "accept-nvidia-visible-devices-envvar-when-unprivileged" in none.reason


@pytest.mark.parametrize("version", [D20, D29, P43])
def test_an_engine_elsewhere_gets_no_instance_of_this_machine_whatever_it_has(version: dict[str, Any]) -> None:
    real = choose_access(NVIDIA, version, False, hook=True, elsewhere="is reached over the network (tcp://gpu1:2376)")
    simulated = choose_access(NVIDIA, D20, True, hook=True, elsewhere="is reached over the network (tcp://gpu1:2376)")

    assert real.way is Way.NONE
    assert real.reason == (
        "the engine is reached over the network (tcp://gpu1:2376), so its containers cannot get a GPU instance of this machine"
    )
    assert "docker context use default" in real.hint
    assert simulated.way is Way.RUNTIME


def test_cdi_without_a_folder_that_can_be_written_is_no_way_and_says_how_it_becomes_one() -> None:
    chosen = choose_access(RUNC, P43, False, folders=DIRS, folder=None)

    assert chosen.way is Way.NONE
    assert "/etc/cdi, /var/run/cdi" in chosen.reason
    assert "sudo" in chosen.hint


def test_a_guess_says_that_only_a_start_can_prove_it() -> None:
    assert str(choose_access(RUNC, D20, False, hook=None)) == "device request (--gpus), which only a start can prove"


REQUEST = {"Driver": "", "Count": 0, "DeviceIDs": ["MIG-1"], "Capabilities": [["gpu"]], "Options": {}}
BY_NAME = REQUEST | {"Driver": "cdi", "DeviceIDs": ["migctl.io/gpu=MIG-1.01234567"], "Capabilities": []}
VOID = ("NVIDIA_VISIBLE_DEVICES=void",)
SETTINGS = [
    (GpuAccess(Way.RUNTIME), "MIG-1", {"Runtime": "nvidia"}, ("NVIDIA_VISIBLE_DEVICES=MIG-1",)),
    (GpuAccess(Way.REQUEST), "MIG-1", {"DeviceRequests": [REQUEST]}, ()),
    (GpuAccess(Way.REQUEST, driver="d"), "MIG-1", {"DeviceRequests": [REQUEST | {"Driver": "d"}]}, ()),
    (GpuAccess(Way.CDI), "MIG-1", {"DeviceRequests": [BY_NAME]}, VOID),
    (GpuAccess(Way.NONE), "MIG-1", {}, VOID),
    (GpuAccess(Way.RUNTIME), None, {}, VOID),
    (GpuAccess(Way.CDI), None, {}, VOID),
]


@pytest.mark.parametrize(("access", "device", "host", "variables"), SETTINGS)
def test_a_device_is_named_once_and_in_one_way_only(
    access: GpuAccess, device: str | None, host: dict[str, Any], variables: tuple[str, ...]
) -> None:
    assert access.settings(device, "0123456789abcdef") == (host, variables)
