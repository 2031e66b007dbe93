"""The program as a whole: help, exit codes, messages."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import cli.__main__ as program
from cli.commands import plan
from core.version import VERSION

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("command", sorted(program.COMMANDS))
def test_every_command_has_help_that_ends_in_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Users do not remember options."""
    assert program.main([command, "--help"]) == 0
    assert f"fleetwright {command}" in capsys.readouterr().out.rsplit("examples:", 1)[-1]


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["help", "plan"]) == 0
    assert "fleetwright plan" in capsys.readouterr().out
    assert program.main(["help"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["plan"],
        ["plan", "-f", "nothing-there.yaml"],
        ["plan", "-f", ".", "--now", "yesterday"],
        ["plan", "-f", ".", "--now", "2026-11-20"],
        ["plan", "-f", ".", "--time-budget", "-1"],
        ["plan", "-f", ".", "--improve-iterations", "many"],
    ],
)
def test_wrong_usage_ends_with_2_and_a_message(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """By the code, scripts decide whether to try again."""
    assert program.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err


def test_an_internal_error_ends_with_3_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback helps us, not the user; --debug shows it."""

    def broken(_: object) -> int:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(plan, "run", broken)
    assert program.main(["plan", "-f", "x"]) == 3
    quiet = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: oh" in quiet
    assert "Traceback" not in quiet
    assert "hint: run it again with --debug for the traceback, and report it with the input" in quiet
    assert program.main(["plan", "-f", "x", "--debug"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_it_runs_as_a_module_without_heavy_imports() -> None:
    """Help must appear at once: no SDK, no simulator, no validation library for it."""
    code = (
        "import sys; from cli.__main__ import main; main(['plan', '--help']);"
        "print([m for m in ('boto3', 'moto', 'pydantic', 'numpy', 'core.scheduling') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.rstrip().endswith("[]")
    listed = subprocess.run(
        [sys.executable, "-m", "cli", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert all(command in listed.stdout for command in program.COMMANDS)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Every bug report starts with it."""
    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out == f"fleetwright {VERSION}\n"


@pytest.mark.parametrize(("given", "meant"), [("valdiate", "validate"), ("explian", "explain")])
def test_a_typo_in_a_command_gets_a_suggestion(given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([given, "-f", "x"]) == 2
    assert f"did you mean {meant!r}?" in capsys.readouterr().err


def test_a_region_without_prices_says_how_to_get_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It said `--region: region: no prices`, and no word of `catalog fetch`."""
    assert program.main(["plan", "-f", str(tmp_path), "--allow-empty", "--region", "cn-north-1"]) == 2
    told = capsys.readouterr().err
    assert "fleetwright: --region: no prices of 'cn-north-1' are built in" in told
    assert "fleetwright catalog fetch --region cn-north-1 --to cn-north-1.json.gz" in told
    assert "--catalog cn-north-1.json.gz" in told


def test_a_time_that_cannot_be_read_names_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    """`--since` takes 24h too, and its error named the long form alone."""
    assert program.main(["log", "--ledger", "x", "--since", "yesterday"]) == 2
    assert (
        "'yesterday' is not a time such as 2026-11-20T00:00:00Z, nor a span such as 24h or 30d"
        in capsys.readouterr().err
    )


def test_a_time_before_the_calendar_is_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    """It ended as an internal error: its moment in UTC is in the year 0."""
    assert program.main(["log", "--ledger", "x", "--since", "0001-01-01T00:00:00+14:00"]) == 2
    assert "is not a time such as" in capsys.readouterr().err


@pytest.mark.parametrize("command", sorted(program.COMMANDS))
def test_help_fits_eighty_columns(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but examples, which are typed as they are."""
    monkeypatch.setenv("COLUMNS", "80")
    assert program.main([command, "--help"]) == 0
    text = capsys.readouterr().out.partition("examples:")[0]
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_a_typo_in_an_option_gets_a_suggestion_and_the_help_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`fleetwright --help` lists no option of `plan`."""
    assert program.main(["plan", "--nwo", "2026-11-20T00:00:00Z"]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("fleetwright plan: error: it does not take '--nwo ")
    assert error.endswith("did you mean '--now'?")
    assert hint == "hint: fleetwright plan --help lists what it takes"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("fleetwright pl", ["plan "]),
        ("fleetwright plan --improve", ["--improve-iterations "]),
        ("fleetwright validate -o s", ["sarif "]),
    ],
)
def test_completion_covers_commands_options_and_values(typed: str, expected: list[str]) -> None:
    """The shell asks the program itself, so completion is never out of date."""
    environment = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\v", "COMP_LINE": typed, "COMP_POINT": str(len(typed))}
    environment |= {"COMP_TYPE": "9", "_ARGCOMPLETE_STDOUT_FILENAME": "/dev/stderr", "PATH": ""}
    done = subprocess.run([sys.executable, "-m", "cli"], cwd=ROOT, capture_output=True, text=True, env=environment)  # noqa: PLW1510
    assert done.stderr.split("\v") == expected


@pytest.mark.parametrize(
    ("shell", "part"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --command fleetwright")]
)
def test_each_shell_has_its_script(shell: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["completion", shell]) == 0
    assert part in capsys.readouterr().out


def test_the_manual_has_every_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert program.main(["man"]) == 0
    page = capsys.readouterr().out
    assert page.startswith('.TH FLEETWRIGHT "1"')
    assert all(f"'fleetwright {command}'" in page.replace("\\-", "-") for command in program.COMMANDS)


def test_a_missing_library_is_named_with_the_extra_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wheel has few dependencies; `simulate` needs more than `plan`."""

    def without(_: object) -> int:
        raise ModuleNotFoundError("No module named 'moto'", name="moto.ec2")

    monkeypatch.setattr(plan, "run", without)
    assert program.main(["plan", "-f", "x"]) == 2
    assert "pip install 'fleetwright[simulate]'" in capsys.readouterr().err


def test_an_input_that_is_nested_too_deeply_is_the_inputs_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its reader may manage what the code that follows cannot."""
    links = "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 1100))
    file = tmp_path / "deep.yaml"
    file.write_text(
        f"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: a}}\na0: &a0 1\n{links}\nspec: *a1099\n"
    )
    assert program.main(["validate", "-f", str(file)]) == 2
    assert "nested too deeply" in capsys.readouterr().err


def test_a_file_without_its_option_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    """The commonest slip of the first minute; it said only that the word is not taken."""
    assert program.main(["plan", "pods.yaml"]) == 2
    assert "did you mean '-f pods.yaml'?" in capsys.readouterr().err
    for words in (["replay", "--ledger", "x", "--nope"], ["man", "pods.yaml"]):
        assert program.main(words) == 2
        assert "-f" not in capsys.readouterr().err


def test_without_a_command_the_help_is_shown_as_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer types the name alone, and wants to see what there is."""
    assert program.main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"validate +every problem of every object", err)


@pytest.mark.parametrize("words", [["plan", "--nope"], ["paln"], ["plan", "-o", "jsn"], ["diff", "-f", "x"]])
def test_wrong_usage_is_one_line_and_a_hint(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Ten lines of options between the prompt and the error hide it."""
    assert program.main(words) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert ": error: " in error
    assert hint.startswith("hint: fleetwright")


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs a command that ends with this error."""

    def ends(error: BaseException, *options: str) -> int:
        def run(_: object) -> int:
            raise error

        monkeypatch.setattr(plan, "run", run)
        return program.main(["plan", "-f", "x", *options])

    return ends


@pytest.mark.parametrize("name", ["yaml", "numpy.linalg", None])
def test_a_missing_library_of_no_extra_is_an_error_of_ours(
    name: str | None, raising: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended with a traceback and the code of a negative answer."""
    assert raising(ModuleNotFoundError("No module named 'it'", name=name)) == program.INTERNAL
    told = capsys.readouterr().err
    assert told.startswith("fleetwright: internal error: ModuleNotFoundError: No module named 'it'\nhint: run it again")


@pytest.mark.parametrize(("given", "code"), [(SystemExit(), 0), (SystemExit(7), 7), (SystemExit("bad"), 2)])
def test_a_library_that_ends_the_program_ends_it_with_its_code(
    given: SystemExit, code: int, raising: Callable[..., int]
) -> None:
    assert raising(given) == code


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "fleetwright: interrupted\n"),
        (program.InputError("it is bad", source="a.yaml"), 2, "fleetwright: a.yaml: it is bad\n"),
        (
            RecursionError(),
            2,
            "fleetwright: something in the input is nested too deeply to be followed (--debug says where)\n",
        ),
        (
            ModuleNotFoundError("No module named 'boto3'", name="boto3"),
            2,
            "fleetwright: this command needs boto3: pip install 'fleetwright[simulate]'\n",
        ),
    ],
)
def test_each_end_has_its_code_and_one_line_and_debug_shows_where(
    error: BaseException, code: int, says: str, raising: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(error) == code
    assert capsys.readouterr().err == says
    assert raising(error, "--debug") == code
    traced = capsys.readouterr().err
    assert traced.startswith("Traceback")
    assert traced.endswith(says)


def test_a_reader_that_has_gone_is_no_error(raising: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    """`fleetwright plan | head`: whatever is still printed goes nowhere, and Python does not complain at its end."""
    replaced: list[tuple[str, int]] = []
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(fileno=lambda: 11, isatty=lambda: False))
    monkeypatch.setattr(os, "open", lambda path, flags: f"{path} {flags}")
    monkeypatch.setattr(os, "dup2", lambda *descriptors: replaced.append(descriptors))
    code = raising(BrokenPipeError())
    monkeypatch.undo()
    assert code == 0
    assert replaced == [(f"{os.devnull} {os.O_WRONLY}", 11)]


@pytest.mark.parametrize(
    ("line", "point", "known"),
    [
        ("fleetwright pl", None, False),
        ("fleetwright plan --impr", None, True),
        ("fleetwright --debug plan --impr", None, True),
        ("fleetwright plan --impr", 14, False),
        ("fleetwright nonsense --impr", None, False),
    ],
)
def test_the_shell_completes_the_options_of_the_command_before_the_cursor(
    line: str, point: int | None, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import argcomplete

    seen: list[tuple[set[str], bool]] = []

    def answer(parser: argparse.ArgumentParser, *, always_complete_options: bool) -> None:
        commands = next(found for found in parser._actions if isinstance(found, argparse._SubParsersAction))
        options = {option for one in commands.choices.values() for option in one._option_string_actions}
        seen.append((options, always_complete_options))
        raise SystemExit(0)

    monkeypatch.setattr(argcomplete, "autocomplete", answer)
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setenv("COMP_LINE", line)
    if point is not None:
        monkeypatch.setenv("COMP_POINT", str(point))
    with pytest.raises(SystemExit):
        program.main([])
    ((options, always),) = seen
    assert ("--improve-iterations" in options, always) == (known, False)


def test_help_of_a_command_needs_no_more_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["help", "plan", "nonsense"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: fleetwright plan ")
    assert program.main(["plan", "help"]) == 2


def test_arguments_are_those_of_the_shell_if_none_are_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fleetwright", "--version"])
    assert program.main() == 0
    assert capsys.readouterr().out == f"fleetwright {VERSION}\n"
    assert program.main([]) == 2


def test_the_help_of_the_program_has_codes_examples_and_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "  2    wrong usage or unreadable input\n" in text
    assert "  130  interrupted with Ctrl-C\n" in text
    assert "\nexamples:\n  kubectl get " in text
    assert "--debug    " in text
    for command, summary in program.COMMANDS.items():
        assert program.main([command, "--help"]) == 0
        assert summary in " ".join(capsys.readouterr().out.split()), command


def test_arrays_are_computed_in_one_thread(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise, a plan takes the processors of a whole build machine, and no less time."""
    for name in program.ARRAY_THREADS:
        monkeypatch.setenv(name, "64")
    assert program.main(["--version"]) == 0
    assert {name: os.environ[name] for name in program.ARRAY_THREADS} == dict(program.ARRAY_THREADS)
    assert capsys.readouterr().out


def test_what_was_printed_has_arrived_when_a_command_ends(
    raising: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bool] = []
    monkeypatch.setattr(program.sys, "stdout", SimpleNamespace(flush=lambda: flushed.append(True)))
    code = program._ended(1)
    monkeypatch.undo()
    assert (code, flushed) == (1, [True])


def test_help_names_an_options_value_once() -> None:
    parser = argparse.ArgumentParser(prog="x", formatter_class=program._Help, add_help=False)
    parser.add_argument("target", help="a")
    parser.add_argument("-a", "--all", action="store_true", help="b")
    parser.add_argument("-f", "--filename", metavar="PATH", help="c")
    parser.add_argument("--many", nargs=2, metavar=("A", "B"), help="d")
    parser.add_argument("--form", choices=("json", "yaml"), help="e")
    told = [line.strip() for line in parser.format_help().splitlines() if line.startswith("  ")]
    assert [" ".join(line.split()) for line in told] == [
        "target a",
        "-a, --all b",
        "-f, --filename PATH c",
        "--many A B d",
        "--form {json,yaml} e",
    ]
