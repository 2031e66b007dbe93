"""The taint of a leaving node, its label and its reason. They outlive the claim's row, which a restored table may replace."""

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
"""Annotation that says why the node carries the disrupted taint, which itself has no value (Karpenter)."""


def taint_of(node: Node, reason: str) -> TaintNode:
    """Return the step that keeps new pods and load balancers off the node; our taint replaces any with the same key."""
    others = tuple(taint for taint in node.taints if taint.key != DISRUPTED.key)
    return TaintNode(
        node=node.name,
        labels={labels.EXCLUDE_FROM_BALANCERS: EXCLUDED_BY_US},
        annotations={REASON_ANNOTATION: _reason_to_write(node, reason)},
        taints=(*others, DISRUPTED),
    )


def lacks_marks(node: Node, reason: str) -> bool:
    """Whether the node of a claim that leaves for the reason must be marked, or was marked for one of our choice before."""
    is_marked = DISRUPTED in node.taints and labels.EXCLUDE_FROM_BALANCERS in node.labels
    written = node.annotations.get(REASON_ANNOTATION, reason)
    return not is_marked or written != _reason_to_write(node, reason)


def must_leave_for(node: Node) -> TerminationReason | None:
    """Return the mandatory reason for which the node is marked, None where it is not marked or could stay.

    A removal for such a reason is never revoked, so a claim that knows nothing of it has lost it. Marks of a voluntary reason
    may also be those of a command that was given up.
    """
    if DISRUPTED not in node.taints:
        return None
    reason = TerminationReason.stored(node.annotations.get(REASON_ANNOTATION, ""))
    return None if reason in VOLUNTARY or reason is TerminationReason.OTHER else reason


def _reason_to_write(node: Node, reason: str) -> str:
    """Return the reason that the node is marked with already, but a mandatory one in place of a voluntary one."""
    written = node.annotations.get(REASON_ANNOTATION, reason)
    return reason if written in VOLUNTARY and reason not in VOLUNTARY else written
