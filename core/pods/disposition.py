"""Classifies a pod: the only place that decides which pods wait for a node and which move when their node goes.

Each predicate is Karpenter's of that name (`IsProvisionable`, `IsReschedulable`, `IsEvictable`, `IsWaitingEviction`).
"yes" and "no" in the table hold whatever else is true of the pod; an empty cell decides nothing.

| the pod                                             | pending | reschedulable | evictable | drainable |
| --------------------------------------------------- | ------- | ------------- | --------- | --------- |
| is bound to a node                                  | no      |               |           |           |
| is nominated for a node (preemption makes it room)  | no      |               |           |           |
| has scheduling gates                                | no      |               |           |           |
| is not marked unschedulable, in a live cluster      | no      |               |           |           |
| belongs to a DaemonSet                              | no      | no            |           |           |
| is the mirror of a static pod                       | no      | no            | no        | no        |
| has finished (Failed, Succeeded)                    | no      | no            | no        | no        |
| is being deleted                                    | no      | no            | no        |           |
| … by a StatefulSet, which waits for its end         | no      | yes           | no        |           |
| … and is past its end by more than `STUCK_AFTER`    | no      |               | no        | no        |
| tolerates the disrupted taint                       |         |               | no        | no        |
| has karpenter.sh/do-not-disrupt in force            |         |               | no        |           |

`scheduler_verdict` says which pods that the scheduler has not tried count as marked.
Karpenter counts a finished or deleted pod as pending while it is marked; no node is launched for one here.
`disruption_budgets` decides whether a PodDisruptionBudget lets an evictable pod go.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from core.model.pod import Pod
from core.model.values.taints import DISRUPTED

STUCK_AFTER: Final = timedelta(minutes=1)
"""How long after its grace period a pod no longer blocks its node (Karpenter)."""


def is_pending(pod: Pod, *, requires_mark: bool) -> bool:
    """Whether the pod waits for a node.

    Args:
        pod: The pod.
        requires_mark: Whether the scheduler must have marked it unschedulable first.
    """
    unbound = not pod.node_name and not pod.nominated_node_name and not pod.is_gated
    waits = unbound and pod.phase == "Pending" and not pod.is_terminating
    movable = waits and not (pod.owners and (pod.is_daemon or pod.is_static))
    return movable and (pod.is_marked_unschedulable or not requires_mark)


def is_reschedulable(pod: Pod) -> bool:
    """Whether the pod, or its successor, needs a new place when its node goes."""
    lives = pod.is_active or (pod.is_stateful and pod.is_terminating and not pod.is_terminal)
    return lives and not pod.is_daemon and not pod.is_static


def reschedulable(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return those of the pods that need a new place when their node goes."""
    return tuple(pod for pod in pods if is_reschedulable(pod))


def is_evictable(pod: Pod, now: datetime) -> bool:
    """Whether a drain evicts the pod through the eviction API; budgets are a separate question."""
    return pod.is_active and not pod.is_static and not _tolerates_drain(pod) and not pod.blocks_disruption(now)


def is_drainable(pod: Pod, now: datetime) -> bool:
    """Whether the pod must have left before its node goes."""
    if pod.is_terminal or pod.is_static or _tolerates_drain(pod):
        return False
    return pod.deleted_at is None or now < pod.deleted_at + STUCK_AFTER


def _tolerates_drain(pod: Pod) -> bool:
    return any(toleration.tolerates(DISRUPTED) for toleration in pod.spec.tolerations)
