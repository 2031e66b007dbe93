"""The taint of a leaving node, its label and its reason.

They survive the loss of the claim's row, which a restored table may replace.
"""

from __future__ import annotations

from typing import Final

from core import labels
from core.lifecycle.draining.cancellation import VOLUNTARY
from core.lifecycle.steps import TaintNode
from core.model.node import Node
from core.model.values.taints import DISRUPTED
from core.reasons.termination import TerminationReason

EXCLUDED_BY_US: Final = "karpenter"
"""Value of the label that keeps a node out of load balancers (Karpenter); a user's own label has another value and stays."""

REASON_ANNOTATION: Final = "fleetwright.dev/disruption-reason"
"""Annotation with the reason for the disrupted taint, which has no value itself (Karpenter)."""


def taint_of(node: Node, reason: str) -> TaintNode:
    """Return the step that keeps new pods and load balancers off the node; our taint replaces one with the same key."""
    others = tuple(taint for taint in node.taints if taint.key != DISRUPTED.key)
    return TaintNode(
        node=node.name,
        labels={labels.EXCLUDE_FROM_BALANCERS: EXCLUDED_BY_US},
        annotations={REASON_ANNOTATION: _reason_to_write(node, reason)},
        taints=(*others, DISRUPTED),
    )


def lacks_marks(node: Node, reason: str) -> bool:
    """Whether the node must be marked for this reason: it is unmarked, or marked for a voluntary reason only."""
    is_marked = DISRUPTED in node.taints and labels.EXCLUDE_FROM_BALANCERS in node.labels
    written = node.annotations.get(REASON_ANNOTATION, reason)
    return not is_marked or written != _reason_to_write(node, reason)


def must_leave_for(node: Node) -> TerminationReason | None:
    """Return the mandatory reason for which the node is marked, None if it is unmarked or could stay.

    A mandatory removal is never revoked, so a claim without it has lost it. Marks of a voluntary reason may also remain from an
    abandoned command.
    """
    if DISRUPTED not in node.taints:
        return None
    reason = TerminationReason.stored(node.annotations.get(REASON_ANNOTATION, ""))
    return None if reason in VOLUNTARY or reason is TerminationReason.OTHER else reason


def _reason_to_write(node: Node, reason: str) -> str:
    """Return the reason that the node is already marked with, unless it is voluntary and the new one mandatory."""
    written = node.annotations.get(REASON_ANNOTATION, reason)
    return reason if written in VOLUNTARY and reason not in VOLUNTARY else written
