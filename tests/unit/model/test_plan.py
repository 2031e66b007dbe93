"""Conditions of a claim."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core import labels
from core.model.plan import INITIALIZED, Condition, NodeClaim


@pytest.mark.parametrize(("status", "holds"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_condition_holds_only_with_status_true(status: str, holds: bool) -> None:
    claim = NodeClaim(name="c", conditions={INITIALIZED: Condition(status)}, labels={labels.NODEPOOL: "general"})
    assert claim.is_true(INITIALIZED) is holds
    assert claim.node_pool == "general"
    assert not NodeClaim(name="c").is_true(INITIALIZED)


@pytest.mark.parametrize(
    ("last", "initialized", "idle_since"),
    [(3, 2, 3), (None, 2, 2), (None, None, 1), (3, None, 3), (1, 2, 1)],
)
def test_a_node_is_idle_since_a_pod_moved_or_it_started(
    last: int | None, initialized: int | None, idle_since: int
) -> None:
    """ConsolidateAfter counts from then."""

    def day(number: int | None) -> datetime | None:
        return None if number is None else datetime(2026, 11, number, tzinfo=UTC)

    conditions = {} if initialized is None else {INITIALIZED: Condition("True", changed_at=day(initialized))}
    claim = NodeClaim(name="c", conditions=conditions, created_at=day(1), last_pod_event_at=day(last))
    assert claim.idle_since == day(idle_since)
