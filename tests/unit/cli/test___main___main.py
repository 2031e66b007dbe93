"""The program as a whole: help, exit codes, messages."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

import cli.__main__ as program
from cli.__main__ import main
from cli.answers.plan import plan_table
from cli.commands import plan
from cli.terminal import output
from cli.terminal.style import Style, printable
from core.version import VERSION
from tests.unit.api.objects import NODE_CLASS, NODE_POOL, changed

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
    assert "did you mean" not in told, "it is a region of AWS, and so is ap-southeast-6"
    assert program.main(["plan", "-f", str(tmp_path), "--allow-empty", "--region", "eu-wset-1"]) == 2
    assert "did you mean eu-west-1? Otherwise run `fleetwright catalog fetch" in capsys.readouterr().err


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
    [("fleetwright pl", ["plan "]), ("fleetwright validate -o s", ["sarif "])],
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
            "fleetwright: this command needs boto3: install 'fleetwright-eks[simulate]', from a wheel 'FILE.whl[simulate]'\n",
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


# Behaviour at the edges: closed pipes, Ctrl-C, typos, narrow terminals.


Capture = pytest.CaptureFixture[str]


def pods(count: int) -> str:
    return yaml.safe_dump_all(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}", "namespace": "shop"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "99"}}}]},
        }
        for number in range(count)
    )


@pytest.mark.parametrize("form", ["json", "table"])
def test_a_closed_pipe_is_not_an_error(form: str, tmp_path: Path) -> None:
    """`| head` is common with long output; a traceback would follow each time."""
    (tmp_path / "pods.yaml").write_text(pods(300))
    command = [sys.executable, "-m", "cli", "plan", "-f", str(tmp_path / "pods.yaml"), "-o", form]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read().decode()
    assert process.returncode in (0, 1)
    assert told == ""


def test_ctrl_c_ends_quietly_with_130(tmp_path: Path) -> None:
    """By the exit code, shells distinguish an interrupted command from a failed one."""
    fifo = tmp_path / "pods.yaml"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "cli", "validate", "-f", str(fifo)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603
    with process, fifo.open("w"):
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert process.returncode == 130
    assert told.decode() == "fleetwright: interrupted\n"


def test_an_empty_input_is_reported_as_empty(tmp_path: Path, capsys: Capture) -> None:
    """Zero new nodes for zero pods looks like an answer; usually the command before the pipe failed."""
    (tmp_path / "empty.yaml").write_text("---\n")
    for command in ("plan", "consolidate", "validate", "convert"):
        assert main([command, "-f", str(tmp_path / "empty.yaml")]) == 2
        assert "has no object" in capsys.readouterr().err, command
        assert main([command, "-f", str(tmp_path / "empty.yaml"), "--allow-empty"]) == 0


def test_a_typo_in_a_name_gets_similar_names(cluster: list[str], capsys: Capture) -> None:
    """Users guess the names of a workload's pods."""
    assert main(["explain", "shop/cart-O", *cluster]) == 2
    assert "hint: near it there is shop/cart-" in capsys.readouterr().err
    assert main(["explain", "zzz", *cluster]) == 2
    assert "<workload>-<n>" in capsys.readouterr().err


def test_a_bad_object_is_reported_with_the_next_step(tmp_path: Path, capsys: Capture) -> None:
    """`plan` tells the first problem of an object; `validate` lists all of them."""
    file = tmp_path / "my pool.yaml"
    file.write_text("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {template: {spec: {}}}")
    assert main(["plan", "-f", str(file)]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert f"set aside NodePool/a [CannotBeRead]: {file}: document 1: spec.template.spec." in told
    assert "every problem of every object, with its line: fleetwright validate -f …" in told


def test_a_workloads_field_is_named_by_its_path_in_the_workload(tmp_path: Path, capsys: Capture) -> None:
    """Users look for the field in the file that they wrote, not in the pod created from it."""
    workload: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "-1"}}}]}}},
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(workload))
    field = "spec.template.spec.containers[0].resources.requests.cpu:"
    for command in (["plan"], ["explain", "deployment/cart", "-n", "shop"]):
        assert main([*command, "-f", str(tmp_path)]) == 1
        told = " ".join(capsys.readouterr().out.split())
        assert "set aside" in told
        assert "[RefusedByAPIServer]" in told
        assert field in told
    assert main(["validate", "-f", str(tmp_path)]) == 1
    assert (
        f"{tmp_path / 'a.yaml'}:13:13: document 1: Deployment shop/cart: {field} '-1' is negative\n"
        in capsys.readouterr().out
    )


def test_validate_checks_pods_too(tmp_path: Path, capsys: Capture) -> None:
    """Otherwise, `validate` accepts a manifest that stops `plan`."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"tolerations": [{"operator": "Like"}]},
    }
    other = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "a"}, "spec": 1}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([pod, other]))
    assert main(["validate", "-f", str(tmp_path)]) == 1
    assert "Pod a: spec.tolerations[0].operator" in capsys.readouterr().out


def test_wide_tables_are_folded() -> None:
    """Without folding, the terminal breaks lines anywhere and columns are lost."""
    rows = [("node-1", "PodDisruptionBudget", "word " * 30), ("node-2", "Budget", "short")]
    lines = output.table(("NODE THAT STAYS", "REASON", "WHY"), rows).splitlines()
    assert max(len(line) for line in lines) <= output.WIDTH_MAX
    assert {line.index("word") for line in lines if "word" in line} == {lines[0].index("WHY")}
    assert lines[-1].split() == ["node-2", "Budget", "short"]


def test_a_table_that_cannot_be_folded_stays_wide() -> None:
    """Names must stay whole so that they can be copied, and folding must end."""
    names = tuple(f"COLUMN-{number}-OF-EIGHT" for number in range(8))
    assert output.table(names, []).split() == list(names)


def test_continuation_lines_are_indented() -> None:
    """Otherwise, the second line of a NodePool's entry looks like an entry of its own."""
    lines = output.wrapped(f"  NodePool a  {'word ' * 40}\nnext").splitlines()
    assert all(line.startswith("      word") for line in lines[1:-1])
    assert lines[-1] == "next"


def test_pods_with_the_same_verdict_share_an_entry() -> None:
    """A thousand unschedulable pods of one Deployment are one problem."""
    lost = [
        {"pod": f"shop/p{n}", "reason": "NoOfferingFits", "message": "NodePool a: full\nNodePool b: full"}
        for n in range(5)
    ]
    cost = {"hourly": 0.0, "lowerBound": None, "gap": None}
    document = {"nodeClaims": [], "bindings": [], "unschedulable": lost, "cost": cost}
    lines = plan_table(document).splitlines()
    assert lines[:4] == [
        "5 pods wait: 5 have no place",
        "",
        "no place for 5 pods (shop/p0, shop/p1, shop/p2 +2) [NoOfferingFits]",
        "  NodePool a: full",
    ]
    assert "NodePool b" not in plan_table(document)
    assert "  NodePool b: full" in plan_table(document, shows_all=True)


def test_nodes_with_equal_columns_share_a_row() -> None:
    """Forty rows that differ in a number hide the one with another price."""
    claim = {"nodePool": "a", "instanceTypes": ["m.s", "m.l"], "capacityTypes": ["spot"], "zones": ["z1"], "price": 0.1}
    claims = [{**claim, "name": f"a-{n}", "pods": [f"p{n}"] * (n + 1)} for n in range(3)]
    cost = {"hourly": 0.3, "lowerBound": 0.2, "gap": 1 / 3}
    text = plan_table({"nodeClaims": claims, "bindings": [], "unschedulable": [], "cost": cost})
    assert text.startswith(
        "6 pods wait: 6 get 3 new nodes\n$0.3000 an hour, $219 a month; 50.0% above the proven minimum of $0.2000 an hour"
    )
    assert [line.split() for line in text.splitlines()[4:]] == [
        ["3", "x", "a", "m.s", "(or", "1", "other)", "z1", "spot", "1", "to", "3", "0.1000"]
    ]


@pytest.mark.parametrize(
    ("when", "environment", "is_terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_colour_is_for_terminals_only(
    when: str, environment: dict[str, str], is_terminal: bool, expected: bool
) -> None:
    found = Style()
    found.choose(when, environment, is_terminal=is_terminal)
    assert found.is_on is expected
    assert printable(found.styled("x", "red")) == ("\x1b[31mx\x1b[0m" if expected else "x")


# `fleetwright validate`: one line for each problem, and an exit code that a pipeline can rely on.


BAD_POOL = changed(changed(NODE_POOL, "spec.weight", 0), "metadata.name", "wrong")


def write(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_valid_objects_are_confirmed_with_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-f", write(tmp_path / "a.yaml", NODE_POOL, NODE_CLASS)]) == 0
    assert capsys.readouterr() == ("2 objects, no problem\n", "")


def test_a_problem_is_reported_with_file_document_object_field_and_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "a.yaml", NODE_POOL, BAD_POOL, NODE_CLASS)
    assert main(["validate", "-f", file]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"{file}:\d+:3: document 2: NodePool wrong: spec.weight: must be at least 1", first)
    assert last == "3 objects, 1 error, 0 warnings"


def test_good_objects_do_not_hide_bad_ones_in_any_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a.yaml", NODE_POOL, changed(BAD_POOL, "spec.limits.cpu", "ten"))
    write(tmp_path / "b.yaml", changed(NODE_CLASS, "spec.role", ""))
    assert main(["validate", "-f", str(tmp_path)]) == 1
    *lines, _ = capsys.readouterr().out.splitlines()
    assert [line.rsplit(": ", 2)[1] for line in lines] == ["spec.limits.cpu", "spec.weight", "spec.role"]


def test_an_object_in_a_list_is_located(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [NODE_POOL, BAD_POOL]}
    assert main(["validate", "-f", write(tmp_path / "a.yaml", listed)]) == 1
    assert "document 1, items[1]: NodePool wrong: spec.weight" in capsys.readouterr().out


@pytest.mark.parametrize(("form", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_json_output_can_be_parsed(
    form: str, load: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "a.yaml", BAD_POOL, NODE_CLASS)
    assert main(["validate", "-f", file, "-o", form]) == 1
    answer = load(capsys.readouterr().out)
    assert (answer["kind"], answer["valid"], answer["errors"], answer["warnings"]) == ("Validation", False, 1, 0)
    assert answer["problems"] == [
        {
            "severity": "error",
            "code": "InvalidValue",
            "file": file,
            "document": 0,
            "item": "",
            "line": answer["problems"][0]["line"],
            "column": 3,
            "object": "NodePool/wrong",
            "kind": "NodePool",
            "name": "wrong",
            "field": "spec.weight",
            "message": "must be at least 1",
            "suggestion": None,
        }
    ]


def test_unreadable_input_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    assert main(["validate", "-f", str(tmp_path / "a.yaml")]) == 2
    assert main(["validate", "-f", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().out == ""


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Input:
        buffer = io.BytesIO(yaml.safe_dump(BAD_POOL).encode())

    monkeypatch.setattr(sys, "stdin", Input)
    assert main(["validate", "-f", "-"]) == 1
    assert capsys.readouterr().out.startswith("-:")


def test_ignored_kinds_are_counted_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise, a misspelt kind passes as valid."""
    others = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} for kind in ("Namespace", "Widget", "Widget")
    ]
    assert main(["validate", "-f", write(tmp_path / "a.yaml", *others)]) == 0
    assert capsys.readouterr().err == "warning: skipped 2 objects of kinds that are not read here: Widget 2\n"


COMMON_MISTAKES = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  disrution: {consolidateAfter: 1m}
  colour: blue
  disruption:
    budgets:
    - {nodes: "1", schedule: "0 25 * * *", duration: 1h}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: defualt}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [x86_64]}
      - key: node.kubernetes.io/instance-type
        operator: In
        values: [m5.gigantic, m5.large]
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a, us-west-2a]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: r
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers: [{name: c, image: x, resources: {reqests: {cpu: 1}}}]
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: old}
spec: {template: {spec: {nodeClassRef: {name: default}, requirements: []}}}
"""


def found_in(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[tuple[Any, ...]]:
    (tmp_path / "a.yaml").write_text(text)
    main(["validate", "-f", str(tmp_path / "a.yaml"), "-o", "json", *more])
    keys = ("severity", "code", "object", "field", "line", "suggestion")
    return [tuple(problem[key] for key in keys) for problem in json.loads(capsys.readouterr().out)["problems"]]


def test_the_commonest_mistakes_are_found_with_a_suggestion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of these passed silently: a budget that stops disruption forever, a pool that launches nothing."""
    pool = "NodePool/default"
    required = "spec.template.spec.requirements"
    assert found_in(COMMON_MISTAKES, tmp_path, capsys) == [
        ("error", "UnknownField", pool, "spec.disrution", 5, "disruption"),
        ("warning", "UnknownField", pool, "spec.colour", 6, None),
        ("error", "InvalidCron", pool, "spec.disruption.budgets[0].schedule", 9, None),
        ("error", "NotFound", pool, "spec.template.spec.nodeClassRef.name", 12, "default"),
        ("error", "MatchesNothing", pool, f"{required}[0].values[0]", 14, "amd64"),
        ("warning", "MatchesNothing", pool, f"{required}[1].values[0]", 17, None),
        ("warning", "MatchesNothing", pool, f"{required}[2].values[1]", 18, None),
        (
            "error",
            "UnknownField",
            "Deployment/shop/web",
            "spec.template.spec.containers[0].resources.reqests",
            37,
            "requests",
        ),
        ("warning", "OldVersion", "NodePool/old", "apiVersion", 39, None),
    ]


def test_lenient_turns_only_misspelt_fields_into_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strict = found_in(COMMON_MISTAKES, tmp_path, capsys)
    lenient = found_in(COMMON_MISTAKES, tmp_path, capsys, "--lenient")
    assert [(was[1], was[0], now[0]) for was, now in zip(strict, lenient, strict=True) if was != now] == [
        ("UnknownField", "error", "warning"),
        ("UnknownField", "error", "warning"),
    ]


def test_a_class_outside_of_the_input_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pools and classes may be in different repositories; if the input has classes, an unknown name is a typo."""
    assert main(["validate", "-f", write(tmp_path / "a.yaml", NODE_POOL)]) == 0
    assert "there is no EC2NodeClass" in capsys.readouterr().out
    other = changed(NODE_CLASS, "metadata.name", "other")
    assert main(["validate", "-f", write(tmp_path / "a.yaml", NODE_POOL, other)]) == 1


@pytest.mark.parametrize("form", ["github", "sarif", "junit"])
def test_ci_formats_report_the_same_problems(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(COMMON_MISTAKES)
    assert main(["validate", "-f", str(tmp_path / "a.yaml"), "-o", form]) == 1
    text = capsys.readouterr().out
    if form == "github":
        assert f"::error file={tmp_path / 'a.yaml'},line=5,col=3,title=UnknownField::NodePool/default" in text
        assert len(text.splitlines()) == 9
    elif form == "sarif":
        results = json.loads(text)["runs"][0]["results"]
        assert [result["level"] for result in results].count("error") == 5
        assert results[0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 5, "startColumn": 3}
    else:
        suite = ET.fromstring(text)  # noqa: S314 - our own output
        assert (suite.get("tests"), suite.get("failures"), len(suite.findall("testcase/failure"))) == ("9", "5", 5)


def test_json_input_has_lines_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [BAD_POOL]}, indent=1))
    main(["validate", "-f", str(tmp_path / "a.json"), "-o", "json"])
    (_, problem) = json.loads(capsys.readouterr().out)["problems"]
    assert '"weight"' in (tmp_path / "a.json").read_text().splitlines()[problem["line"] - 1]


def test_a_bare_number_of_seconds_converts_to_a_valid_duration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old manifests mean seconds; v1 needs a unit."""
    pool = {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": "old"},
        "spec": {
            "disruption": {"expireAfter": 86400, "consolidationPolicy": "WhenEmpty", "consolidateAfter": 30},
            "template": {"spec": {"nodeClassRef": {"name": "default"}, "requirements": []}},
        },
    }
    assert main(["convert", "-f", write(tmp_path / "a.yaml", pool)]) == 0
    (converted,) = yaml.safe_load_all(capsys.readouterr().out)
    assert converted["spec"]["template"]["spec"]["expireAfter"] == "86400s"
    assert converted["spec"]["disruption"]["consolidateAfter"] == "30s"
    assert main(["validate", "-f", write(tmp_path / "b.yaml", converted)]) == 0
