"""Whatever a text holds, a shell hands it on as it is."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migctl.core.handover import Reference, parts
from migctl.render.shell_words import comment, here_document, word, words, wrapped

HOSTILE = (
    "plain", "two words", "it's", 'say "hi"', "$HOME", "${HOME}", "$(id)", "`id`", "a;b", "a|b", "a&&b", "#not", "!x", "*", "?",
    "[a]", "~", "~root", "\\", "\\\\", "\\n", "line\nbreak", "tab\there", "-e", "--", "=", "a=b", "{a,b}", "<x", ">x", "%s", "%%",
    "", " ", "\u00e9\u4e2d\U0001f600", "''", '""', "end\n", "$'x'", "a\\\nb", "(", ")",
)  # fmt: skip


def said(shell: str, script: str) -> list[str]:
    """The arguments that a command gets, byte for byte."""
    show = 'show() { for one in "$@"; do printf \'%s\\0\' "$one"; done; }\n'
    done = subprocess.run([shell, "-c", show + script], capture_output=True, check=True, env={"MIGCTL_JOB": "a b\n$c"})
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_hostile_texts_arrive_as_they_are(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")

    assert said(shell, f"show {words(HOSTILE)}") == list(HOSTILE)
    assert said(shell, wrapped("show", map(word, HOSTILE))) == list(HOSTILE)


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), max_size=8))
def test_any_text_arrives_as_it_is(texts: list[str]) -> None:
    texts = [text for text in texts if not any(isinstance(part, Reference) for part in parts(text))]

    assert said("sh", f"show {words(texts)}") == texts


def test_what_is_known_at_the_start_is_a_variable_and_nothing_else() -> None:
    text = '--name=${MIGCTL_JOB} of ${MIGCTL_RUN:-$HOME "it\'s" `id` \\} or $MIGCTL_JOB'

    assert said("sh", f"show {word(text)}") == ['--name=a b\n$c of $HOME "it\'s" `id` \\ or $MIGCTL_JOB']


def test_a_missing_value_ends_the_shell_with_the_plans_message() -> None:
    done = subprocess.run(
        ["sh", "-c", f"echo {word('${MIGCTL_BATCH_SIZE:?no batch}')}"],
        capture_output=True,
        text=True,
        check=False,
        env={},
    )

    assert done.returncode != 0
    assert "no batch" in done.stderr


def test_a_here_document_cannot_end_early() -> None:
    text = "first\nEND\nEND1\n"
    mark, body = here_document(text)

    assert mark == "END2"
    assert said("sh", f"show \"$(cat <<'{mark}'\n{body}{mark}\n)\"") == [text.rstrip("\n")]


def test_a_comment_stays_a_comment() -> None:
    assert said("sh", f"{comment('a' + chr(10) + 'show b')}\nshow c") == ["c"]
