"""`drain`: which installation, how long, and whether anything remains."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from cli.__main__ import main

Capture = pytest.CaptureFixture[str]
CLUSTER = ("drain", "--cluster", "prod")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Which installation was found, and what was asked of it; something remains."""
    found: list[Any] = []

    def drain_all(resources: Any, **words: Any) -> tuple[dict[str, Any], bool]:
        found.append((resources, words))
        return {"kind": "Drain", "items": []}, words["is_acting"]

    monkeypatch.setattr("cli.cluster.installation.find_installation", lambda name, **words: (name, words))
    monkeypatch.setattr("cli.removal.owned_resources.open_owned_resources", lambda given: ("resources", given))
    monkeypatch.setattr("cli.removal.draining.drain_all", drain_all)
    return found


@pytest.mark.parametrize(
    ("words", "is_acting", "grace", "timeout"),
    [
        ((), False, None, timedelta(hours=1)),
        (("--yes",), True, None, timedelta(hours=1)),
        (("--grace-period", "10m", "--timeout", "30m"), False, timedelta(minutes=10), timedelta(minutes=30)),
        (("--grace-period", "0s"), False, timedelta(0), timedelta(hours=1)),
    ],
)
def test_an_installation_is_drained_as_it_is_asked(
    words: tuple[str, ...],
    is_acting: bool,
    grace: timedelta | None,
    timeout: timedelta,
    asked: list[Any],
    capsys: Capture,
) -> None:
    place = ("--region", "eu-west-1", "--profile", "mine", "--stack", "s")
    assert main([*CLUSTER, "--all", *place, *words, "-o", "json"]) == (0 if is_acting else 1)
    assert json.loads(capsys.readouterr().out) == {"kind": "Drain", "items": []}
    ((resources, given),) = asked
    assert resources == ("resources", ("prod", {"region": "eu-west-1", "profile": "mine", "stack": "s"}))
    assert given == {"is_acting": is_acting, "grace": grace, "timeout": timeout}


@pytest.mark.parametrize("form", ["table", "wide", "name"])
@pytest.mark.usefixtures("asked")
def test_people_are_shown_what_remains(form: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, shown in (("drain_table", "table"), ("all_that_remains", "wide"), ("remaining_names", "name")):
        monkeypatch.setattr(f"cli.removal.documents.{name}", lambda _, shown=shown: f"as {shown}")
    assert main([*CLUSTER, "--all", "-o", form]) == 1
    assert capsys.readouterr().out == f"as {form}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--all"),
        (("--all", "--grace-period", "soon"), "--grace-period: 'soon' is not a duration"),
        (("--all", "--timeout", "-1m"), "--timeout"),
        (("--all", "--timeout", "Never"), "--timeout: 'Never' is not a duration"),
    ],
)
def test_what_is_no_duration_or_not_all_is_wrong_usage(
    words: tuple[str, ...], said: str, asked: list[Any], capsys: Capture
) -> None:
    assert main([*CLUSTER, *words]) == 2
    assert said in capsys.readouterr().err
    assert asked == []
