"""Finds unhealthy nodes, and decides whether too many are unhealthy to replace them safely (Karpenter, node repair)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.model import plan
from core.model.plan import NodeClaim
from core.model.snapshot import ACCELERATED_HARDWARE, Node, NodeCondition
from core.model.state_node import StateNode


class RepairPolicy(msgspec.Struct, frozen=True):
    """A node condition that requires replacement once it has lasted for `patience`.

    Attributes:
        drain_within: How long the drain may take before pods are forced off, whatever protects them.
        reason: Expression for the reasons to which it applies; empty for those that no other policy of the type names.
    """

    type: str
    status: str
    patience: timedelta
    drain_within: timedelta = timedelta(minutes=10)
    reason: str = ""

    def names(self, condition: NodeCondition) -> bool:
        """Whether the policy names the reason of the condition."""
        return bool(self.reason) and re.search(self.reason, condition.reason) is not None


_HALF_AN_HOUR: Final = timedelta(minutes=30)
_TEN_MINUTES: Final = timedelta(minutes=10)
_FIVE_MINUTES: Final = timedelta(minutes=5)
_CLEARED_BY_REBOOT: Final = "XID(46|48|54|62|63|95|109|110|136|140|143|155|156|158)"
_BROKEN: Final = "XID(64|74|79|119|120)"

POLICIES: Final = (
    RepairPolicy("Ready", "False", _HALF_AN_HOUR),
    RepairPolicy("Ready", "Unknown", _HALF_AN_HOUR),
    RepairPolicy(ACCELERATED_HARDWARE, "False", _TEN_MINUTES, _FIVE_MINUTES, _CLEARED_BY_REBOOT),
    RepairPolicy(ACCELERATED_HARDWARE, "False", _TEN_MINUTES, _FIVE_MINUTES, _BROKEN),
    RepairPolicy(ACCELERATED_HARDWARE, "False", _HALF_AN_HOUR),
    RepairPolicy("StorageReady", "False", _HALF_AN_HOUR),
    RepairPolicy("NetworkingReady", "False", _HALF_AN_HOUR),
    RepairPolicy("KernelReady", "False", _HALF_AN_HOUR),
    RepairPolicy("ContainerRuntimeReady", "False", _HALF_AN_HOUR),
)
"""Karpenter's policies on AWS: the kubelet's own condition, and those of the EKS node monitoring agent.

The expressions for reasons are Karpenter's. They are not anchored, so the one for XID64 matches XID640 as well. Faults that a
reboot clears lead to a replacement, as in Karpenter without its gate RebootForRepair.
"""

UNHEALTHY_AT_MOST_PERCENT: Final = 20
"""Share of a NodePool's nodes, rounded up. If more are unhealthy, the cause is not the nodes, and new ones would fail too."""


class Illness(msgspec.Struct, frozen=True):
    """A node that must be replaced: why, since when its replacement is due, and how long its drain may take."""

    problem: str
    due_at: datetime
    drain_within: timedelta


class HealthCheck:
    """Checks the nodes of one snapshot."""

    def __init__(self, states: Iterable[StateNode], now: datetime) -> None:
        self._now = now
        present: dict[str, int] = {}
        unhealthy: dict[str, int] = {}
        for state in states:
            if state.claim is not None and state.node is not None and state.is_registered:
                present[state.node_pool] = present.get(state.node_pool, 0) + 1
                unhealthy[state.node_pool] = unhealthy.get(state.node_pool, 0) + bool(_matching(state.node))
        self._too_many = {
            pool for pool, count in present.items() if unhealthy[pool] > -(-count * UNHEALTHY_AT_MOST_PERCENT // 100)
        }

    def illness(self, state: StateNode) -> Illness | None:
        """Return why the node must be replaced now; None if it need not be.

        A policy counts from the latest of the condition's change, the node's creation and the end of its last reboot. The drain
        has the shortest bound of all policies that are due.
        """
        node = state.node
        if node is None:
            return None
        rebooted_at = _rebooted_at(state.claim)
        due: list[Illness] = []
        for policy, condition in _matching(node):
            starts = [moment for moment in (condition.changed_at, node.created_at, rebooted_at) if moment is not None]
            if not starts or self._now - max(starts) < policy.patience:
                continue
            since = max(starts)
            problem = f"its condition {policy.type} is {policy.status} since {since:%Y-%m-%dT%H:%M:%SZ}"
            due.append(Illness(problem, since + policy.patience, policy.drain_within))
        if not due:
            return None
        first = min(due, key=lambda illness: illness.due_at)
        return msgspec.structs.replace(first, drain_within=min(illness.drain_within for illness in due))

    def due(self, states: Iterable[StateNode]) -> frozenset[str]:
        """Names of the claims whose nodes must be replaced now."""
        return frozenset(s.claim.name for s in states if s.claim is not None and self.illness(s) is not None)

    def is_widespread(self, pool: str) -> bool:
        """Whether too many nodes of the NodePool are unhealthy, for however short a time."""
        return pool in self._too_many


def drain_bound(node: Node | None, now: datetime) -> timedelta:
    """Return how long the drain of a node that is repaired may take; the longest bound for one that is well again."""
    illness = HealthCheck((), now).illness(StateNode(node=node)) if node is not None else None
    return illness.drain_within if illness is not None else _TEN_MINUTES


def has_unhealthy_node(nodes: Iterable[Node]) -> bool:
    """Whether any node has a condition that requires its replacement sooner or later."""
    return any(_matching(node) for node in nodes)


def _matching(node: Node) -> list[tuple[RepairPolicy, NodeCondition]]:
    """Return the policies that apply to the node's conditions, in the order of the policies."""
    conditions = {condition.type: condition for condition in node.conditions}
    matches: list[tuple[RepairPolicy, NodeCondition]] = []
    for policy in POLICIES:
        condition = conditions.get(policy.type)
        if condition is None or condition.status != policy.status:
            continue
        is_named = any(other.names(condition) for other in POLICIES if other.type == policy.type)
        if policy.names(condition) if is_named else not policy.reason:
            matches.append((policy, condition))
    return matches


def _rebooted_at(claim: NodeClaim | None) -> datetime | None:
    """Return when Karpenter's last reboot of the node ended; None if there was none."""
    rebooting = claim.conditions.get(plan.REBOOTING) if claim is not None else None
    return rebooting.changed_at if rebooting is not None and rebooting.status == "False" else None
