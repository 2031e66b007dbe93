"""Decides how long a pass that found nothing to do stays valid while no event reports a change: its resync period."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from core import labels
from core.disruption.move_history import next_relief
from core.model.plan import INITIALIZED, NodeClaim
from core.model.pod import MEMBERS_COME_WITHIN, Pod
from core.model.snapshot import Snapshot
from core.model.values.taints import protected_until

PERIOD_MIN: Final = timedelta(minutes=2)
PERIOD_GROWTH: Final = 3
PERIOD_MAX: Final = timedelta(minutes=12)
"""The longest time until a change without an event is noticed: a changed PodDisruptionBudget, or a pod that replaced another.

A pass makes eight requests; with one every twelve minutes, an idle cluster takes less than three requests a minute in all.
"""


def may_skip(snapshot: Snapshot) -> bool:
    """Whether observations may be skipped at all: no pod on a node ends by itself, as pods of Jobs do."""
    return not any(pod.is_active and pod.node_name and _ends_by_itself(pod) for pod in snapshot.pods)


def next_period(period: timedelta | None) -> timedelta:
    """Return the resync period after a pass with the result of the one before, whose period is given (None: it had none)."""
    return PERIOD_MIN if period is None else min(period * PERIOD_GROWTH, PERIOD_MAX)


def next_known_moment(snapshot: Snapshot) -> datetime | None:
    """Return the next moment at which time alone may release a node that is kept now; None if there is none.

    Budget windows are not included: a schedule starts a pass when they open. Neither is expiry: disruption does not decide it.
    """
    return min((moment for moment in _moments(snapshot) if moment > snapshot.now), default=None)


def next_run_at(snapshot: Snapshot, gathered: timedelta) -> datetime | None:
    """Return the next known moment; if others follow within `gathered`, the last of them."""
    first = next_known_moment(snapshot)
    if first is None:
        return None
    return max(moment for moment in _moments(snapshot) if first <= moment <= first + gathered)


def _moments(snapshot: Snapshot) -> Iterator[datetime]:
    yield from next_relief(snapshot)
    yield from snapshot.nominated_until.values()
    yield from (
        p.hours.changes_at for p in snapshot.node_pools if p.hours is not None and p.hours.changes_at is not None
    )
    yield from (gate.until for gate in snapshot.rollouts.values() if gate.until is not None)
    for moved in snapshot.moved_workloads.values():
        yield moved.settles_at
        if moved.held_until is not None:
            yield moved.held_until
    consolidate_after = {pool.name: pool.disruption.consolidate_after for pool in snapshot.node_pools}
    for claim in snapshot.node_claims:
        if claim.hold is not None:
            yield claim.hold.until
        after = consolidate_after.get(claim.node_pool)
        if after is not None:
            yield from (since + after for since in _idle_since(claim))
        if labels.GROUP_OF_CLAIM in claim.annotations:
            yield from (since + MEMBERS_COME_WITHIN for since in (*_idle_since(claim), claim.unneeded_at) if since)
    marked = [(node.annotations.get(labels.DO_NOT_DISRUPT), node.created_at) for node in snapshot.nodes]
    marked += [(pod.annotations.get(labels.DO_NOT_DISRUPT), pod.started_at) for pod in snapshot.pods if pod.annotations]
    ends = (protected_until(text, since) for text, since in marked if text is not None)
    yield from (end for end in ends if end is not None)


def _idle_since(claim: NodeClaim) -> Iterator[datetime]:
    """Yield all moments from which consolidateAfter may count; a superfluous one costs a pass, a missing one delays savings."""
    initialized = claim.conditions.get(INITIALIZED)
    for since in (claim.last_pod_event_at, initialized.changed_at if initialized else None, claim.created_at):
        if since is not None:
            yield since


def _ends_by_itself(pod: Pod) -> bool:
    return not pod.owners or any(owner.kind == "Job" for owner in pod.owners)
