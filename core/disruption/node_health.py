"""Finds unhealthy nodes, and decides whether too many are unhealthy to replace them safely (Karpenter, node repair)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.model.snapshot import Node
from core.model.state_node import StateNode


class RepairPolicy(msgspec.Struct, frozen=True):
    """A node condition that requires replacement once it has lasted for `patience`."""

    type: str
    status: str
    patience: timedelta


_HALF_AN_HOUR: Final = timedelta(minutes=30)

POLICIES: Final = (
    RepairPolicy("Ready", "False", _HALF_AN_HOUR),
    RepairPolicy("Ready", "Unknown", _HALF_AN_HOUR),
    RepairPolicy("AcceleratedHardwareReady", "False", timedelta(minutes=10)),
    RepairPolicy("StorageReady", "False", _HALF_AN_HOUR),
    RepairPolicy("NetworkingReady", "False", _HALF_AN_HOUR),
    RepairPolicy("KernelReady", "False", _HALF_AN_HOUR),
    RepairPolicy("ContainerRuntimeReady", "False", _HALF_AN_HOUR),
)
"""Karpenter's policies on AWS: the kubelet's own condition, and those of the EKS node monitoring agent."""

UNHEALTHY_AT_MOST_PERCENT: Final = 20
"""Share of a NodePool's nodes, rounded up. If more are unhealthy, the cause is not the nodes, and new ones would fail too."""


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

    def problem(self, node: Node | None) -> str:
        """Return why the node must be replaced now, empty if it need not be."""
        for policy, since in _matching(node) if node is not None else ():
            if self._now - since >= policy.patience:
                return f"its condition {policy.type} is {policy.status} since {since:%Y-%m-%dT%H:%M:%SZ}"
        return ""

    def due(self, states: Iterable[StateNode]) -> frozenset[str]:
        """Names of the claims whose nodes must be replaced now."""
        return frozenset(s.claim.name for s in states if s.claim is not None and self.problem(s.node))

    def is_widespread(self, pool: str) -> bool:
        """Whether too many nodes of the NodePool are unhealthy, for however short a time."""
        return pool in self._too_many


def has_unhealthy_node(nodes: Iterable[Node]) -> bool:
    """Whether any node has a condition that requires its replacement sooner or later."""
    return any(_matching(node) for node in nodes)


def _matching(node: Node) -> list[tuple[RepairPolicy, datetime]]:
    """Return the policies that a condition of the node matches, and since when, in the order of the policies."""
    conditions = {condition.type: condition for condition in node.conditions}
    return [
        (policy, found.changed_at)
        for policy in POLICIES
        if (found := conditions.get(policy.type)) is not None
        and found.status == policy.status
        and found.changed_at is not None
    ]
