"""Orders the pods for placement."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from core.model.pod import Pod
from core.scheduling.context import SchedulingContext
from core.scheduling.pods.pending_pods import is_virtual
from core.scheduling.pods.pod_group import PendingGroup
from core.scheduling.primitives.resource_vector import Vector

_NOT_CREATED: Final = datetime.max.replace(tzinfo=UTC)
"""Sort key of pods without a creation time: they come after all others of their size."""


def queue_of(
    context: SchedulingContext, pods: Iterable[tuple[Iterable[Pod], bool]], displaced: Collection[str] = ()
) -> list[PendingGroup]:
    """Return pods in the order of placement: most CPU first, then most memory, then the oldest; equal pods together.

    Virtual pods of capacity buffers come last: they must not use up limits that a waiting pod needs.

    Args:
        context: The snapshot.
        pods: Lists of pods, each with whether these must avoid recently changed nodes.
        displaced: Keys of the pods that a target moves.
    """
    grouped: dict[tuple[int, bool, bool, bool, bool], PendingGroup] = {}
    any_later = bool(context.node_index.drained_later)
    for some, avoids_recently_changed in pods:
        for pod in some:
            pod_group = context.pod_groups.of(pod)
            is_displaced = bool(displaced) and pod.key in displaced
            avoids_later = any_later and bool(pod.node_name) and not (avoids_recently_changed or is_displaced)
            is_spare = bool(pod.annotations) and is_virtual(pod)
            key = (pod_group.index, avoids_recently_changed, is_displaced, avoids_later, is_spare)
            pending_group = grouped.get(key)
            if pending_group is None:
                pending_group = grouped[key] = PendingGroup(
                    pod_group, [], avoids_recently_changed, is_displaced, avoids_later
                )
            pending_group.pods.append(pod)
    for pending_group in grouped.values():
        if context.released:
            pending_group.is_released = any(pod.key in context.released for pod in pending_group.pods)
        if len(pending_group.pods) > 1:
            pending_group.pods.sort(key=_age)
    return sorted(grouped.values(), key=_order)


def least_requests_from(queue: list[PendingGroup]) -> list[Vector]:
    """Return for each position in the queue the smallest request for each resource from there on."""
    found: list[Vector] = []
    for pending_group in reversed(queue):
        found.append(least_of(pending_group.pod_group.requests, found[-1] if found else None))
    return found[::-1]


def least_of(one: Vector, other: Vector | None) -> Vector:
    """Return the smaller amount of each resource; None means no bound."""
    return one if other is None else tuple(map(min, one, other))


def _order(pending_group: PendingGroup) -> tuple[object, ...]:
    first = pending_group.pods[0]
    requests = first.spec.requests
    return (is_virtual(first), -requests.get("cpu", 0), -requests.get("memory", 0), *_age(first))


def _age(pod: Pod) -> tuple[datetime, str, str]:
    return (pod.created_at or _NOT_CREATED, pod.uid, pod.key)
