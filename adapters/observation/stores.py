"""The stores that observations and controllers share, as one object."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final, Generic, TypeVar

import msgspec

from adapters.brakes import Brakes, Breakers
from adapters.ports import QuotaStore
from adapters.store import (
    Changes,
    ClaimStore,
    CommandStore,
    ForecastStore,
    LaunchDenials,
    MoveHistoryStore,
    Nominations,
    PodEnds,
    Targets,
    UnavailableOfferings,
    UnreadableRows,
)
from core import labels
from core.brakes import Action, EngagedBrakes
from core.disruption.budgets import remaining
from core.disruption.expiration import ending_reservations, expires_soon
from core.ledger.outcome import market_digests
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.catalogue import Catalogue
from core.model.plan import Condition, StoredTarget
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes

# Caches conclusions while the observed cluster stays the same. Planning costs seconds, observing milliseconds.


T = TypeVar("T")

_PARTS: Final = tuple(name for name in Snapshot.__struct_fields__ if name != "pods")
_SHARED_FIELDS: Final = ("spec", "labels", "owners")
"""Fields that the pods of a workload share."""

_OWN_FIELDS: Final = tuple(
    name for name in Pod.__struct_fields__ if name not in (*_SHARED_FIELDS, "unschedulable_since")
)
"""Fields of a single pod that affect decisions: no plan depends on how long a pod has waited."""

_encode: Final = msgspec.json.Encoder().encode
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def snapshot_digest(snapshot: Snapshot) -> str:
    """Return a digest of everything that decisions depend on except the passing of time.

    It includes the relevant effects of time: what caps allow after what they have spent, which conditions hold, which nodes are
    nominated, which pods are protected, what budgets allow, which nodes expire and which capacity reservations end soon.
    """
    claims = tuple(
        msgspec.structs.replace(
            claim,
            last_pod_event_at=None,
            conditions={name: Condition(condition.status) for name, condition in sorted(claim.conditions.items())},
        )
        for claim in snapshot.node_claims
    )
    still = msgspec.structs.replace(
        snapshot,
        catalogue=Catalogue(),
        now=_EPOCH,
        node_claims=claims,
        spending=(),
        nominated_until=dict.fromkeys(sorted(snapshot.nominated_until), _EPOCH),
    )
    protected = [pod.key for pod in snapshot.pods if pod.annotations and pod.blocks_disruption(snapshot.now)]
    protected += [node.name for node in snapshot.nodes if node.annotations and node.blocks_disruption(snapshot.now)]
    budgets = remaining(snapshot, state_nodes(snapshot))
    digest = blake2b(digest_size=16)
    expiring = [claim.name for claim in snapshot.node_claims if expires_soon(claim, snapshot.now)]
    for part in (
        *(getattr(still, name) for name in _PARTS),
        protected,
        expiring,
        sorted(ending_reservations(snapshot)),
        budgets,
        market_digests(snapshot.catalogue),
    ):
        _add(digest, part)
    _add_pods(digest, still.pods)
    return digest.hexdigest()


def _add(digest: blake2b, part: object) -> None:
    """Add a part of the snapshot; a long one object by object, since all of it at once is as large as the cluster."""
    if isinstance(part, tuple | list):
        digest.update(b"%d;" % len(part))
        for obj in part:
            digest.update(_encode(obj) + b"\n")
    else:
        digest.update(_encode(part) + b"\n")


def _add_pods(digest: blake2b, pods: Iterable[Pod]) -> None:
    """Add pods; parts that many of them share are encoded once."""
    shared: dict[int, bytes] = {}
    for pod in pods:
        field_values = [getattr(pod, name) for name in _OWN_FIELDS]
        digest.update(_encode(field_values))
        for common in (pod.spec, pod.labels, pod.owners):
            common_digest = shared.get(id(common))
            if common_digest is None:
                common_digest = shared[id(common)] = blake2b(_encode(common), digest_size=16).digest()
            digest.update(common_digest)


class PlanCache(Generic[T]):
    """The cached conclusion about the last snapshot, for at most `keeps`.

    It lives in one sandbox only: a new one plans again.
    """

    def __init__(self, keeps: timedelta) -> None:
        self._keeps = keeps
        self._kept: tuple[str, datetime, T] | None = None

    def recall(self, digest: str, now: datetime) -> T | None:
        """Return the conclusion, None if the snapshot differs or the conclusion is too old."""
        if self._kept is None or self._kept[0] != digest or now >= self._kept[1] + self._keeps:
            return None
        return self._kept[2]

    def keep(self, digest: str, now: datetime, conclusion: T) -> None:
        """Cache a conclusion."""
        self._kept = (digest, now, conclusion)


class OwnRows(msgspec.Struct, frozen=True):
    """Commands and claims that were read together."""

    commands: tuple[CommandRecord, ...]
    claims: tuple[ClaimRecord, ...]


class Stores(msgspec.Struct, frozen=True):
    """The inputs of decisions besides the cluster and the market: the stores of our table, and the brakes."""

    claims: ClaimStore
    commands: CommandStore
    unavailable: UnavailableOfferings
    denials: LaunchDenials
    nominations: Nominations
    changes: Changes
    pod_ends: PodEnds
    moves: MoveHistoryStore
    brakes: Brakes
    breakers: Breakers
    quotas: QuotaStore
    unreadable: UnreadableRows
    forecasts: ForecastStore

    def own_rows(self) -> OwnRows:
        """Read commands before claims: a claim that a finished command removed is gone from both.

        Commands whose rows cannot be read are left out: pods must get nodes all the same.
        """
        commands = self.commands.readable()
        return OwnRows(commands, self.claims.all())


def current_target(targets: Targets, snapshot: Snapshot, brakes: EngagedBrakes) -> StoredTarget | None:
    """Return the stored target without the nodes that a brake keeps; None if no run follows it. Raises PortError.

    `provision` plans pods last on the nodes that it drains (docs/engineering/handbook/planning.md).
    """
    from core.disruption.target.move_price import settings_digest  # functions that plan nothing need none

    if brakes.stopping(Action.DISRUPT) is not None:
        return None
    target = targets.read()
    if target is None or target.settings != settings_digest(snapshot):
        return None
    pool_of = {node.name: node.labels.get(labels.NODEPOOL, "") for node in snapshot.nodes}
    drains = [drain for drain in target.drains if brakes.stopping(Action.DISRUPT, pool_of.get(drain.node, "")) is None]
    return msgspec.structs.replace(target, drains=tuple(drains))
