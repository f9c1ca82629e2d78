"""What a user may do is found out before anything is changed, and said with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

import migctl.core.views.findings
import migctl.host.rights
import migctl.host.sudo  # noqa: F401 -- loaded before a test becomes another user, who may not read every Python
from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.core.runs.record import JobState, Ownership, Record
from migctl.engine.rights import findings, require_instances, sudo_notices
from migctl.engine.session import Session
from migctl.errors import HostError
from tests.support.other_user import NOBODY, as_user, needs_root, open_folder

PLACE = Placement(0, MemorySlices(1))


def session(folder: Path, nvml: str = "", **environ: str) -> Session:
    here = {"MIGCTL_STATE_DIR": str(folder / "state"), "MIGCTL_RUN_DIR": str(folder / "run"), "HOME": str(folder)}
    return Session(environ={**here, **environ}, nvml=nvml)


def record(*, profile_id: int | None = 19, made: bool = False, lent: bool = False) -> Record:
    owned = Ownership(
        gpu_uuid="GPU-1",
        gi_id=1,
        ci_id=0,
        profile_id=19,
        placement=PLACE,
        mig_uuid="MIG-1",
        boot_id="b",
        foreign=lent,
    )
    return Record(
        run="night",
        job="a",
        token="0" * 16,
        runtime="process",
        strategy="mig",
        state=JobState.STARTING,
        digest="",
        spec="",
        gpu_uuid="GPU-1",
        profile="1g.5gb",
        profile_id=profile_id,
        placement=PLACE,
        instance=owned if made or lent else None,
        boot_id="b",
        created_at=0.0,
    )


# the record, whether making its instance takes rights
NEEDING = [
    (record(), True),
    (record(made=True), False),
    (record(lent=True), False),
    (record(profile_id=None), False),  # a whole GPU
]


@needs_root
@pytest.mark.parametrize(("wanted", "needs"), NEEDING)
def test_whoever_needs_an_instance_must_be_allowed_to_make_it(wanted: Record, needs: bool) -> None:
    with open_folder() as folder:

        def ask(nvml: str) -> str:
            try:
                require_instances(session(folder, nvml), {"a": wanted})
            except HostError as error:
                return f"{error.id} {error.where} {error.data['needs_root']} {error.message}"
            return ""

        told = str(as_user(NOBODY, lambda: ask("")))
        assert told.startswith("no-permission job a True nobody may not make GPU instances") is needs
        # The simulator tells its own rights, like a driver.
        assert as_user(NOBODY, lambda: ask("sim:a100-40gb")) == ""
        assert ask("") == ""


@needs_root
def test_check_says_how_an_administrator_lets_a_group_make_instances() -> None:
    with open_folder() as folder:

        def ask() -> dict[str, list[str]]:
            found = findings(session(folder), ["up", "plan.yaml"], real_gpus=True)
            return {f.id: [f.level.value, f.message, f.hint or ""] for f in found}

        told = as_user(NOBODY, ask)
        assert isinstance(told, dict)
        level, message, hint = told["no-permission"]
        assert (level, "read access to" in message) == ("failure", True)
        assert hint.startswith("sudo --preserve-env=MIGCTL_RUN_DIR,MIGCTL_STATE_DIR ")
        assert hint.endswith(" up plan.yaml")
        level, message, hint = told["delegation"]
        assert (level, "/etc/tmpfiles.d" in message) == ("warning", True)
        assert "chgrp gpu" in hint
        assert "chmod 0440" in hint
        # Nobody may write here, and that is told with both ways out.
        assert told["state-dir-unusable"][0] == "failure"
        assert "--state-dir DIR" in told["state-dir-unusable"][2]
        assert "sudo --preserve-env" in told["run-dir-unusable"][2]
        assert set(ask()) == {"rights", "state-dir", "run-dir"}


def test_a_folder_that_is_not_there_is_writable_where_it_could_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = {f.id for f in findings(session(tmp_path), ["up"], real_gpus=False)}

    assert found == {"state-dir", "run-dir"}


@needs_root
def test_under_sudo_check_says_for_whom_it_acts(tmp_path: Path) -> None:
    under = session(tmp_path, SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY))
    found = {f.id: f.message for f in findings(under, ["up"], real_gpus=False)}

    assert found["acting-for"].endswith(f"nobody (uid {NOBODY})")
    # No sudo is above this process, so nothing is known to be kept back, and nothing is claimed.
    assert sudo_notices(under) == ()
    assert sudo_notices(session(tmp_path)) == ()
