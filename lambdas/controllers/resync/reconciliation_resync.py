"""Decides when `reconcile` may skip pods, or the whole observation, because nothing that it could repair has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import Enum
from hashlib import blake2b
from typing import Final

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.observation.stores import OwnRows, Stores
from adapters.ports import Instance, JsonObject, PortError
from core import labels
from core.catalogue.reservations import selects_reservations
from core.disruption.conditions.expiration import expired
from core.lifecycle.launching.shared_launch import is_unnamed
from core.lifecycle.records import ClaimRecord

WITHOUT_PODS_EVERY: Final = timedelta(minutes=4)
"""Longest validity of an observation of nodes, NodePools and EC2NodeClasses."""

WHOLE_EVERY: Final = timedelta(hours=1)
"""Longest validity of a full observation: only pod events and unreadable objects need it, and other runs observe those."""

PUNCTUALITY: Final = timedelta(seconds=30)
"""Tolerance for rounds that come some seconds early or late."""


class ObservationScope(Enum):
    """How much of the cluster a round needs to observe."""

    NONE = "none"
    WITHOUT_PODS = "withoutPods"
    WHOLE = "whole"


class ReconciliationResync:
    """The resync period of one sandbox. A new sandbox has none, so it observes everything."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._observed_at: datetime | None = None
        self._whole_at: datetime | None = None
        self._recorded_at: datetime | None = None
        self._digest = self._brakes = b""
        self._follows_reservations = False

    def due(self, instances: Sequence[Instance], now: datetime) -> tuple[ObservationScope, OwnRows | None]:
        """Return what this round has to observe, according to the table, EC2 and the NodePools, and the rows that were read.

        Raises:
            PortError: If the table does not answer, or the API server.
        """
        observed_at, whole_at = self._observed_at, self._whole_at
        # Further inputs of the status: engaged brakes, results of launches and rollouts, and EC2's denials.
        stores = self._stores
        reported = (stores.brakes.engaged(), stores.breakers.breakers(), stores.moves.readable(now).rollouts)
        brakes = msgspec.json.encode((*reported, stores.denials.all()))
        is_brake_changed, self._brakes = brakes != self._brakes, brakes
        if observed_at is None or whole_at is None or is_brake_changed or now - whole_at >= WHOLE_EVERY:
            return ObservationScope.WHOLE, None
        rows = self._stores.own_rows()
        changed_at = self._stores.changes.last()
        has_changed = changed_at is not None and changed_at != self._recorded_at and changed_at >= observed_at
        if has_changed or rows.commands or not is_in_order(rows.claims, instances):
            return ObservationScope.WHOLE, rows
        # Without claims, `disrupt` does not query the API server, and the user of a first NodePool waits for its status.
        # Capacity reservations change and end without an event.
        if not rows.claims or self._follows_reservations or now - observed_at >= WITHOUT_PODS_EVERY - PUNCTUALITY:
            return ObservationScope.WITHOUT_PODS, rows
        return ObservationScope.NONE, rows

    def suffices(self, view: ClusterState) -> bool:
        """Whether an observation without pods is enough because nothing in it is new or due."""
        return _cluster_digest(view) == self._digest and not expired(view.snapshot)

    def seen(self, view: ClusterState, observed_at: datetime, now: datetime, *, is_whole: bool) -> None:
        """Begin a resync period after this observation, which began at `observed_at`.

        `disrupt` is notified of what is new, and observes at its next run.

        A notification may get lost: `disrupt` then observes some time later, so this round continues.
        """
        digest = _cluster_digest(view)
        if digest != self._digest:
            self.record_change(now)
        self._digest, self._observed_at = digest, observed_at
        self._follows_reservations = any(map(selects_reservations, view.node_classes.values()))
        if is_whole:
            self._whole_at = observed_at

    def record_change(self, now: datetime) -> None:
        """Record that the cluster has changed, and that this sandbox recorded it."""
        self._recorded_at = now
        with suppress(PortError):
            self._stores.changes.record(now)

    def end(self) -> None:
        """Observe everything in the next round: something failed, or could not be read."""
        self._observed_at = None


def is_in_order(claims: Collection[ClaimRecord], instances: Iterable[Instance]) -> bool:
    """Whether every claim has a running instance of its own, and every instance belongs to a claim."""
    if not all(claim.is_settled and claim.reserved and not claim.is_disrupting for claim in claims):
        return False
    ours = [found for found in instances if labels.CLAIM in found.tags]
    if any(is_unnamed(found.tags) for found in ours):
        return False
    running = sorted(found.instance_id for found in ours if found.is_alive)
    return len(running) == len(ours) and running == sorted(claim.instance_id for claim in claims)


def _cluster_digest(view: ClusterState) -> bytes:
    """Return a digest of the parts of an observation without pods that users or kubelets may change."""
    nodes = [
        (node.name, node.uid, node.provider_id, node.is_ready, node.deleted_at, node.labels, node.taints)
        for node in view.snapshot.nodes
    ]
    written = [versions(view.node_pools.values()), versions(view.node_classes.values())]
    return blake2b(msgspec.json.encode((nodes, written)), digest_size=16).digest()


def versions(manifests: Iterable[JsonObject]) -> tuple[tuple[str, ...], ...]:
    """Return name, UID and version of each of these objects, in order."""
    found = ((manifest.get("metadata") or {}) for manifest in manifests)
    return tuple(
        sorted(tuple(str(metadata.get(key, "")) for key in ("name", "uid", "resourceVersion")) for metadata in found)
    )
