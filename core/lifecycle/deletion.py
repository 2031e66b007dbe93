"""A claim on its way out: what it still holds, whether it may be given back, and what is stored at each step.

Tracks which part of its NodePool's limits and budgets a leaving claim still holds.

The disrupted taint frees the claim's share of the limits and starts terminationGracePeriod. The request to terminate the
instance frees its share of a limit in dollars and its place in the budgets (docs/engineering/handbook/draining.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Machine, PriceChange
from core.lifecycle.steps import SHORTEST, CancelDrain, ClaimFacts, Wait, recheck_after
from core.model.node_pool import PER_MILLE
from core.model.plan import Binding, Hold
from core.model.pod import Pod
from core.model.snapshot import Node
from core.model.values import quantity
from core.model.values.taints import DISRUPTED
from core.pod_disruption_budgets import DisruptionBudgets
from core.pods import is_reschedulable
from core.reasons.code import GROUPS_END_FIRST, RECLAIMED, TerminationReason
from core.reasons.nodes import NodeReason, PodNotToDisrupt

# Decides whether to cancel a voluntary removal: before the first eviction, and if the node has lost its taint.
#
# Since the decision, a pod that must not be disrupted may have arrived, or a PodDisruptionBudget that never allows an eviction.
# The drain would stop half-way and leave a node that accepts no pods.


CONSOLIDATION: Final = (TerminationReason.UNDERUTILIZED, TerminationReason.EMPTY)
LASTING: Final = (
    TerminationReason.DRIFTED,
    TerminationReason.EXPIRED,
    TerminationReason.UNHEALTHY,
    TerminationReason.SCHEDULED_CHANGE,
    TerminationReason.OUTSIDE_HOURS,
)
VOLUNTARY: Final = (*CONSOLIDATION, *LASTING)
"""Termination reasons for which a node is removed although it could stay.

For those in `LASTING`, a pod blocks the drain only without a terminationGracePeriod (Karpenter).
"""

FIRST_HOLD: Final = timedelta(minutes=15)
TAINT_SEEN_WITHIN: Final = timedelta(minutes=1)
"""After this time, a list of nodes is recent enough to have the taint; a node that has none has lost it."""

LONGEST_HOLD: Final = timedelta(hours=24)
"""The longest time without voluntary disruption of a node after its drain was cancelled; it doubles each time."""


def may_be_cancelled(record: ClaimRecord) -> bool:
    """Whether the claim's removal is voluntary, its node is tainted, and the removal can still be cancelled."""
    deletion = record.deletion
    if deletion is None or deletion.tainted_at is None or deletion.terminated_at is not None or deletion.is_final:
        return False
    return deletion.reason in CONSOLIDATION or (deletion.reason in LASTING and deletion.deadline is None)


def is_last_check_due(record: ClaimRecord) -> bool:
    """Whether the last check, which reads PodDisruptionBudgets, is due: no pod has left the node yet."""
    return may_be_cancelled(record) and record.deletion is not None and record.deletion.evicted_at is None


def last_check(record: ClaimRecord, facts: ClaimFacts, waiting: Sequence[Pod], now: datetime) -> CancelDrain | None:
    """Return the cancellation if a pod that must leave first can never be evicted, else None."""
    node = facts.node
    if not is_last_check_due(record) or node is None or node.deleted_at is not None:
        return None
    budgets = DisruptionBudgets(facts.budgets, now)
    for pod in waiting:
        if pod.blocks_disruption(now):
            return CancelDrain(node.name, NodeReason.DO_NOT_DISRUPT, PodNotToDisrupt(pod.key).message)
        guarded = budgets.never_evicted(pod)
        if guarded is not None:
            return CancelDrain(node.name, NodeReason.POD_DISRUPTION_BUDGET, guarded.message)
    return None


def open_again(record: ClaimRecord, node: Node, now: datetime) -> CancelDrain | None:
    """Return the cancellation if the node has lost its taint during a drain with a deadline, None if it gets the taint again.

    The table may have been restored to a time before an earlier cancellation: that deadline has passed or soon will, and pods
    would be forced off a working node. Without a deadline, no pod is forced, and the taint is restored as Karpenter does.
    """
    deletion = record.deletion
    if deletion is None or deletion.deadline is None or not may_be_cancelled(record) or node.deleted_at is not None:
        return None
    if deletion.tainted_at is None or DISRUPTED in node.taints or now - deletion.begun_at < TAINT_SEEN_WITHIN:
        return None
    since = f"{deletion.tainted_at:%Y-%m-%dT%H:%M:%SZ}"
    return CancelDrain(
        node.name, NodeReason.TAINT_REMOVED, f"the node has no {DISRUPTED.key} taint though it was tainted at {since}"
    )


def hold_for(cancelled_drains: int) -> timedelta:
    """Return how long a node is exempt from voluntary disruption whose drain was cancelled `cancelled_drains` times before."""
    return min(LONGEST_HOLD, FIRST_HOLD * (1 << min(cancelled_drains, 10)))


def is_voluntary(deletion: Deletion) -> bool:
    """Whether the claim's removal is voluntary."""
    return deletion.reason in VOLUNTARY


def lets_groups_end(deletion: Deletion) -> bool:
    """Whether members of groups that start together are left alone until the deadline."""
    return deletion.reason in GROUPS_END_FIRST and deletion.deadline is not None


def leaving(
    record: ClaimRecord,
    reason: TerminationReason,
    message: str,
    now: datetime,
    ends_at: datetime | None = None,
    drain_within: timedelta | None = None,
    command: str = "",
) -> ClaimRecord:
    """Return the claim, marked for termination. Its node counts in the budgets if it was ever initialized (Karpenter).

    With `drain_within`, pods are forced off after that time, or after a shorter terminationGracePeriod. `command` is the id of
    the command that removes it.
    """
    bounds = [bound for bound in (drain_within, record.plan.termination_grace_period) if bound is not None]
    return msgspec.structs.replace(
        record,
        deletion=Deletion(
            reason=reason,
            message=message,
            asked_at=now,
            deadline=now + min(bounds) if drain_within is not None else None,
            ends_at=ends_at,
            reclaimed_at=ends_at if reason in RECLAIMED else None,
            command=command,
        ),
        is_disrupting=record.is_disrupting or record.phase is ClaimPhase.INITIALIZED,
    )


def expedited(
    record: ClaimRecord,
    reason: TerminationReason,
    message: str,
    ends_at: datetime | None,
    deadline: datetime | None = None,
) -> ClaimRecord:
    """Return a leaving claim with a mandatory or more urgent reason; the same object if nothing changes.

    A mandatory reason may have a deadline, after which pods are forced off; an earlier one stays.

    If its drain may have begun, it does not wait for replacements, even if the instance's end becomes known now. That EC2 takes
    the instance, and when, is kept in any case: its pods that may not be evicted need a node until then
    (docs/engineering/handbook/draining.md).
    """
    deletion = record.deletion
    if deletion is None or deletion.terminated_at is not None:
        return record
    must = is_voluntary(deletion) and reason not in VOLUNTARY
    sooner = ends_at is not None and deletion.ends_at is not None and ends_at < deletion.ends_at
    announced = [end for end in (reclaimed_at(record), ends_at if reason in RECLAIMED else None) if end is not None]
    reclaimed = min(announced, default=None)
    if must or sooner:
        waits = deletion.tainted_at is None or sooner
        deadlines = [end for end in (deletion.deadline, deadline if must else None) if end is not None]
        deletion = msgspec.structs.replace(
            deletion,
            reason=reason,
            message=message,
            command="",
            ends_at=ends_at if waits else deletion.ends_at,
            deadline=min(deadlines, default=None),
        )
    elif reclaimed == reclaimed_at(record):
        return record
    return msgspec.structs.replace(record, deletion=msgspec.structs.replace(deletion, reclaimed_at=reclaimed))


def reclaimed_at(record: ClaimRecord) -> datetime | None:
    """Return when EC2 takes the claim's instance, whatever protects its pods; None if that is not announced."""
    deletion = record.deletion
    if deletion is None:
        return None
    return deletion.reclaimed_at or (deletion.ends_at if deletion.reason in RECLAIMED else None)


def held_by(record: ClaimRecord, machine: Machine) -> dict[str, int]:
    """Return what a launched claim holds of its NodePool's limits: its machine and, if these count dollars, its price."""
    price = {quantity.HOURLY: record.hourly} if quantity.HOURLY in record.reserved else {}
    return {**quantity.add(machine.capacity, {quantity.NODES: 1}), **price}


def price_at_launch(record: ClaimRecord, machine: Machine) -> tuple[PriceChange, ...]:
    """Return what limits in dollars count of a machine from its launch on, if that is more than its price in the market.

    It is more with dedicated hardware, a NodeOverlay, or a spot price that has fallen since the plan. `reconcile` counts later
    prices (`core.lifecycle.metering`). A machine of unknown price, or of no planned offering, counts at its worst until then.
    """
    price, worst = machine.offering.price, record.reserved.get(quantity.HOURLY)
    if worst is None:
        return ()
    factor = record.price_factors.get(machine.offering.instance_type.partition(".")[0], PER_MILLE)
    planned = [o.price * PER_MILLE // max(1, factor) for o in record.offerings if o.key == machine.offering.key]
    counted = max(price, *planned) if price and planned else max(price, worst)
    return () if counted == price else (PriceChange(record.requested_at, counted),)


def tainted(record: ClaimRecord, now: datetime) -> ClaimRecord:
    """Return the claim after its node got the disrupted taint; the time of the first call counts."""
    deletion, grace = record.deletion, record.plan.termination_grace_period
    if deletion is not None and deletion.tainted_at is None:
        deletion = msgspec.structs.replace(deletion, tainted_at=now)
        deadline = deletion.deadline or (deletion.begun_at + grace if grace is not None else None)
        deletion = msgspec.structs.replace(deletion, deadline=deadline)
    still_paid = {name: amount for name, amount in record.reserved.items() if name == quantity.HOURLY}
    return msgspec.structs.replace(record, deletion=deletion, reserved=still_paid)


def emptied(record: ClaimRecord, now: datetime) -> ClaimRecord:
    """Return the claim after its pods have left and only volumes keep its node: a drain with progress is not escalated."""
    deletion = record.deletion and msgspec.structs.replace(
        record.deletion, emptied_at=now, escalation_level=0, held_since_progress=timedelta(0)
    )
    return msgspec.structs.replace(record, deletion=deletion)


def is_draining(record: ClaimRecord) -> bool:
    """Whether the drain of the claim's node has begun and is not over."""
    deletion = record.deletion
    return deletion is not None and deletion.tainted_at is not None and deletion.terminated_at is None


def is_stopped(record: ClaimRecord) -> bool:
    """Whether a brake stopped the drain when the claim was last checked; its time under the brake does not count yet."""
    return is_draining(record) and record.deletion is not None and record.deletion.held_at is not None


def with_clock(record: ClaimRecord, now: datetime, *, is_held: bool) -> ClaimRecord:
    """Return the claim with the clock of its drain stopped while a brake holds the drain.

    The deadline moves by the time under the brake. Otherwise, all pods would be forced off all such nodes when a brake is
    released after the deadline. The time counts for no pod's share of terminationGracePeriod, no drain is escalated for it, and
    an expired node waits longer for replacements, which a brake may keep from being launched.
    """
    deletion = record.deletion
    if deletion is None or is_held == (deletion.held_at is not None):
        return record
    if deletion.held_at is None:
        return msgspec.structs.replace(record, deletion=msgspec.structs.replace(deletion, held_at=now))
    held = max(timedelta(0), now - deletion.held_at)
    idle = max(timedelta(0), now - max(deletion.held_at, progress_at(deletion)))
    is_expired = deletion.reason == TerminationReason.EXPIRED  # AWS sets the end of the others
    deletion = msgspec.structs.replace(
        deletion,
        deadline=None if deletion.deadline is None else deletion.deadline + held,
        ends_at=deletion.ends_at + held if deletion.ends_at and is_expired else deletion.ends_at,
        held_at=None,
        held_for=deletion.held_for + held,
        held_since_progress=deletion.held_since_progress + idle,
    )
    return msgspec.structs.replace(record, deletion=deletion)


def progress_at(deletion: Deletion) -> datetime:
    """Return when the drain last made progress: when a pod left, or when only volumes were first seen to keep the node."""
    moments = (deletion.tainted_at, deletion.evicted_at, deletion.emptied_at)
    return max((moment for moment in moments if moment is not None), default=deletion.asked_at)


def terminated(record: ClaimRecord, now: datetime) -> ClaimRecord:
    """Return the claim after EC2 was asked to terminate its instance; the time of the last call counts."""
    deletion = record.deletion and msgspec.structs.replace(record.deletion, terminated_at=now)
    return msgspec.structs.replace(record, deletion=deletion, reserved={}, is_disrupting=False)


def untainted(record: ClaimRecord) -> ClaimRecord:
    """Return the claim of a node that stays and is about to lose its taint: it holds its share of the limits again."""
    if record.machine is None or any(name != quantity.HOURLY for name in record.reserved):
        return record
    return msgspec.structs.replace(record, reserved=held_by(record, record.machine))


def drain_cancelled(record: ClaimRecord, hold: Hold) -> ClaimRecord:
    """Return the claim with its drain cancelled: it holds its share of the limits again and has a `hold`."""
    stays = msgspec.structs.replace(
        record, deletion=None, is_disrupting=False, hold=hold, cancelled_drains=record.cancelled_drains + 1
    )
    return untainted(stays)


def staying(record: ClaimRecord) -> ClaimRecord:
    """Return the claim after its node lost its taint: it no longer counts against the budgets."""
    return msgspec.structs.replace(untainted(record), is_disrupting=False)


# Decides when to drain a node whose end is known in advance: its replacements come first
# (docs/engineering/handbook/draining.md).
#
# Its pods keep running until their replacements are ready, or until the remaining time is just enough to drain.


SPOT_NOTICE: Final = timedelta(minutes=2)
"""Time from EC2's warning to the end of a spot instance."""

REPLACED_WITHIN: Final = timedelta(minutes=5)
"""How long to wait for replacements if the end of the instance is not announced: several times a node's boot time."""

EXPIRED_WAITS: Final = timedelta(minutes=20)
"""How long an expired node waits for its pods' replacements: the time an instance may take to join, plus a margin."""

MARGIN: Final = timedelta(seconds=15)
"""Added to the longest grace period of its pods: time for the evictions themselves, and for a run that starts late."""

SHORTEST_DRAIN: Final = timedelta(seconds=45)
"""Shortest time kept for the drain: PodDisruptionBudgets let pods go one after the other."""


LOST_FOR: Final = timedelta(minutes=3)
"""How long after the end of the instance a claim stands for pods that still exist: Kubernetes deletes them after 90 s."""


CLOSED_WITHIN: Final = timedelta(seconds=10)
"""By when a message has closed the node of a claim that is to go. Where none has, the queue is late or dead."""


def is_overlooked(record: ClaimRecord, now: datetime) -> bool:
    """Whether no message closed the claim's node in time, so that its next looks come from the table."""
    deletion = record.deletion
    return deletion is not None and (deletion.tainted_at or now) - deletion.asked_at >= CLOSED_WITHIN


def wait_for_successors(record: ClaimRecord, facts: ClaimFacts, now: datetime) -> Wait | None:
    """Return a wait while pods of an instance that EC2 took are not deleted; None otherwise.

    Until their successors are created, nothing but the claim says what the nodes are for that were launched for them.
    """
    ended_at = reclaimed_at(record)
    if ended_at is None or now >= ended_at + LOST_FOR or not any(is_reschedulable(pod) for pod in facts.pods):
        return None
    return Wait(recheck_after(ended_at, now), "Kubernetes has not deleted the pods of its node yet")


def awaits_replacements(record: ClaimRecord) -> bool:
    """Whether the drain may still wait: an end is known, and no pod has left the node yet."""
    deletion = record.deletion
    return (
        deletion is not None and deletion.ends_at is not None and not deletion.evicted_at and not deletion.terminated_at
    )


def wait_for_replacements(
    record: ClaimRecord, facts: ClaimFacts, waiting: Sequence[Pod], now: datetime
) -> Wait | CancelDrain | None:
    """Return a wait while replacements are not ready and there is time to drain later; None to drain now.

    An expired node whose pods find no other place in time stays for now, unless a terminationGracePeriod ends sooner. A node in
    a capacity reservation is drained at once: its place may be the only one for its replacement. So is one that EC2 takes back
    before the next look, if the queue brings none.
    """
    deletion, node = record.deletion, facts.node
    if deletion is None or not awaits_replacements(record) or facts.has_replacements:
        return None
    if node is None or not node.is_ready or not any(is_reschedulable(pod) for pod in waiting):
        return None
    time_left = drain_by(deletion, waiting) - now
    if reclaimed_at(record) is not None and is_overlooked(record, now):
        time_left -= facts.next_check_within
    if time_left <= timedelta(0):
        return _unreplaced(record, deletion, node.name)
    return Wait(
        max(SHORTEST, min(time_left, recheck_after(deletion.asked_at, now))),
        "the replacements for its pods are not ready",
    )


def _unreplaced(record: ClaimRecord, deletion: Deletion, node: str) -> CancelDrain | None:
    """Return the step for a node whose replacements did not become ready in time; None to drain it, or under a brake."""
    if deletion.held_at is not None:
        return None
    is_forced = deletion.deadline is not None and deletion.ends_at is not None and deletion.deadline < deletion.ends_at
    is_reserved = record.machine is not None and record.machine.offering.capacity_type == labels.RESERVED
    if deletion.reason != TerminationReason.EXPIRED or deletion.is_final or is_forced or is_reserved:
        return None
    return CancelDrain(node, NodeReason.NO_REPLACEMENT, "the replacements for its pods were not ready in time")


def drain_by(deletion: Deletion, waiting: Iterable[Pod]) -> datetime:
    """Return when the drain must begin so that every pod has its grace period before the node ends or pods are forced off."""
    graces = [timedelta(seconds=pod.spec.termination_grace_seconds) for pod in waiting if pod.is_active]
    ends = min(moment for moment in (deletion.ends_at, deletion.deadline) if moment is not None)
    return ends - max(SHORTEST_DRAIN, max(graces, default=timedelta(0)) + MARGIN)


def replacements(
    pods: Iterable[str], records: Iterable[ClaimRecord], bindings: Iterable[Binding], unplaced: Collection[str]
) -> tuple[str, ...] | None:
    """Return the claims that a node's pods wait for: empty if all fit on working nodes, None if a pod has no place.

    Args:
        pods: Pods that must move; pods that can never be evicted are in no plan and do not count.
        records: The claims, those of the new plan included.
        bindings: Where the plan expects pods on existing or launching nodes.
        unplaced: Pods for which the plan has no place, or whose new claim was refused.
    """
    wanted = set(pods)
    if not wanted.isdisjoint(unplaced):
        return None
    starting = [r for r in records if r.phase is not ClaimPhase.INITIALIZED and r.deletion is None]
    names: Mapping[str, str] = {key: r.name for r in starting for key in (r.name, r.node_name) if key}
    launching = {r.name for r in starting if not wanted.isdisjoint(r.plan.pods)}
    launching |= {names[binding.node] for binding in bindings if binding.pod in wanted and binding.node in names}
    return tuple(sorted(launching))
