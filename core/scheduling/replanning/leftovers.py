"""Leftovers: the pods for which a plan has no place; and whether another plan is preferable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from core.scheduling.greedy.solution import Solution
from core.scheduling.pods.pending_pods import is_virtual
from core.scheduling.pods.pod_group import PendingGroup

Leftovers = Counter[int]
"""Pod group → how many of its pods have no place."""


def leftovers_of(solution: Solution) -> Leftovers:
    """Return the pods without a place, except pods that no node could help and virtual pods."""
    left: Leftovers = Counter()
    for pending_group in solution.unplaced:
        if not pending_group.pod_group.reason and not is_virtual(pending_group.pods[0]):
            left[pending_group.pod_group.index] += pending_group.waiting
    return left


def is_fair(waiting: Mapping[int, PendingGroup], *, before: Leftovers, after: Leftovers) -> bool:
    """Whether only pods with rules along shared domains lose a place, and none loses it to pods of lower priority.

    Pods without such rules keep their places: otherwise small pods would permanently displace large ones at a limit.

    Args:
        waiting: Pod group → all of its pods that wait, in the order of the queue.
        before: The pods that one plan left.
        after: The pods that the other plan left.
    """
    gained: Counter[int] = Counter()
    for index in before | after:
        group, loses = waiting[index], after[index] > before[index]
        if loses and not any(step.keys for step in group.pod_group.steps):
            return False
        # Pods of a group get their places in order, so those that are left are its last ones. Their priorities may differ.
        fewer, more = sorted((before[index], after[index]))
        for pod in group.pods[len(group.pods) - more : len(group.pods) - fewer]:
            gained[pod.spec.priority] += -1 if loses else 1
    return next((gained[priority] > 0 for priority in sorted(gained, reverse=True) if gained[priority]), True)
