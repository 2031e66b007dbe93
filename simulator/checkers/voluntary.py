"""Defines which disruptions are voluntary, and the guarantees of Karpenter's API for these."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from core.model.values.duration import parse_duration
from simulator.checkers.facts import NodeFacts, PodFacts
from simulator.checkers.ledger import Ledger

REASONS: Final = ("Empty", "Drifted", "Underutilized", "Expired", "Unhealthy")
SKEW_MAX: Final = timedelta(seconds=1)
"""The maximum difference between two machines' clocks: a deadline may have passed for one and not for the other."""

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"


def is_voluntary(node: NodeFacts | None) -> bool:
    """Return whether the disruption of this node is voluntary."""
    return node is not None and node.disrupted_for in REASONS


def is_protected(pod: PodFacts, now: datetime) -> bool:
    """Whether the pod's annotation protects it from disruption now: `true`, or a duration since its start."""
    text = pod.annotations.get(DO_NOT_DISRUPT, "")
    if text == "true":
        return True
    lasting = parse_duration(text) if text else None
    if lasting is None or pod.bound_at is None:
        return False
    return now < pod.bound_at + lasting - SKEW_MAX


def time_is_up(ledger: Ledger, node: NodeFacts, pod: PodFacts, now: datetime) -> bool:
    """Whether terminationGracePeriod, as it was at the launch, allows the pod to be forced out now, whatever protects it."""
    instance = ledger.instances.get(node.instance)
    grace = parse_duration(instance.grace) if instance is not None and instance.grace else None
    if grace is None or node.disrupted_at is None:
        return False
    return now >= node.disrupted_at + grace - timedelta(seconds=pod.grace_seconds) - SKEW_MAX
