"""Decides one turn of binding: which pods of which claims may be bound now, in an order that satisfies every pod's rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from core.lifecycle.binding.admission import objection, outranking
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
    """The result of a turn: bindings in order, and for each claim the rejected pods with their objections."""

    bindings: tuple[DecidedBinding, ...]
    left: Mapping[str, tuple[tuple[Pod, BindingReason], ...]]


def next_turn(
    claims: Sequence[tuple[ClaimRecord, Node]],
    waiting: Mapping[str, Pod],
    expected: Collection[str],
    placed: PlacedPods,
) -> BindingTurn:
    """Decide which pods to bind, in rounds over all claims: a pod may need pods of other claims to be bound first.

    Args:
        claims: Claims whose nodes accept bindings, with their nodes.
        waiting: Pods that have no node yet, by key.
        expected: Keys of the pods planned for any claim.
        placed: The pods that have a node; the bindings decided here are added.
    """
    left = {record.name: _candidates(record, node, waiting, expected, placed) for record, node in claims}
    found: list[DecidedBinding] = []
    has_progress = True
    while has_progress:  # terminates: each round but the last binds at least one pod
        before = len(found)
        for record, node in claims:
            left[record.name] = _enter(record, node, left[record.name], placed, found)
        has_progress = len(found) > before
    return BindingTurn(tuple(found), {name: tuple(pods) for name, pods in left.items()})


_Left = list[tuple[Pod, BindingReason]]


def _candidates(
    record: ClaimRecord, node: Node, waiting: Mapping[str, Pod], expected: Collection[str], placed: PlacedPods
) -> _Left:
    """Return the claim's waiting pods; a pod that another pod outranks has its objection already.

    The others get an objection when they are tried.
    """
    pods = [waiting[key] for key in record.plan.pods if key in waiting]
    if not pods:
        return []
    rank = outranking(waiting.values(), expected, node, placed)
    return [
        (pod, BindingReason.OUTRANKED if rank is not None and pod.spec.priority < rank else BindingReason.NO_ROOM)
        for pod in pods
    ]


def _enter(record: ClaimRecord, node: Node, pods: _Left, placed: PlacedPods, found: list[DecidedBinding]) -> _Left:
    """Place the pods that may be bound; return the others, each with its objection."""
    left: _Left = []
    for pod, before in pods:
        reason = before if before is BindingReason.OUTRANKED else objection(pod, node, placed)
        if reason is None:
            placed.place(pod, node.name)
            found.append(DecidedBinding(record.name, pod, node.name))
        else:
            left.append((pod, reason))
    return left
