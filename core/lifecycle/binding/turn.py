"""One turn of binding: which pods of which claims may be bound now, in an order in which each keeps its rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from core.lifecycle.binding.admission import obstacle, outranking
from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.records import ClaimRecord
from core.model.node import Node
from core.model.pod import Pod
from core.reasons.binding import BindingReason


class DecidedBinding(msgspec.Struct, frozen=True):
    """A pod to be bound to its claim's node."""

    claim: str
    pod: Pod
    node: str


class BindingTurn(msgspec.Struct, frozen=True):
    """What a turn comes to: bindings in order, and by claim the pods that are kept out with what keeps them."""

    bindings: tuple[DecidedBinding, ...]
    left: Mapping[str, tuple[tuple[Pod, BindingReason], ...]]


def next_turn(
    claims: Sequence[tuple[ClaimRecord, Node]],
    waiting: Mapping[str, Pod],
    expected: Collection[str],
    placed: PlacedPods,
) -> BindingTurn:
    """Decide who enters. All claims are gone through until nobody gets further: pods may wait for those of other claims.

    Args:
        claims: Claims whose nodes take bindings, with these nodes.
        waiting: Pods that no node has, by key.
        expected: Keys of the pods that any claim is for.
        placed: The pods that have a node; those that are decided are added.
    """
    left = {record.name: _candidates(record, node, waiting, expected, placed) for record, node in claims}
    found: list[DecidedBinding] = []
    has_progress = True
    while has_progress:  # each round but the last binds a pod
        before = len(found)
        for record, node in claims:
            left[record.name] = _enter(record, node, left[record.name], placed, found)
        has_progress = len(found) > before
    return BindingTurn(tuple(found), {name: tuple(pods) for name, pods in left.items()})


_Left = list[tuple[Pod, BindingReason]]


def _candidates(
    record: ClaimRecord, node: Node, waiting: Mapping[str, Pod], expected: Collection[str], placed: PlacedPods
) -> _Left:
    """The claim's pods that wait; those that somebody outranks are marked so. The others are tried first and judged then."""
    pods = [waiting[key] for key in record.plan.pods if key in waiting]
    if not pods:
        return []
    rank = outranking(waiting.values(), expected, node, placed)
    return [
        (pod, BindingReason.OUTRANKED if rank is not None and pod.spec.priority < rank else BindingReason.NO_ROOM)
        for pod in pods
    ]


def _enter(record: ClaimRecord, node: Node, pods: _Left, placed: PlacedPods, found: list[DecidedBinding]) -> _Left:
    """Place those that may enter; those that may not, with what keeps them out."""
    left: _Left = []
    for pod, before in pods:
        reason = before if before is BindingReason.OUTRANKED else obstacle(pod, node, placed)
        if reason is None:
            placed.place(pod, node.name)
            found.append(DecidedBinding(record.name, pod, node.name))
        else:
            left.append((pod, reason))
    return left
