"""Rows that are read again and again: `execute` reads a claim each second while its node boots."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adapters.aws.dynamodb import records
from adapters.aws.dynamodb.records import RecordItems
from adapters.aws.dynamodb.table import Item


class Note(msgspec.Struct, frozen=True):
    """A record."""

    text: str
    version: int = 0


class Rows:
    """A table of one partition."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}

    def get(self, _: str, sort: str) -> Item | None:
        return self.items.get(sort)


@pytest.fixture
def notes() -> tuple[RecordItems[Note], Rows]:
    rows: Any = Rows()
    return RecordItems(rows, "notes", Note), rows


def test_a_row_is_decoded_once_until_it_changes(notes: tuple[RecordItems[Note], Rows]) -> None:
    """Otherwise, each read of a claim costs as much as the first one, or returns an old version."""
    found, rows = notes
    rows.items["a"] = found.item("a", Note("x" * 2000, 1))
    first = found.get("a")
    assert first == Note("x" * 2000, 1)
    assert found.get("a") is first
    rows.items["a"] = found.item("a", Note("y", 2))
    assert found.get("a") == Note("y", 2)
    del rows.items["a"]
    assert found.get("a") is None
    rows.items["a"] = found.item("a", Note("y", 3))
    assert found.get("a") == Note("y", 3)


def test_a_sandbox_does_not_keep_every_row_it_ever_read(
    notes: tuple[RecordItems[Note], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "READ_AT_MOST", 3)
    found, rows = notes
    for name in "abcdefgh":
        rows.items[name] = found.item(name, Note(name))
        assert found.get(name) == Note(name)
        assert len(found._read) <= 3
