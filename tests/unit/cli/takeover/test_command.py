"""`adopt` and `release`: which installation, in which direction, and whether anything remains."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.__main__ import main

PLACE = ("--cluster", "prod", "--region", "eu-west-1", "--profile", "mine", "--stack", "s")


@pytest.mark.parametrize("name", ["adopt", "release"])
@pytest.mark.parametrize("is_acting", [False, True])
@pytest.mark.parametrize("is_complete", [False, True])
def test_each_direction_is_asked_of_its_installation(
    name: str,
    is_acting: bool,
    is_complete: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[Any] = []

    def direction(way: str) -> Any:
        def taken(environment: Any, *, is_acting: bool) -> tuple[dict[str, Any], bool]:
            asked.append((way, environment, is_acting))
            return {"kind": way}, is_complete

        return taken

    monkeypatch.setattr("cli.cluster.installation.find_installation", lambda found, **words: (found, words))
    monkeypatch.setattr("cli.takeover.environment.open_environment", lambda found: ("environment", found))
    for way, function in (("adopt", "adoption"), ("release", "release")):
        monkeypatch.setattr(f"cli.takeover.directions.{function}", direction(way))
        monkeypatch.setattr(f"cli.takeover.tables.{function}_table", lambda _, way=way: f"{way} as table")
        monkeypatch.setattr(f"cli.takeover.tables.all_of_{function}", lambda _, way=way: f"{way} as wide")
    monkeypatch.setattr("cli.takeover.tables.subject_names", lambda _: "as name")
    more = ("--yes",) if is_acting else ()
    for form, told in (("table", f"{name} as table"), ("wide", f"{name} as wide"), ("name", "as name")):
        assert main([name, *PLACE, *more, "-o", form]) == int(not is_complete)
        assert capsys.readouterr().out == f"{told}\n"
    assert main([name, *PLACE, *more, "-o", "json"]) == int(not is_complete)
    assert json.loads(capsys.readouterr().out) == {"kind": name}
    place = ("prod", {"region": "eu-west-1", "profile": "mine", "stack": "s"})
    assert asked == [(name, ("environment", place), is_acting)] * 4
    assert main([name]) == 2
