"""The eviction queue of one node: which pods are evicted now, which are deleted by force, and when the others are retried.

Each pod has its own entry, so a pod that cannot be evicted does not delay the others. No pod is deleted by force before an
eviction of it was tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.lifecycle.backoff import recheck_after
from core.lifecycle.records import Deletion, EvictionTry
from core.lifecycle.steps import Drain
from core.model.pod import Pod
from core.reasons.drain import EvictionReason

FIRST_WAIT: Final = timedelta(seconds=1)
LONGEST_WAIT: Final = timedelta(seconds=10)
"""The longest time between two attempts for one pod, up to which it doubles (Karpenter: from 100 ms to 10 s)."""

PATIENT_AFTER: Final = 30
PATIENT_WAIT: Final = timedelta(seconds=30)
"""After this many attempts, in about five minutes, a pod is tried less often."""

SOONEST: Final = timedelta(seconds=1)
"""Shortest time between two checks of a node."""

FORCED_ANYWAY_AFTER: Final = timedelta(minutes=1)
"""A round of evictions that is over this long after the deadline is the last that may leave a pod untried: the next one deletes
it by force. Earlier rounds do not count: an outage that outlasts the deadline leaves no pod untried."""

_CRITICAL: Final = ("system-cluster-critical", "system-node-critical")


class EvictionRefusal(msgspec.Struct, frozen=True):
    """The API server's refusal of an eviction or a forced deletion; `retry_after` is the delay that it requests."""

    reason: EvictionReason
    retry_after: timedelta = timedelta(0)
    is_forced: bool = False


def drain(deletion: Deletion, waiting: Sequence[Pod], now: datetime) -> Drain:
    """Choose the pods to remove now among those that block the drain.

    Overdue pods of every tier are evicted at once, and deleted by force if that fails. Of the others, only the first tier is
    evicted. Pods that keep failing do not crowd out the others: pods with the fewest attempts come first, and a pod whose
    forced deletion failed waits before the next attempt.
    """
    overdue = [pod for pod in waiting if is_overdue(pod, deletion, now)]
    late = {pod.key for pod in overdue}
    forcible = [pod for pod in overdue if _is_forced(pod, deletion)]
    forced = {pod.key for pod in forcible}
    force = [pod for pod in forcible if not _has_resisted(pod, deletion) or _next_at(pod, deletion, now) <= now]
    force.sort(key=lambda pod: (_has_resisted(pod, deletion), _attempts(pod, deletion), pod.key))
    asked = [pod for pod in overdue if pod.key not in forced]
    asked += [pod for pod in _first_tier([p for p in waiting if p.key not in late]) if not pod.blocks_disruption(now)]
    due = [pod for pod in asked if pod.is_active and _next_at(pod, deletion, now) <= now]
    return Drain(
        evict=tuple(sorted(due, key=lambda pod: (_attempts(pod, deletion), pod.key))),
        force=tuple((pod, _grace_left(deletion.deadline, now)) for pod in force),
    )


def next_check(deletion: Deletion, waiting: Iterable[Pod], now: datetime) -> timedelta:
    """Return when to check the node again: when the next pod may be evicted or forced off, at the latest after `recheck_after`.

    Time counts from the last pod that left, so a long drain whose pods leave one by one is checked as often as a new one.
    """
    since = max(moment for moment in (deletion.asked_at, deletion.tainted_at, deletion.evicted_at) if moment)
    delays = [recheck_after(since, now)]
    for pod in waiting:
        moments = [_next_at(pod, deletion, now)] if pod.is_active or _has_resisted(pod, deletion) else []
        if deletion.deadline is not None:
            moments.append(_due_at(pod, deletion))
        delays += [moment - now for moment in moments if moment > now]
    return max(SOONEST, min(delays))


def after_tries(
    deletion: Deletion,
    waiting: Iterable[Pod],
    refused: Mapping[str, EvictionRefusal],
    now: datetime,
    *,
    moved: bool,
    postponed: bool = False,
) -> Deletion:
    """Return the deletion with the results of a round of evictions; the same object if nothing changed.

    Args:
        deletion: The deletion before the round.
        waiting: The pods that still block the drain; entries of others are dropped, which bounds the record.
        refused: Key of a pod → the refusal of its eviction, or of its deletion by force.
        now: The moment of the round.
        moved: Whether any pod was evicted or forced off.
        postponed: Whether the round left pods to the next one; then it is none after which untried pods may be forced off.
    """
    present = {pod.key: identity(pod) for pod in waiting}
    tries = {uid: deletion.tries[uid] for uid in sorted(present.values()) if uid in deletion.tries}
    for key, refusal in sorted(refused.items()):
        if key in present:
            attempts = 1 + (tries[present[key]].attempts if present[key] in tries else 0)
            wait = max(back_off(attempts), refusal.retry_after)
            tries[present[key]] = EvictionTry(attempts, refusal.reason, now + wait, refusal.is_forced)
    tried_at = now if (moved or refused) and not postponed else deletion.tried_at
    if not moved and tries == deletion.tries and tried_at == deletion.tried_at:
        return deletion
    after = msgspec.structs.replace(deletion, tries=tries, tried_at=tried_at)
    if not moved:
        return after
    return msgspec.structs.replace(
        after, evicted_at=now, emptied_at=None, escalation_level=0, held_since_progress=timedelta(0)
    )


def back_off(attempts: int) -> timedelta:
    """Return how long to wait after this many failed tries."""
    if attempts > PATIENT_AFTER:
        return PATIENT_WAIT
    return min(LONGEST_WAIT, FIRST_WAIT * (1 << (attempts - 1)))


def needs_surge(tried: EvictionTry) -> bool:
    """Whether to restart the pod's Deployment, if its owner opted in: after two, four, eight … attempts.

    One failure may mean that another eviction has just used up the budget; two mean that the budget allows none. Later attempts
    repeat the restart in case a run crashed before it.
    """
    attempts = tried.attempts
    return tried.reason == EvictionReason.POD_DISRUPTION_BUDGET and attempts > 1 and not attempts & (attempts - 1)


def identity(pod: Pod) -> str:
    """Return the key of a pod's entry: its UID, so that a successor of the same name starts without one."""
    return pod.uid or pod.key


def is_overdue(pod: Pod, deletion: Deletion, now: datetime) -> bool:
    """Whether the pod would outlive terminationGracePeriod unless it is removed now, whatever protects it."""
    deadline = deletion.deadline
    if deadline is None:
        return False
    if pod.deleted_at is not None:
        return pod.deleted_at > max(deadline, now + SOONEST)
    return now > _due_at(pod, deletion)


def _due_at(pod: Pod, deletion: Deletion) -> datetime:
    """Return the time from which the pod is overdue: its own grace period before the deadline (Karpenter).

    A pod whose grace period is as long as terminationGracePeriod, or longer, cannot have all of it. Karpenter forces it off at
    once. Here PodDisruptionBudgets apply for the first half of the time; otherwise they would protect no pod on such a node.
    Time under a brake, by which the deadline was moved, is no part of it.
    """
    deadline = deletion.deadline
    assert deadline is not None  # noqa: S101 - callers have asked; tells the type checker
    begun = deletion.begun_at + deletion.held_for
    grace = timedelta(seconds=pod.spec.termination_grace_seconds)
    return deadline - grace if grace < deadline - begun else begun + (deadline - begun) / 2


def _is_forced(pod: Pod, deletion: Deletion) -> bool:
    """Whether eviction of an overdue pod has been tried before, or can no longer be tried."""
    if not pod.is_active or identity(pod) in deletion.tries:
        return True
    if deletion.deadline is None or deletion.tried_at is None:
        return False
    return deletion.tried_at > deletion.deadline + FORCED_ANYWAY_AFTER


def _has_resisted(pod: Pod, deletion: Deletion) -> bool:
    """Whether the last try was to delete the pod by force, and failed."""
    found = deletion.tries.get(identity(pod))
    return found is not None and found.is_forced


def _grace_left(deadline: datetime | None, now: datetime) -> int:
    return max(1, int((deadline - now).total_seconds())) if deadline else 1


def _attempts(pod: Pod, deletion: Deletion) -> int:
    found = deletion.tries.get(identity(pod))
    return found.attempts if found else 0


def _next_at(pod: Pod, deletion: Deletion, now: datetime) -> datetime:
    found = deletion.tries.get(identity(pod))
    return found.next_at if found else now


def _first_tier(pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that go first: ordinary before critical, and in each group DaemonSets' pods last (Karpenter)."""
    if not pods:
        return []
    first = min(_tier(pod) for pod in pods)
    return [pod for pod in pods if _tier(pod) == first]


def _tier(pod: Pod) -> tuple[bool, bool]:
    return pod.spec.priority_class in _CRITICAL, pod.is_daemon
