"""Divides a node by requests: one share per namespace, and one for what no pod requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.model.pod import Pod
from core.model.state_node import StateNode

IDLE: Final = "(idle)"
"""The share that no pod requested."""

_COUNTED: Final = ("cpu", "memory")


def node_shares(state: StateNode) -> dict[str, float]:
    """Return namespace → its share of the node; all shares, with `IDLE`, sum to one.

    A pod's share is the larger of its shares of processor and memory. If pods together request more than the node has,
    their shares are scaled down.
    """
    shares: dict[str, float] = {}
    for pod in state.pods:
        shares[pod.namespace] = shares.get(pod.namespace, 0.0) + _share(pod, state)
    total = sum(shares.values())
    if total > 1:
        return {namespace: share / total for namespace, share in sorted(shares.items())}
    return {**dict(sorted(shares.items())), IDLE: 1 - total}


def _share(pod: Pod, state: StateNode) -> float:
    room = state.allocatable
    parts: Sequence[float] = [pod.spec.requests.get(name, 0) / room[name] for name in _COUNTED if room.get(name)]
    return max(parts, default=0.0)
