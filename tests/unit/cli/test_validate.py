"""`fleetwright validate`: one line for each problem, and an exit code that a pipeline can trust."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from tests.unit.api.objects import NODE_CLASS, NODE_POOL, changed

BAD_POOL = changed(changed(NODE_POOL, "spec.weight", 0), "metadata.name", "wrong")


def write(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_valid_objects_print_nothing_and_exit_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-f", write(tmp_path / "a.yaml", NODE_POOL, NODE_CLASS)]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_problem_is_told_with_file_document_object_field_and_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "a.yaml", NODE_POOL, BAD_POOL)
    assert main(["validate", "-f", file]) == 1
    assert capsys.readouterr().out == f"{file}: document 1: NodePool wrong: spec.weight: must be at least 1\n"


def test_good_objects_do_not_hide_bad_ones_in_any_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a.yaml", NODE_POOL, changed(BAD_POOL, "spec.limits.cpu", "ten"))
    write(tmp_path / "b.yaml", changed(NODE_CLASS, "spec.role", ""))
    assert main(["validate", "-f", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(": ", 2)[1] for line in lines] == ["spec.limits.cpu", "spec.weight", "spec.role"]


def test_an_object_in_a_list_is_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [NODE_POOL, BAD_POOL]}
    assert main(["validate", "-f", write(tmp_path / "a.yaml", listed)]) == 1
    assert "document 0, items[1]: NodePool wrong: spec.weight" in capsys.readouterr().out


@pytest.mark.parametrize(("form", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_answer_can_be_read_by_programs(
    form: str, load: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "a.yaml", BAD_POOL)
    assert main(["validate", "-f", file, "-o", form]) == 1
    answer = load(capsys.readouterr().out)
    assert answer["valid"] is False
    assert answer["problems"] == [
        {
            "file": file,
            "document": 0,
            "item": "",
            "kind": "NodePool",
            "name": "wrong",
            "field": "spec.weight",
            "message": "must be at least 1",
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
    assert capsys.readouterr().out.startswith("-: document 0: NodePool wrong")


def test_kinds_that_nobody_looks_at_are_counted_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt kind would otherwise pass for valid."""
    others = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} for kind in ("Pod", "Widget", "Widget")]
    assert main(["validate", "-f", write(tmp_path / "a.yaml", *others)]) == 0
    assert capsys.readouterr().err == "warning: skipped 2 objects of kinds that are not read here: Widget 2\n"
