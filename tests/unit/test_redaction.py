"""What looks like a secret is taken out of what is handed on, and what only sounds like one stays."""

from __future__ import annotations

import shlex
import time

import pytest

from migctl.core.plan import ByProfile, Job, Volume
from migctl.core.plankeys import plan_keys
from migctl.core.redaction import MARK, redacted, redacted_words
from migctl.core.runs.sameness import spec

SECRETS = [
    "WANDB_API_KEY=0123456789abcdef",
    "export HF_TOKEN='x y z'",
    'password: "hunter2 and more"',
    "db.password=hunter2",
    "curl -H 'Authorization: Bearer abcdefgh12345678'",
    "git clone https://kim:hunter2@example.org/repo.git",
    "https://:hunter2@example.org",
    "hf_abcdefghijklmnop",
    "ghp_abcdefghijklmnopqrstuvwxyz012345",
    "AKIAABCDEFGHIJKLMNOP",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "--api-key hunter2",
    "{'token': 'hunter2'}",
    '{"secret": "hunter2"}',
]
HIDDEN = ("0123456789abcdef", "x y z", "hunter2", "abcdefgh", "abcdefghijklmnop", "AKIAABCD", "c2lnbmF0dXJl", "MIIEow")
HARMLESS = [
    "python train.py --lr 1e-4 --max-tokens 512 --num-tokens=9 --pad-token 0",
    "CUDA out of memory. Tried to allocate 1.20 GiB",
    "KeyError: 'loss'",
    "/data/imagenet:/data:ro",
    "--weight-decay 0.1 --key-size 64 --author kim",
    "tokens: 4096",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_does_not_come_through(text: str) -> None:
    shown = redacted(text)

    assert MARK in shown
    assert [part for part in HIDDEN if part in shown] == []


@pytest.mark.parametrize("text", HARMLESS)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("train --api-key hunter2 --lr 0.1", f"train --api-key {MARK} --lr 0.1"),
        ("train --token=hunter2", f"train --token={MARK}"),
        ("train --password -x", f"train --password {MARK}"),
        ("train --use-auth --lr 1", "train --use-auth --lr 1"),
        ("env API_KEY=abc train", f"env API_KEY={MARK} train"),
        ("sh -c 'curl --header \"Authorization: Bearer abcdefgh1234\"'", None),
    ],
)
def test_a_command_keeps_all_but_the_value_of_a_telling_option(words: str, shown: str | None) -> None:
    found = " ".join(redacted_words(shlex.split(words)))

    assert "hunter2" not in found
    assert "abcdefgh1234" not in found
    assert shown is None or found == shown


def test_a_spec_becomes_the_plans_words_without_what_is_secret() -> None:
    job = Job(
        name="a",
        origin="a",
        request=ByProfile("1g.5gb"),
        image="busybox",
        command=("train", "--token", "hunter2", "a b"),
        environment=(("WANDB_API_KEY", "hunter2"), ("LR", "1e-4")),
        volumes=(Volume("/data", "/home/kim", read_only=True),),
        labels=(("team", "vision"), ("auth-token", "hunter2")),
        shm_size_bytes=1 << 30,
        num_workers=4,
    )
    keys = dict(plan_keys(spec(job)))

    assert "hunter2" not in str(keys)
    assert keys == {
        "profile": "1g.5gb",
        "image": "busybox",
        "command": f"train --token '{MARK}' 'a b'",
        "num_workers": "4",
        "environment": "WANDB_API_KEY, LR",
        "volumes": "/home/kim:/data:ro",
        "labels": "team=vision, auth-token",
        "shm_size": "1024 MiB",
    }


@pytest.mark.parametrize("text", ["", "no json", "[1, 2]", "{}", '{"request": 7, "command": "x"}', '{"labels": [[1]]}'])
def test_a_spec_that_cannot_be_read_tells_nothing_and_breaks_nothing(text: str) -> None:
    assert isinstance(plan_keys(text), tuple)


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "token-" * 30_000, "-a " * 60_000, "://a:" * 40_000, "token=" * 30_000]
)
def test_no_text_takes_long(text: str) -> None:
    begun = time.process_time()
    redacted(text)

    assert time.process_time() - begun < 2
