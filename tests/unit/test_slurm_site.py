"""A site's own GPU types: which of them a profile means, and what is said where that cannot be known."""

from __future__ import annotations

import pytest

from migctl.core.cluster.slurmsite import Gres, Site, gres, gres_type, node_share, whole_type
from migctl.core.cluster.slurmsizes import offers, sized
from migctl.core.plan import ByProfile
from migctl.errors import DoesNotFit, MigctlError, PlanError
from migctl.slurm.answers import site
from tests.support import exports

# Node, partition, sockets, cores, threads, CPUs, GRES, as `sinfo -N -h -o '%N|%P|%X|%Y|%Z|%c|%G'` prints them.
MIXED = """\
login1|cpu*|2|8|1|16|(null)
dgx1|gpu|2|64|2|256|gpu:a100_1g.5gb:14(S:0-1),gpu:a100_3g.20gb:2(S:0,1),shard:4
dgx2|gpu|2|64|2|256|gpu:a100:8(S:0-1)
hgx1|big|2|56|2|224|gpu:nvidia_h100_80gb_hbm3_1g.10gb:7(S:0),gpu:nvidia_h100_80gb_hbm3_1g.10gb+me:1(S:0)
old1|old|1|8|1|8|gpu:2
"""
SITE = site(MIXED)


def of(text: str) -> Site:
    """A site of one node in one default partition with this GRES."""
    return site(f"n1|gpu*|1|14|1|14|{text}\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(null)", ()),
        ("gpu:2", (Gres("", 2),)),
        ("gpu", (Gres("", 1),)),
        ("gpu:a100:4(S:0-1)", (Gres("a100", 4),)),
        ("gpu:1g.5gb:7(S:0,2),gpu:a100:1,mps:200", (Gres("1g.5gb", 7), Gres("a100", 1))),
        ("gpu:1g.10gb+me:1(IDX:0)", (Gres("1g.10gb+me", 1),)),
        ("craynetwork:4,gpu:tesla:0", (Gres("tesla", 0),)),
    ],
)
def test_the_gres_of_a_node_are_read(text: str, expected: tuple[Gres, ...]) -> None:
    assert gres(text) == expected


def test_a_site_is_read_from_sinfo_with_its_default_partition_and_its_cores() -> None:
    assert SITE.default == "cpu"
    assert SITE.partitions == ("cpu", "gpu", "big", "old")
    assert [(node.name, node.cores, node.threads_per_core, node.slices) for node in SITE.nodes] == [
        ("dgx1", 128, 2, 20),
        ("dgx2", 128, 2, 56),
        ("hgx1", 112, 2, 8),
        ("old1", 8, 1, 14),
    ]


@pytest.mark.parametrize(
    ("profile", "types", "told", "expected"),
    [
        ("1g.5gb", "gpu:1g.5gb:7", {}, "1g.5gb"),
        ("1g.5gb", "gpu:a100_1g.5gb:7", {}, "a100_1g.5gb"),
        ("1g.10gb", "gpu:nvidia_h100_80gb_hbm3_1g.10gb:7", {}, "nvidia_h100_80gb_hbm3_1g.10gb"),
        ("1g.10gb+me", "gpu:h100_1g.10gb:6,gpu:h100_1g.10gb+me:1", {}, "h100_1g.10gb+me"),
        ("1g.10gb+me", "gpu:h100_1g.10gb:6,gpu:h100_1g.10gb.me:1", {}, "h100_1g.10gb.me"),
        ("1g.5gb", "gpu:a100_1g.5gb:7,gpu:1g.5gb:1", {}, "1g.5gb"),
        ("1g.5gb", "gpu:small:7,gpu:large:2", {"1g.5gb": "small"}, "small"),
        ("1g.5gb", "gpu:A100_1G.5GB:7", {}, "A100_1G.5GB"),
    ],
)
def test_a_profile_means_the_one_type_of_the_site_that_names_it(
    profile: str, types: str, told: dict[str, str], expected: str
) -> None:
    assert gres_type(profile, told, of(types), None, "job a") == expected


@pytest.mark.parametrize(
    ("profile", "there", "partition", "told", "kind", "says", "hint"),
    [
        ("1g.5gb", of("gpu:a100_1g.5gb:7,gpu:a30_1g.5gb:1"), None, {}, PlanError,
         "could be any of a100_1g.5gb, a30_1g.5gb", "{gres: {1g.5gb: a100_1g.5gb}}"),
        ("2g.10gb", of("gpu:a100_1g.5gb:7"), None, {}, DoesNotFit, "no GPU of profile 2g.10gb; it has a100_1g.5gb", "mig-parted"),
        ("1g.5gb", of("gpu:11g.5gb:7"), None, {}, DoesNotFit, "no GPU of profile 1g.5gb", "sinfo"),
        ("1g.5gb", of("gpu:4"), None, {}, DoesNotFit, "it has gpu without a type", "sinfo"),
        ("1g.5gb", of("(null)"), None, {}, DoesNotFit, "it has no GPU at all", "sinfo"),
        ("1g.5gb", of("gpu:small:7"), None, {"1g.5gb": "tiny"}, DoesNotFit, "no type tiny, which the plan gives", "sinfo"),
        ("1g.5gb", SITE, None, {}, DoesNotFit, "partition cpu (the default) has no GPU of profile 1g.5gb",
         "1 partition has it: slurm: {partition: gpu}"),
        ("1g.5gb", SITE, "gpus", {}, PlanError, "no partition gpus; there are cpu, gpu, big, old", "partition"),
    ],
)  # fmt: skip
def test_a_type_that_is_not_there_or_not_the_only_one_is_never_guessed(
    profile: str,
    there: Site,
    partition: str | None,
    told: dict[str, str],
    kind: type[MigctlError],
    says: str,
    hint: str,
) -> None:
    with pytest.raises(kind) as caught:
        gres_type(profile, told, there, partition, "job a")

    assert says in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("types", "expected"),
    [("gpu:4", ""), ("gpu:a100:2,gpu:t4:1", ""), ("gpu:a100:1,gpu:1g.5gb:7", "a100"), ("gpu:1g.5gb:7", DoesNotFit),
     ("gpu:a100:1,gpu:t4:1,gpu:1g.5gb:7", PlanError)],
)  # fmt: skip
def test_a_whole_gpu_is_never_a_part_of_one(types: str, expected: str | type[MigctlError]) -> None:
    if isinstance(expected, str):
        assert whole_type(of(types), None, "plan") == expected
        return
    with pytest.raises(expected):
        whole_type(of(types), None, "plan")


def test_shares_are_of_the_node_that_has_the_fewest_cores_for_its_slices() -> None:
    there = site("a|gpu*|1|64|1|64|gpu:1g.5gb:14\nb|gpu*|1|16|1|16|gpu:1g.5gb:7\nc|gpu*|1|2|1|2|gpu:t4:1\n")
    found = node_share(there, None, ["1g.5gb"])

    assert found is not None
    assert found.name == "b"


@pytest.mark.parametrize(
    ("job", "types", "expected"),
    [
        ("memory: 8GiB", "gpu:1g.5gb:2,gpu:2g.10gb:1,gpu:3g.20gb:1", "2g.10gb"),
        ("memory: 4GiB", "gpu:1g.5gb:2,gpu:2g.10gb:1", "1g.5gb"),
        ("memory: 15GiB", "gpu:2g.20gb:2,gpu:3g.20gb:1", "3g.20gb"),
        ("slices: 3", "gpu:3g.40gb:1,gpu:3g.20gb:1", "3g.20gb"),
        ("replicas: 3", "gpu:1g.5gb:7,gpu:2g.10gb:3,gpu:3g.20gb:2", "2g.10gb"),
        ("replicas: 9", "gpu:1g.5gb:7,gpu:2g.10gb:3", "1g.5gb"),
        ("memory: 30GiB", "gpu:1g.5gb:7", DoesNotFit),
        ("slices: 4", "gpu:1g.5gb:7", DoesNotFit),
    ],
)
def test_sizes_become_profiles_that_the_site_has(job: str, types: str, expected: str | type[MigctlError]) -> None:
    wanted = exports.plan(f"jobs: {{a: {{image: i, command: x, {job}}}}}")
    there = offers(of(types), None, {"2g.20gb": 19968, "3g.20gb": 19968})

    if not isinstance(expected, str):
        with pytest.raises(expected):
            sized(wanted, there)
        return

    assert {job.request for job in sized(wanted, there).jobs} == {ByProfile(expected)}


def test_without_mig_devices_jobs_that_name_no_profile_get_whole_gpus() -> None:
    wanted = exports.plan("jobs: {a: {image: i, command: x}}")

    assert sized(wanted, ()).strategy == "shared"
