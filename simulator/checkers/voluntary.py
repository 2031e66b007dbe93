"""Which disruptions are the program's own choice, and what Karpenter's API promises users about those."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from core.model.duration import parse_duration
from simulator.checkers.ledger import Ledger, NodeFacts, PodFacts

REASONS: Final = ("Empty", "Drifted", "Underutilized", "Expired")
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"


def is_voluntary(node: NodeFacts | None) -> bool:
    """Whether this node goes because the program wants it to."""
    return node is not None and node.disrupted_for in REASONS


def is_protected(pod: PodFacts, now: datetime) -> bool:
    """Whether the pod's annotation keeps it from being disrupted now: `true`, or for a time since it runs."""
    text = pod.annotations.get(DO_NOT_DISRUPT, "")
    if text == "true":
        return True
    lasting = parse_duration(text) if text else None
    return bool(lasting) and pod.bound_at is not None and lasting is not None and now < pod.bound_at + lasting


def time_is_up(ledger: Ledger, node: NodeFacts, pod: PodFacts, now: datetime) -> bool:
    """Whether the NodePool's terminationGracePeriod allows the pod to be forced out now, whatever protects it."""
    spec: Mapping[str, Any] = ledger.spec_of("NodePool", node.pool).get("template", {}).get("spec") or {}
    grace = parse_duration(str(spec.get("terminationGracePeriod") or ""))
    if grace is None or node.disrupted_at is None:
        return False
    return now >= node.disrupted_at + grace - timedelta(seconds=pod.grace_seconds)
