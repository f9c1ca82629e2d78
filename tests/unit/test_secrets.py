"""What is taken for a secret by its name, and how a line looks without its value."""

from __future__ import annotations

import pytest

from migctl.core.secrets import concealed, is_secret, without_values

SECRET = (
    "HF_TOKEN", "hf_token", "TOKEN", "WANDB_API_KEY", "API_KEY", "OPENAI_API_KEY_2", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
    "DB_PASSWORD", "PGPASSWORD", "MYSQL_ROOT_PASSWORD_FILE", "CLIENT_SECRET", "GITHUB_PAT", "registry.password", "SSH_KEY",
    "GOOGLE_CREDENTIALS", "KEY_PASSPHRASE",
)  # fmt: skip
PLAIN = (
    "MAX_TOKENS",
    "TOKENIZERS_PARALLELISM",
    "KEYBOARD",
    "MONKEY",
    "PATH",
    "PATIENCE",
    "LR",
    "KEYS_PER_SHARD",
    "TOKEN_LIMIT",
    "COMPAT",
)


@pytest.mark.parametrize("name", SECRET)
def test_a_name_that_tells_a_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", PLAIN)
def test_a_name_that_tells_none(name: str) -> None:
    assert not is_secret(name)


LINES = (
    ("      HF_TOKEN: hf_abc", "      HF_TOKEN: ******"),
    ("    environment: {LR: 0.1, HF_TOKEN: hf_abc, A: b}", "    environment: {LR: 0.1, HF_TOKEN: ******, A: b}"),
    ("    environment: {HF_TOKEN: 'a, b}', A: b}", "    environment: {HF_TOKEN: *******, A: b}"),
    ('    environment: {"HF_TOKEN": "a\\"b, c", A: b}', '    environment: {"HF_TOKEN": *********, A: b}'),
    ("      - DB_PASSWORD=two words", "      - DB_PASSWORD=*********"),
    ("      - 'DB_PASSWORD=x'", "      - 'DB_PASSWORD=**"),
    ("    command: python train.py --api-key=abc --lr 1", "    command: python train.py --api-key=**********"),
    ("    environment: {MAX_TOKENS: 512}", "    environment: {MAX_TOKENS: 512}"),
    ("      HF_TOKEN:", "      HF_TOKEN:"),
)


@pytest.mark.parametrize(("line", "shown"), LINES)
def test_a_line_is_shown_without_its_secrets_and_as_long_as_it_is(line: str, shown: str) -> None:
    assert concealed(line) == shown
    assert len(shown) == len(line)


def test_of_a_file_of_variables_nothing_but_names_is_shown() -> None:
    assert without_values("export A=b c") == "export A=***"
    assert without_values("MIIEvgIBADANBgkq==") == "*" * 18
    assert without_values("two words") == "*********"
