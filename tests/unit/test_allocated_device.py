"""`migctl run` inside a batch job uses the device that the job was given."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from migctl.cli.one_job import allocated

DEVICE = "MIG-11111111-1111-5111-8111-111111111111"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": DEVICE}, DEVICE),
        ({"CUDA_VISIBLE_DEVICES": DEVICE}, None),
        ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": f"{DEVICE},{DEVICE[:-1]}2"}, None),
        ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "0"}, None),
        ({"SLURM_JOB_ID": "7"}, None),
    ],
)
def test_the_one_mig_device_of_a_batch_job_is_taken_and_nothing_else(
    environ: Mapping[str, str], expected: str | None
) -> None:
    assert allocated(environ) == expected
