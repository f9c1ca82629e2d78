"""Words of the command line that are no value of their option: exit 2, the option's name, the same from both readers."""

from __future__ import annotations

import pytest

from migctl.cli.app import run
from migctl.cli.commands import COMMANDS
from migctl.cli.common import Common
from migctl.cli.parameters import Option, Parameter, WrongValue, parameters, value

# Line; what is said of it.
WRONG = (
    ("up --wait-for -1", "--wait-for is at least 0, not -1"),
    ("up --wait-for nan", "--wait-for is a number of seconds, not nan"),
    ("up --wait-for=inf", "--wait-for is a number of seconds, not inf"),
    ("up --wait-for 1e300", "--wait-for is at most 31622400, not 1e300"),
    ("wait --timeout nan", "--timeout is a number of seconds, not nan"),
    ("wait --timeout -1", "--timeout is at least 0, not -1"),
    ("stop job --timeout nan", "--timeout is a number of seconds, not nan"),
    ("down -t -3", "--timeout is at least 0, not -3"),
    ("down --timeout 10m", "--timeout is a number of seconds, not 10m"),
    ("logs --tail -1", "--tail is at least 0, not -1"),
    ("logs --tail 1.5", "--tail is a whole number, not 1.5"),
    ("mode enable --wait-for -0.5", "--wait-for is at least 0, not -0.5"),
    ("resume --wait-for inf", "--wait-for is a number of seconds, not inf"),
    ("tune --most 0", "--most is at least 1, not 0"),
    ("plan --on a100-40gb --cores 0", "--cores is at least 1, not 0"),
    ("plan --on a100-40gb --cores 100000", "--cores is at most 8192, not 100000"),
    ("workers --cores 0", "--cores is at least 1, not 0"),
    ("workers --cores 99999999999999999999", "--cores is a whole number, not 99999999999999999999"),
    ("workers --jobs 0", "--jobs is at least 1, not 0"),
    ("workers --cores ٣", "--cores is a whole number, not ٣"),
    ("run --cpus 0 -- true", "--cpus is at least 1, not 0"),
    ("workers --storage floppy", "--storage is nvme, ssd, hdd or auto, not floppy"),
    ("plan --runtime podman", "--runtime is docker or process, not podman"),
    ("mode sideways", "the word here is enable or disable, not sideways"),
    ("plan --root=", "--root is empty"),
    ("plan -f a.yaml b.yaml", "b.yaml and --file a.yaml are two plan files"),
    ("check -f a.yaml b.yaml", "b.yaml and --file a.yaml are two plan files"),
    ("up -f a.yaml b.yaml", "b.yaml and --file a.yaml are two plan files"),
    ("--json status", "--json is an option of the commands and stands behind them"),
    ("plna", "No such command 'plna'. Did you mean 'plan'?"),
)


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line for line, _ in WRONG])
def test_a_wrong_word_is_a_usage_error_that_names_its_option(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*line.split(), *(["--json"] if not line.startswith("--json") and " -- " not in line else [])])

    told = capsys.readouterr()
    assert code == 2
    assert said in told.out + " ".join(told.err.split())


def test_an_empty_file_name_is_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", ""]) == 2
    assert "error: FILE is empty" in capsys.readouterr().err


def numbers() -> list[tuple[str, Parameter]]:
    known = [(name, p) for name, command in COMMANDS.items() for p in (*parameters(command), *parameters(Common))]
    return [(f"{name} {p.name}", p) for name, p in known if p.kind in (int, float)]


@pytest.mark.parametrize(("name", "parameter"), numbers(), ids=[name for name, _ in numbers()])
def test_no_number_of_any_command_may_be_negative_or_not_a_number(name: str, parameter: Parameter) -> None:
    assert isinstance(parameter.declared, Option), name
    for word in ("-1", "-0.5", "nan", "inf", "-inf", "1e999", "", "x"):
        with pytest.raises(WrongValue):
            value(parameter, word)


def test_migctl_alone_is_its_help_as_it_was_set(capsys: pytest.CaptureFixture[str]) -> None:
    code = run([])

    told = capsys.readouterr()
    assert code == 2
    assert told.err.startswith("Usage: migctl [OPTIONS] COMMAND [ARGS]...\n")
    assert "error" not in told.err
    assert "\n  up        Make the GPU instances" in told.err


def test_the_list_of_commands_has_whole_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0

    told = " ".join(capsys.readouterr().out.split())
    assert "…" not in told
    assert "..." not in told.replace("[ARGS]...", "")
    for name, command in COMMANDS.items():
        assert name == "ps" or " ".join((command.__doc__ or "").split()) in told


def test_the_version_is_also_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version", "--json"]) == 0
    assert '"migctl": "' in capsys.readouterr().out
