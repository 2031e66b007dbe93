"""Nodes would outlive their time, or go before it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from core.disruption.expiration import expired
from core.model.node_claim import NodeClaim
from tests.builders import NOW, a_snapshot

HOUR = timedelta(hours=1)


def claim(name: str = "a", **changes: Any) -> NodeClaim:
    """An hour old, to be replaced at that age."""
    return NodeClaim(**{"name": name, "created_at": NOW - HOUR, "expire_after": HOUR, **changes})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("a",)),
        ({"created_at": NOW - HOUR + timedelta(seconds=1)}, ()),
        ({"expire_after": None}, ()),
        ({"deleted_at": NOW}, ()),
        ({"created_at": None}, ()),
    ],
)
def test_expired(changes: dict[str, Any], expected: tuple[str, ...]) -> None:
    """At its age exactly, never without one, never twice."""
    assert expired(a_snapshot(node_claims=(claim(**changes),))) == expected


def test_claims_of_a_command_under_way_are_left_to_it() -> None:
    """A command that waits for its replacement must not lose its node meanwhile."""
    assert expired(a_snapshot(node_claims=(claim(),), marked_for_deletion=("a",))) == ()


def test_longest_overdue_first() -> None:
    """Order follows the time, then the name, not the input."""
    claims = (claim("c"), claim("b"), claim("a", created_at=NOW - 2 * HOUR))
    assert expired(a_snapshot(node_claims=claims)) == ("a", "b", "c")
