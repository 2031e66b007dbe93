"""Builds claims for pods that a target put together on new nodes, if the pods still exist and the rules allow it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from core.model.pod import Pod
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.optimization.claims.claim_builder import ClaimBuilder
from core.scheduling.optimization.items.packing_item import HostnameRuleState, MovablePods

_Waiting = dict[str, deque[tuple[int, MovablePods]]]


def regrouped(
    builder: ClaimBuilder,
    nodes: Sequence[Sequence[MovablePods]],
    planned: Sequence[Mapping[str, int]],
    kind: Callable[[Pod], str],
) -> list[InFlightClaim]:
    """Return new claims; pods without an intended node stay with those of their present claim. None if a claim cannot be built.

    Args:
        builder: The builder of the claims' scope.
        nodes: The pods of each present claim.
        planned: For each new node, kind → number of pods.
        kind: Returns the kind of a pod.
    """
    waiting: _Waiting = {}
    rest: dict[int, list[MovablePods]] = {}
    for number, members in enumerate(nodes):
        for movable in members:
            if len(movable.pods) > 1 or movable.item.is_fixed:
                rest.setdefault(number, []).append(movable)
            else:
                waiting.setdefault(kind(movable.pods[0]), deque()).append((number, movable))
    claims: list[InFlightClaim] = []
    for of_node in planned:
        drawn = _drawn(waiting, of_node)
        claim = builder.claim([movable for _, movable in drawn]) if drawn else None
        if claim is not None:
            claims.append(claim)
            continue
        for number, movable in drawn:
            rest.setdefault(number, []).append(movable)
    for left in waiting.values():
        for number, movable in left:
            rest.setdefault(number, []).append(movable)
    built = [builder.claim(rest[number]) for number in sorted(rest)]
    others = [claim for claim in built if claim is not None]
    return [*claims, *others] if len(others) == len(built) else []


def _drawn(waiting: _Waiting, wanted: Mapping[str, int]) -> list[tuple[int, MovablePods]]:
    """Take pods of a new node's kinds, as many as exist and hostname rules admit together."""
    rules, found = HostnameRuleState(), list[tuple[int, MovablePods]]()
    for name, count in sorted(wanted.items()):
        left = waiting.get(name, deque())
        for _ in range(min(count, len(left))):
            if not rules.admits(left[0][1].item):
                break
            found.append(left.popleft())
            rules.add(found[-1][1].item)
    return found
