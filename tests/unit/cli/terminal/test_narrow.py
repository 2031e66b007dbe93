"""Terminals of any width: the program breaks the lines, at spaces, and never the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli.__main__ import main
from cli.terminal import output
from cli.terminal.printable import COLOUR
from cli.terminal.records import records
from cli.terminal.style import style
from tests.unit.cli.answers.test_status_table import CLUSTER, NODE

COMMANDS = (
    ["plan"],
    ["plan", "--all"],
    ["plan", "-o", "wide", "--color", "always"],
    ["consolidate", "--all"],
    ["explain", "shop/huge"],
    ["status", "-o", "wide"],
)


@pytest.mark.parametrize("columns", [20, 40, 60, 80])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(
    command: list[str], columns: int, cluster: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 60 columns a plan had 67, at 40 its lines were made for 60: the terminal broke them anywhere."""
    (tmp_path / "cluster" / "node.yaml").write_text(CLUSTER, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "is_on", style.is_on)  # the command chooses it for the whole process
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        main([*command, *cluster])
    for line in COLOUR.sub("", capsys.readouterr().out).splitlines():
        assert len(line) <= columns or len(line.split()) == 1, line


def test_a_row_that_does_not_fit_has_a_line_for_each_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names stay whole, and empty columns are left out."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    rows = [(NODE, "it is drifted, and goes", "m5.large", 3), ("b", "", "", "")]
    drawn = COLOUR.sub("", output.table(("NODE", "WHY", "TYPE", "PODS"), rows))
    assert drawn.splitlines() == ["NODE", NODE, "  WHY   it is drifted, and goes", "  TYPE  m5.large", "  PODS  3", "b"]


def test_a_word_that_needs_more_room_is_below_its_heading() -> None:
    lines = list(records(("NODE", "REPLACED BY"), [("a", "general-x7k2p-and-more b")], 30))
    assert lines == ["a", "  REPLACED BY", "    general-x7k2p-and-more b"]


def test_a_pipe_gets_a_row_in_one_line_however_long() -> None:
    """Programs look for a name in a line."""
    names = [f"{'n' * 30}-{number}" for number in range(5)]
    assert output.table(("A", "B", "C", "D", "E"), [names]).splitlines()[1].split() == names


def test_a_cell_of_spaces_has_no_line() -> None:
    assert list(records(["NAME", "ZONE", "POD"], [["node", "  ", "web"]], 20)) == ["node", "  POD   web"]
