"""Conditions of a claim."""

from __future__ import annotations

import pytest

from core import labels
from core.model.node_claim import INITIALIZED, Condition, NodeClaim


@pytest.mark.parametrize(("status", "holds"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_condition_holds_only_with_status_true(status: str, holds: bool) -> None:
    claim = NodeClaim(name="c", conditions={INITIALIZED: Condition(status)}, labels={labels.NODEPOOL: "general"})
    assert claim.is_true(INITIALIZED) is holds
    assert claim.node_pool == "general"
    assert not NodeClaim(name="c").is_true(INITIALIZED)
