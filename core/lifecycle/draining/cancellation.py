"""Decides whether to cancel a voluntary removal; checked once more before the first eviction.

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
from core.model.pod import Pod
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


def hold_for(cancelled_drains: int) -> timedelta:
    """Return how long a node is exempt from voluntary disruption whose drain was cancelled `cancelled_drains` times before."""
    return min(LONGEST_HOLD, FIRST_HOLD * (1 << min(cancelled_drains, 10)))


def is_voluntary(deletion: Deletion) -> bool:
    """Whether the claim's removal is voluntary."""
    return deletion.reason in VOLUNTARY
