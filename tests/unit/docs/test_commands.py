"""What pages tell to type can be typed: commands with their options, and targets of make."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from cli.__main__ import COMMANDS, whole_parser
from tests.aws_commands import aws_call, aws_commands

ROOT: Final = Path(__file__).parents[3]
PAGES: Final = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(
        path
        for folder in ("tutorials", "how-to", "explanation", "reference")
        for path in (ROOT / "docs" / folder).glob("*.md")
    ),
    ROOT / "docs" / "engineering" / "command-line.md",
]
WRITTEN: Final = re.compile(
    r"(?:^|`|\$ |run: |\()\s*(?:[A-Z_]+=\S+ )?(?:\.venv/bin/)?fleetwright ((?!-)[a-z][^`\n]*)", re.MULTILINE
)
TARGETS: Final = re.compile(r"`make ([a-z0-9-]+)[ `]|^ {4}make ([a-z0-9-]+)", re.MULTILINE)
FAULTS: Final = ("unrecognized arguments", "invalid choice", "there is no")
ENDS: Final = re.compile(r" {2,}| \| | > | #|…|\.\.\.| < ")


def commands_in(text: str) -> list[str]:
    """Each command line without its comment, pipe or redirection."""
    return [ENDS.split(found)[0].strip() for found in WRITTEN.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_and_option_on_a_page_is_known(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that was renamed lives on in a guide, and its reader gives up. What a sentence leaves out may be missing."""
    parser = whole_parser()
    for command in commands_in(page.read_text(encoding="utf-8")):
        words = shlex.split(command.rstrip(")"))
        if len(words) == 1 or "|" in command:
            assert words[0].partition("|")[0] in COMMANDS, command
            continue
        with contextlib.suppress(SystemExit):
            parser.parse_args(words)
        problem = capsys.readouterr().err
        assert not any(fault in problem for fault in FAULTS), f"fleetwright {command}\n{problem}"


def test_every_target_on_a_page_is_one_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))
    told = {first or second for page in PAGES for first, second in TARGETS.findall(page.read_text(encoding="utf-8"))}
    assert sorted(told - known) == []


def test_every_call_of_aws_on_a_page_is_one_that_aws_knows() -> None:
    """Nothing here was tried on AWS: an operation or an option that it does not have would end a reader's removal halfway."""
    written = [command for page in PAGES for command in aws_commands(page.read_text(encoding="utf-8"))]
    assert len(written) > 30
    for command in written:
        aws_call(command)


@pytest.mark.parametrize(
    "command", ["ec2 describe-templates", "dynamodb delete-table --table T", "nothing list", "eks wait cluster-ready"]
)
def test_a_call_that_aws_does_not_know_is_noticed(command: str) -> None:
    with pytest.raises(ValueError, match=re.escape(command)):
        aws_call(command)
