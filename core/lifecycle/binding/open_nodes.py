"""Keeps bindings from the moments in which kube-scheduler places pods that a rule connects with theirs.

It places waiting pods as soon as a node opens, by what it sees then, and the turn decides by its own list: each binding keeps
every rule, and both together may break one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from core.lifecycle.binding.chains import unconnected
from core.lifecycle.binding.eligibility import SETTLES_WITHIN, is_held, lacking_resource
from core.lifecycle.binding.node_fit import objection_of_node
from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.turn import DecidedBinding
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.node import Node
from core.model.pod import Pod


def opening_nodes(records: Iterable[ClaimRecord], placed: PlacedPods, now: datetime) -> list[Node]:
    """Return the nodes on which kube-scheduler may bind pods that the turn's list lacks: those that open.

    Args:
        records: All claims, read after the nodes and pods: a row that says that a node is open is newer than a list that does
            not.
        placed: The nodes and pods of the turn.
        now: The time of the turn.
    """
    names = {node.provider_id: node.name for node in placed.nodes.values() if node.provider_id}
    found = []
    for record in records:
        node = placed.nodes.get(record.node_name or names.get(record.provider_id, ""))
        if node is not None and node.is_ready and _is_opening(record, node, now):
            found.append(node)
    return found


def _is_opening(record: ClaimRecord, node: Node, now: datetime) -> bool:
    """Whether the claim's node, which is ready, was just opened, is open though its row does not say so, or is due to open.

    A node is opened before its row is stored. One that is never held is open as soon as it is registered and ready.
    """
    if record.phase is ClaimPhase.INITIALIZED:
        return _is_recent(record.moments.opened_at, now)
    if is_held(node):
        bound_at = record.moments.bound_at
        return record.is_bound and (bound_at is None or now - bound_at >= SETTLES_WITHIN)
    # A node that waits for a device plugin is open for minutes: its row is stored at the next check only if it lacks nothing.
    return lacking_resource(record, node) is None or _is_recent(node.ready_changed_at, now)


def _is_recent(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and abs(now - moment) < SETTLES_WITHIN


def apart_from_scheduler(
    bindings: Sequence[DecidedBinding], waiting: Iterable[Pod], opening: Sequence[Node], placed: PlacedPods
) -> tuple[DecidedBinding, ...]:
    """Return the bindings that no rule connects with a waiting pod for which one of the opening nodes has room."""
    if not opening:
        return tuple(bindings)
    has_room: dict[int, bool] = {}  # by identity of the pod's spec, which equal pods share
    coming = []
    for pod in waiting:
        if id(pod.spec) not in has_room:
            has_room[id(pod.spec)] = any(objection_of_node(pod, node, placed) is None for node in opening)
        if has_room[id(pod.spec)] and not pod.is_gated:
            coming.append(pod)
    return unconnected(bindings, coming)
