"""Decides whether to cancel a voluntary removal: before the first eviction, and if the node has lost its taint.

Since the decision, a pod that must not be disrupted may have arrived, or a PodDisruptionBudget that never allows an eviction.
The drain would stop half-way and leave a node that accepts no pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from core import labels
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.records import ClaimRecord, Deletion
from core.lifecycle.steps import CancelDrain
from core.model.node import Node
from core.model.pod import Pod
from core.model.values.taints import DISRUPTED
from core.pods.disruption_budgets import DisruptionBudgets
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason

CONSOLIDATION: Final = (TerminationReason.UNDERUTILIZED, TerminationReason.EMPTY)
LASTING: Final = (
    TerminationReason.DRIFTED,
    TerminationReason.EXPIRED,
    TerminationReason.UNHEALTHY,
    TerminationReason.SCHEDULED_CHANGE,
)
VOLUNTARY: Final = (*CONSOLIDATION, *LASTING)
"""Termination reasons for which a node is removed although it could stay.

For those in `LASTING`, a pod blocks the drain only without a terminationGracePeriod (Karpenter).
"""

FIRST_HOLD: Final = timedelta(minutes=15)
TAINT_SEEN_WITHIN: Final = timedelta(minutes=1)
"""After this time, a list of nodes is recent enough to have the taint; a node that has none has lost it."""

LONGEST_HOLD: Final = timedelta(hours=24)
"""The longest time without voluntary disruption of a node after its drain was cancelled; it doubles each time."""


def may_be_cancelled(record: ClaimRecord) -> bool:
    """Whether the claim's removal is voluntary, its node is tainted, and the removal can still be cancelled."""
    deletion = record.deletion
    if deletion is None or deletion.tainted_at is None or deletion.terminated_at is not None or deletion.is_final:
        return False
    return deletion.reason in CONSOLIDATION or (deletion.reason in LASTING and deletion.deadline is None)


def is_last_check_due(record: ClaimRecord) -> bool:
    """Whether the last check, which reads PodDisruptionBudgets, is due: no pod has left the node yet."""
    return may_be_cancelled(record) and record.deletion is not None and record.deletion.evicted_at is None


def last_check(record: ClaimRecord, facts: ClaimFacts, waiting: Sequence[Pod], now: datetime) -> CancelDrain | None:
    """Return the cancellation if a pod that must leave first can never be evicted, else None."""
    node = facts.node
    if not is_last_check_due(record) or node is None or node.deleted_at is not None:
        return None
    budgets = DisruptionBudgets(facts.budgets, now)
    for pod in waiting:
        if pod.blocks_disruption(now):
            return CancelDrain(node.name, NodeReason.DO_NOT_DISRUPT, f"pod {pod.key} has {labels.DO_NOT_DISRUPT}")
        why = budgets.never_evicted(pod)
        if why:
            return CancelDrain(node.name, NodeReason.POD_DISRUPTION_BUDGET, why)
    return None


def open_again(record: ClaimRecord, node: Node, now: datetime) -> CancelDrain | None:
    """Return the cancellation if the node has lost its taint during a drain with a deadline, None if it gets the taint again.

    The table may have been restored to a time before an earlier cancellation: that deadline has passed or soon will, and pods
    would be forced off a working node. Without a deadline, no pod is forced, and the taint is restored as Karpenter does.
    """
    deletion = record.deletion
    if deletion is None or deletion.deadline is None or not may_be_cancelled(record) or node.deleted_at is not None:
        return None
    if deletion.tainted_at is None or DISRUPTED in node.taints or now - deletion.begun_at < TAINT_SEEN_WITHIN:
        return None
    since = f"{deletion.tainted_at:%Y-%m-%dT%H:%M:%SZ}"
    return CancelDrain(
        node.name, NodeReason.TAINT_REMOVED, f"the node has no {DISRUPTED.key} taint though it was tainted at {since}"
    )


def hold_for(cancelled_drains: int) -> timedelta:
    """Return how long a node is exempt from voluntary disruption whose drain was cancelled `cancelled_drains` times before."""
    return min(LONGEST_HOLD, FIRST_HOLD * (1 << min(cancelled_drains, 10)))


def is_voluntary(deletion: Deletion) -> bool:
    """Whether the claim's removal is voluntary."""
    return deletion.reason in VOLUNTARY
