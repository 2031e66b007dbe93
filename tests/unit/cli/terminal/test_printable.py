"""What names of others' objects may do to a terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest
import yaml

from cli.__main__ import main
from cli.answers.difference_document import as_markdown
from cli.answers.written_tables import markdown_table, markdown_text
from cli.terminal import output
from cli.terminal.printable import printable, takes_every_character, write_stderr, write_stdout
from cli.terminal.style import ALWAYS, NEVER, choose_style, style

HOSTILE = "a\x1b]0;title\x07b\x1b[2Jc\rd\x9be\u202ef\x00"


def test_a_terminal_obeys_nothing_but_colours() -> None:
    """A name could otherwise retitle or clear the terminal, or hide what stands before it."""
    assert printable(HOSTILE) == r"a\u001b]0;title\u0007b\u001b[2Jc\u000dd\u009be\u202ef\u0000"
    choose_style(ALWAYS)
    styled = style.styled("wait\n\tfor it ✓ é", "bold", "red")
    choose_style(NEVER)
    assert printable(styled) == styled


def test_json_stays_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    output.show({"kind": HOSTILE}, "json", str)
    assert json.loads(capsys.readouterr().out) == {"kind": HOSTILE}


@pytest.mark.parametrize("form", [None, "wide", "name", "jsonpath={.kind}"])
def test_answers_in_every_form_are_printable(form: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    output.show({"kind": HOSTILE}, form, lambda document: document["kind"], names=lambda document: document["kind"])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_names_can_be_written_in_any_encoding(form: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A locale without UTF-8 was an internal error for a pod's message with an umlaut."""
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
    output.show({"kind": "shöp \U0001f600"}, form, lambda document: document["kind"])
    sys.stdout.flush()
    shown = raw.getvalue().decode(encoding)
    read = {"table": lambda: json.loads(f'"{shown.rstrip()}"')}
    read |= {"json": lambda: json.loads(shown)["kind"], "yaml": lambda: yaml.safe_load(shown)["kind"]}
    assert read[form]() == "shöp \U0001f600"


def test_both_streams_are_written_to(capsys: pytest.CaptureFixture[str]) -> None:
    write_stdout("yes\x1bc")
    write_stderr("no\x1bc")
    assert capsys.readouterr() == ("yes\\u001bc\n", "no\\u001bc\n")


def test_an_error_about_a_hostile_file_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", "no\x1b[2Jfile"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_a_cell_of_markdown_stays_in_its_cell() -> None:
    """Manifests of a pull request come from anybody, and the table is posted under the name of a bot."""
    assert markdown_table(("a",), [("x | y\n<img src=//e>",)])[-1] == "| x   y &lt;img src=//e> |"
    assert markdown_text("`[a](http://e) @team`") == "'[a] (http://e) &#64;team'"
    assert markdown_text("  default/web-0  [NoNodePool]") == "default/web-0  [NoNodePool]"


def test_a_difference_in_markdown_names_pods_harmlessly() -> None:
    side = {"hourly": 0.0, "monthly": 0.0, "nodes": 0, "unschedulable": []}
    document = {"before": side, "after": side, "podsLost": ["d/@all](x)<b>"], "podsGained": [], "nodesDrifted": []}
    assert "- d/&#64;all] (x)&lt;b>" in as_markdown({**document, "reasons": {}}).splitlines()


def test_output_without_an_encoding_takes_every_character(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert takes_every_character()
