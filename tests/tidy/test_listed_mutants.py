"""The lists of mutants name code that exists: change an entry with its code, or drop it."""

from __future__ import annotations

from tests.mutation import equivalent, named


def test_every_listed_mutant_can_be_made() -> None:
    """An entry whose code has moved on proves nothing."""
    assert equivalent.stale(equivalent.entries()) + named.stale(named.named()) == []
