"""Keeps bindings from the moments in which kube-scheduler places pods that a rule connects with theirs.

It places waiting pods as soon as a node opens, by what it sees then, and the turn decides by its own list: each binding keeps
every rule, and both together may break one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from core.lifecycle.binding.chains import unconnected
from core.lifecycle.binding.eligibility import SETTLES_WITHIN, is_held
from core.lifecycle.binding.node_fit import objection_of_node
from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.turn import DecidedBinding
from core.lifecycle.records import ClaimRecord
from core.model.node import Node
from core.model.pod import Pod


def just_opened(records: Iterable[ClaimRecord], placed: PlacedPods, now: datetime) -> list[Node]:
    """Return the nodes that were opened to kube-scheduler a moment ago, so that its bindings may not be in the turn's list."""
    opened = [
        record.node_name
        for record in records
        if record.moments.opened_at is not None and abs(now - record.moments.opened_at) < SETTLES_WITHIN
    ]
    found = [placed.nodes[name] for name in opened if name in placed.nodes]
    return [node for node in found if node.is_ready and not is_held(node)]


def apart_from_scheduler(
    bindings: Sequence[DecidedBinding], waiting: Iterable[Pod], opened: Sequence[Node], placed: PlacedPods
) -> tuple[DecidedBinding, ...]:
    """Return the bindings that no rule connects with a waiting pod for which one of the nodes just opened has room."""
    if not opened:
        return tuple(bindings)
    coming = [
        pod
        for pod in waiting
        if not pod.is_gated and any(objection_of_node(pod, node, placed) is None for node in opened)
    ]
    return unconnected(bindings, coming)
