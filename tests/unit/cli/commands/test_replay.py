"""`replay` says of each decision of a ledger whether it is the same again, what differs, or why it cannot be read."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from cli.commands.replay import replay_table
from cli.ledger.arguments import own_code
from core import codec
from core.ledger.entry import PROVISION
from core.ledger.reading import decision_key
from core.scheduling import schedule
from tests.builders import NOW
from tests.unit.cli.ledger.stored import MemoryLedger
from tests.unit.cli.ledger.test_entries import WORLD, stored

PLAN = codec.encode_plan(schedule(WORLD))
OTHER = json.loads(PLAN) | {"bindings": [], "another": 1}


@pytest.fixture
def ledger() -> MemoryLedger:
    return stored(MemoryLedger(), "aaaa1", PROVISION, PLAN)


def replayed(ledger: MemoryLedger, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    for key, content in ledger.objects.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(content)
    code = main(["replay", "--ledger", str(folder), "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_decision_that_is_the_same_again(
    ledger: MemoryLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replayed(ledger, tmp_path, capsys) == (
        0,
        {
            "apiVersion": "fleetwright.dev/v1",
            "kind": "Replay",
            "code": own_code(),
            "decisions": 1,
            "equal": 1,
            "different": [],
            "unreadable": [],
        },
    )


@pytest.mark.parametrize("build", ["", "abc"])
def test_one_that_differs_is_told_by_its_fields_beside_one_that_is_the_same(
    build: str, ledger: MemoryLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(ledger, "bbbb2", PROVISION, json.dumps(OTHER).encode(), at=NOW + timedelta(hours=1), code=build)
    code, document = replayed(ledger, tmp_path, capsys)
    (different,) = document.pop("different")
    assert "another: 1 became null" in different.pop("differences")
    assert different == {
        "id": "bbbb2",
        "time": (NOW + timedelta(hours=1)).isoformat().replace("+00:00", "Z"),
        "function": PROVISION,
        "version": "7",
        "code": build or None,
    }
    assert (code, document["decisions"], document["equal"], document["unreadable"]) == (1, 2, 1, [])


def test_one_that_cannot_be_read_hides_no_other(
    ledger: MemoryLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.objects[decision_key("c", NOW + timedelta(hours=1), PROVISION, "cccc3")] = b"nothing"
    code, document = replayed(ledger, tmp_path, capsys)
    (unreadable,) = document["unreadable"]
    assert unreadable["id"] == "cccc3"
    assert "is not an entry of a ledger" in unreadable["problem"]
    assert (code, document["decisions"], document["equal"], document["different"]) == (1, 2, 1, [])


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (None, "version 7) is different:"),
        ("here", "version 7, the code that runs here, here: report this) is different:"),
        (
            "abc",
            "version 7, code abc; here runs here: to repeat it, use the build that was deployed then) is different:",
        ),
    ],
)
def test_people_read_which_code_decided(build: str | None, said: str) -> None:
    different = {
        "id": "b",
        "function": PROVISION,
        "time": "T",
        "version": "7",
        "code": build,
        "differences": ["x: 1", "y: 2"],
    }
    document = {
        "equal": 1,
        "decisions": 3,
        "code": "here",
        "different": [different],
        "unreadable": [{"id": "c", "problem": "is odd"}],
    }
    parts = replay_table(document).split("\n\n")
    assert parts[0] == "1 of 3 decisions are the same, byte for byte"
    assert " ".join(parts[1].split()) == f"b (provision, T, {said} x: 1 y: 2"
    assert parts[1].splitlines()[-2:] == ["  x: 1", "  y: 2"]
    assert parts[2:] == ["c cannot be read: is odd"]


def test_one_of_a_function_that_this_release_does_not_know_hides_no_other(
    ledger: MemoryLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later release may record decisions of another function."""
    stored(ledger, "dddd4", "rebalance", PLAN, at=NOW + timedelta(hours=1))
    code, document = replayed(ledger, tmp_path, capsys)
    assert (code, document["decisions"], document["equal"], document["different"]) == (1, 2, 1, [])
    assert [found["id"] for found in document["unreadable"]] == ["dddd4"]
    assert "'rebalance' is not a function that decides" in document["unreadable"][0]["problem"]
