"""`report`: which period, which columns, and in which form."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from cli.commands import report

Capture = pytest.CaptureFixture[str]
DOCUMENT = {"kind": "CostReport", "dollars": 1.5}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """The arguments with which a period was read; each form of the answer is its name and the dollars."""
    found: list[argparse.Namespace] = []

    def read(arguments: argparse.Namespace, _: Any) -> dict[str, Any]:
        found.append(arguments)
        return DOCUMENT

    monkeypatch.setattr("cli.ledger.entries.report_of_period", read)
    for form in ("csv", "html", "markdown", "table"):
        told = f"{form} of {DOCUMENT['dollars']}\n"
        monkeypatch.setattr(f"cli.answers.difference.report_{form}", lambda _, told=told: told)
    return found


@pytest.mark.parametrize("form", ["csv", "html", "markdown", "table"])
def test_a_report_has_the_form_that_was_asked_for(
    form: str, asked: list[argparse.Namespace], capsys: Capture, tmp_path: Path
) -> None:
    assert main(["report", "--ledger", str(tmp_path), "-o", form]) == 0
    assert capsys.readouterr().out == f"{form} of 1.5\n"
    (arguments,) = asked
    assert (arguments.by, arguments.no_baseline, arguments.month) == (("nodepool", "namespace"), False, None)


def test_programs_read_json_and_people_a_table(asked: list[argparse.Namespace], capsys: Capture) -> None:
    assert main(["report", "--ledger", "x", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == DOCUMENT
    assert main(["report", "--ledger", "x"]) == 0
    assert capsys.readouterr().out == "table of 1.5\n"
    assert main(["report", "--ledger", "x", "-o", "xml"]) == 2
    assert len(asked) == 2


def test_a_month_is_a_whole_period(asked: list[argparse.Namespace], capsys: Capture) -> None:
    assert main(["report", "--ledger", "x", "--month", "2024-02", "--color", "never", "--no-baseline"]) == 0
    (arguments,) = asked
    assert (arguments.since, arguments.until) == (datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC))
    assert arguments.no_baseline
    capsys.readouterr()
    for words in (("--from", "7d"), ("--to", "2024-03-01T00:00:00Z"), ("--from", "7d", "--to", "1d")):
        assert main(["report", "--ledger", "x", "--month", "2024-02", *words]) == 2
        assert "--month is a whole month: leave out --from and --to" in capsys.readouterr().err
    assert main(["report", "--ledger", "x", "--from", "2024-02-01T00:00:00Z"]) == 0
    assert (asked[-1].since, asked[-1].until) == (datetime(2024, 2, 1, tzinfo=UTC), None)


def test_columns_are_those_that_a_report_can_have() -> None:
    assert report._columns(" zone,nodepool, ,zone") == ("zone", "nodepool")
    for text, said in (("", "'' is none of"), (",", "',' is none of"), ("zone,x,y", "'x, y' is none of nodepool, ")):
        with pytest.raises(argparse.ArgumentTypeError, match=said):
            report._columns(text)
