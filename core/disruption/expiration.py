"""Nodes that must go at a time: expired claims and ending reservations.

Finds claims that have expired or expire soon. Nodes that were created together do not expire together.

See docs/engineering/handbook/expiry-and-repair.md.

No simulation checks that their pods find a place; the drain respects the pods' own rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import Catalogue, InstanceType
from core.model.plan import INITIALIZED, NodeClaim
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.pod_disruption_budgets import DisruptionBudgets
from core.pods import names_group
from core.reasons.code import Refusal
from core.reasons.nodes import PodNotToDisrupt, PodOfRunningGroup

SHARE: Final = 10
EARLY_AT_MOST: Final = timedelta(days=1)
"""The longest time by which a node expires early; 1/`SHARE` of its expireAfter is the other bound."""

SOON: Final = timedelta(hours=6)
"""How long before its expiry a node takes no more moved pods, which would soon move again: a target lasts at most this long.

For a short expireAfter, 1/`SHARE` of it counts instead; otherwise no node would ever take moved pods.

"""


WORKS_FOR: Final = timedelta(minutes=10)
"""How long a node works before it goes for its age, whatever its expireAfter says: its pods may take half of it to become
ready. With an expireAfter shorter than a replacement takes, nodes would be replaced without end, and none would work."""

TOO_SHORT: Final = (
    f"a node works for {WORKS_FOR // timedelta(minutes=1)} minutes at least, which count instead: "
    "nodes are replaced all the time"
)
"""What is said of a shorter expireAfter."""

STARTS_WITHIN: Final = timedelta(minutes=15)
"""After this time a node counts as one that works: an expireAfter from the sum of both on is never stretched."""


def expires_at(claim: NodeClaim) -> datetime | None:
    """Return when the claim expires, None if never."""
    if claim.expire_after is None or claim.created_at is None:
        return None
    at = claim.created_at + claim.expire_after - _early(claim, claim.expire_after)
    if claim.expire_after >= STARTS_WITHIN + WORKS_FOR:
        return at
    latest, initialized = claim.created_at + STARTS_WITHIN, claim.conditions.get(INITIALIZED)
    works_since = initialized.changed_at if initialized is not None and claim.is_true(INITIALIZED) else None
    return max(at, min(works_since or latest, latest) + WORKS_FOR)


def expires_soon(claim: NodeClaim, now: datetime) -> bool:
    """Whether the claim expires within the time for which a saving is counted, or has expired."""
    at = expires_at(claim)
    return at is not None and claim.expire_after is not None and at - now <= min(SOON, claim.expire_after // SHARE)


def expired(snapshot: Snapshot) -> tuple[str, ...]:
    """Return names of expired claims that are not leaving yet, oldest first, ties by name.

    The claim's own `expireAfter` counts, not the current one of its NodePool (Karpenter). A claim whose drain was cancelled
    is left alone for a while, except in NodePools whose expiry is forceful.
    """
    forceful = {pool.name for pool in snapshot.node_pools if pool.expires_forcefully}
    due = [
        (at, claim.name)
        for claim in snapshot.node_claims
        if (at := expires_at(claim)) is not None
        and claim.deleted_at is None
        and claim.name not in snapshot.marked_for_deletion
        and (claim.hold is None or claim.hold.until <= snapshot.now or claim.node_pool in forceful)
    ]
    return tuple(name for at, name in sorted(due) if at <= snapshot.now)


def _early(claim: NodeClaim, lasting: timedelta) -> timedelta:
    """Return how long before its expireAfter the claim expires: at most 1/`SHARE` of it or `EARLY_AT_MOST`, fixed per claim."""
    spread = min(lasting // SHARE, EARLY_AT_MOST)
    draw = int.from_bytes(blake2b((claim.uid or claim.name).encode(), digest_size=4).digest())
    return timedelta(microseconds=spread // timedelta(microseconds=1) * draw >> 32)


def objections(snapshot: Snapshot, claims: Collection[str], *, grace_ends_them: bool = True) -> dict[str, Refusal]:
    """Return claim → why a pod blocks its drain permanently; only for named claims with such a pod.

    With a terminationGracePeriod no pod can block the drain, if that may end it. Karpenter starts such a drain without one too,
    and leaves the node half empty and closed to pods.
    """
    budgets = DisruptionBudgets.of(snapshot)
    nodes = {
        c.node_name: c.name
        for c in snapshot.node_claims
        if c.name in claims and (c.termination_grace_period is None or not grace_ends_them)
    }
    pods: dict[str, list[Pod]] = {}
    for pod in sorted(snapshot.pods, key=lambda pod: pod.key):
        if pod.node_name in nodes:
            pods.setdefault(nodes[pod.node_name], []).append(pod)
    refusals: dict[str, Refusal] = {}
    together = kept_together(snapshot) if pods else {}
    for claim, present in pods.items():
        protected = next((pod for pod in present if pod.blocks_disruption(snapshot.now)), None)
        unevictable = next(filter(None, map(budgets.never_evicted, present)), None)
        why = PodNotToDisrupt(protected.key) if protected else unevictable
        member = next((pod for pod in present if pod.key in together), None)
        if why is None and member is not None:
            why = PodOfRunningGroup(member.key, together[member.key])
        if why is not None:
            refusals[claim] = why
    return refusals


def kept_together(snapshot: Snapshot) -> Mapping[str, str]:
    """Return key of a running member → its group, for groups that no member may leave while they run."""
    if not any(map(names_group, snapshot.pods)):
        return {}
    from core import gangs  # most clusters have none

    return {key: gang.name for key, gang in gangs.kept_together(snapshot).items()}


# Finds capacity reservations that end soon: no pod is moved there by choice, since it would move again at their end.


def ending_reservations(snapshot: Snapshot) -> frozenset[str]:
    """Return the ids of reservations that nodes leave, or pay for again, before a saving has lasted its time."""
    ends = (end for node_class in snapshot.node_classes for end in node_class.reservation_ends.items())
    return frozenset(identity for identity, leaves in ends if leaves - snapshot.now <= SOON)


class EndingReservations:
    """Some reservations that end soon, and the market with and without launches into them."""

    def __init__(self, snapshot: Snapshot, identities: frozenset[str]) -> None:
        self._ids = identities
        self._whole = snapshot.catalogue
        self._lasting = _without_launches(snapshot.catalogue, identities)

    @property
    def take_nodes(self) -> bool:
        """Whether any of them takes a new node, so that the two markets differ."""
        return self._lasting is not self._whole

    def avoided(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot without launches into them."""
        return msgspec.structs.replace(snapshot, catalogue=self._lasting) if self.take_nodes else snapshot

    def allowed(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with launches into them."""
        return msgspec.structs.replace(snapshot, catalogue=self._whole) if self.take_nodes else snapshot

    def nodes(self, states: Iterable[StateNode]) -> frozenset[str]:
        """Return the names of the nodes in them."""
        if not self._ids:
            return frozenset()
        return frozenset(state.name for state in states if state.labels.get(labels.RESERVATION_ID, "") in self._ids)


def _without_launches(catalogue: Catalogue, reservations: frozenset[str]) -> Catalogue:
    """Return the catalogue in which these reservations take no new node; the same one if they take none already."""
    every = (catalogue.default, *catalogue.by_node_class.values())
    if not any(_takes_nodes(instance_type, reservations) for types in every for instance_type in types if reservations):
        return catalogue
    by_class = {name: _closed(types, reservations) for name, types in catalogue.by_node_class.items()}
    return Catalogue(_closed(catalogue.default, reservations), by_class)


def _takes_nodes(instance_type: InstanceType, reservations: frozenset[str]) -> bool:
    return any(offering.available and offering.reservation_id in reservations for offering in instance_type.offerings)


def _closed(types: tuple[InstanceType, ...], reservations: frozenset[str]) -> tuple[InstanceType, ...]:
    return tuple(
        _type_closed(instance_type, reservations) if _takes_nodes(instance_type, reservations) else instance_type
        for instance_type in types
    )


def _type_closed(instance_type: InstanceType, reservations: frozenset[str]) -> InstanceType:
    offerings = tuple(
        msgspec.structs.replace(offering, available=False) if offering.reservation_id in reservations else offering
        for offering in instance_type.offerings
    )
    return msgspec.structs.replace(instance_type, offerings=offerings)
