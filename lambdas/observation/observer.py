"""Observes Kubernetes, the table and the catalogue, and joins them into one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.api.drift_hash import HASH_VERSION
from core.launch.denials.denial import LaunchDenial, revision_of
from core.launch.denials.subnets import subnets_of
from core.lifecycle.draining.replacing import awaits_replacements
from core.lifecycle.pod_events import with_pod_events
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandRecord
from core.lifecycle.view import node_claim, requested_claim
from core.manifests.assemble import ObjectProblem, assemble
from core.manifests.buffers import needed_kinds
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from core.manifests.zone_ids import zones_by_id
from core.model.catalogue import Catalogue
from core.model.node_pool import NodeClass, NodePool
from core.model.overlay import CapacityBuffer
from core.model.pod import Pod
from core.model.snapshot import Options, Snapshot
from core.pods.disposition import is_reschedulable
from lambdas.brakes.ports import Brakes, Breakers
from lambdas.observation.cluster_state import ClusterState
from lambdas.observation.current_node_classes import CURRENT_ONLY, CurrentNodeClasses, Resolve
from lambdas.observation.expected_pods import is_requested, with_expected_pods
from lambdas.observation.unavailable_offerings import (
    without_denied,
    without_full_subnets,
    without_unavailable,
    without_zones,
)
from lambdas.ports import CatalogueStore, Clock, JsonObject, Kubernetes
from lambdas.settings import Settings
from lambdas.store import (
    Changes,
    ClaimStore,
    CommandStore,
    LaunchDenials,
    MoveHistoryStore,
    Nominations,
    UnavailableOfferings,
)

UNBOUND: Final = "spec.nodeName=,status.phase=Pending"
"""Field selector: pods without a node."""

_ALWAYS: Final = (
    kinds.NODES,
    kinds.NODE_POOLS,
    kinds.EC2_NODE_CLASSES,
    kinds.DAEMON_SETS,
    kinds.POD_DISRUPTION_BUDGETS,
    kinds.NAMESPACES,
    kinds.PRIORITY_CLASSES,
)
_MARKET: Final = (kinds.NODE_POOLS, kinds.EC2_NODE_CLASSES)
_FOR_VOLUMES: Final = (
    kinds.PERSISTENT_VOLUMES,
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.STORAGE_CLASSES,
    kinds.CSI_NODES,
    kinds.VOLUME_ATTACHMENTS,
)
_FOR_DEFAULT_SPREADS: Final = (
    kinds.SERVICES,
    kinds.REPLICA_SETS,
    kinds.STATEFUL_SETS,
    kinds.REPLICATION_CONTROLLERS,
)
"""The kinds that tell which pods a default constraint selects."""


class Stores(msgspec.Struct, frozen=True):
    """Inputs besides the cluster and the market: our own table, as far as decisions read it, and the brakes."""

    claims: ClaimStore
    commands: CommandStore
    unavailable: UnavailableOfferings
    denials: LaunchDenials
    nominations: Nominations
    changes: Changes
    moves: MoveHistoryStore
    brakes: Brakes
    breakers: Breakers


class Observer:
    """Observes, and decides nothing."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        catalogues: CatalogueStore,
        stores: Stores,
        settings: Settings,
        clock: Clock,
        current: CurrentNodeClasses = CURRENT_ONLY,
    ) -> None:
        self._current = current
        self._kubernetes = kubernetes
        self._catalogues = catalogues
        self._stores = stores
        self._settings = settings
        self._clock = clock

    def resolving(self, resolve: Resolve) -> Observer:
        """Return an observer that may resolve edited EC2NodeClasses, so that pods need not wait for `reconcile`."""
        current = CurrentNodeClasses(resolve)
        return Observer(self._kubernetes, self._catalogues, self._stores, self._settings, self._clock, current)

    def unbound_pods(self) -> tuple[Pod, ...]:
        """Return the pods that have no node."""
        return self._pods(UNBOUND)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods of one node."""
        return self._pods(f"spec.nodeName={node}")

    def keeps_room(self) -> bool:
        """Whether any capacity buffer asks for room, so that there is something to plan without a pending pod."""
        return self._settings.options().feature_gates.capacity_buffer and bool(self._list(kinds.CAPACITY_BUFFERS))

    def market_read_at(self) -> tuple[datetime, ...]:
        """Return when the stored shapes and prices were read; empty before the first reading. Raises PortError."""
        facts = self._catalogues.facts()
        return (facts.shapes_read_at, facts.prices_read_at) if facts is not None else ()

    def look_without_pods(self) -> ClusterState:
        """Observe nodes, NodePools and EC2NodeClasses with our claims: enough to see whether anything needs repair.

        Raises:
            PortError: If the observation fails.
        """
        rejected: list[ObjectProblem] = []
        commands, records = self._stores.commands.all(), self._stores.claims.all()
        objects: dict[Resource, tuple[Any, ...]] = {
            kind: self._read(kind, rejected) for kind in (kinds.NODES, *_MARKET)
        }
        node_classes = self._with_current_classes(objects)
        snapshot, problems = assemble(
            objects,
            now=self._clock.now(),
            catalogue=Catalogue(),
            options=self._settings.options(),
            cluster=self._settings.cluster_name,
            is_live=True,
        )
        return ClusterState(
            snapshot=self._joined(snapshot, records, commands),
            claims=_by_claim(records),
            commands=commands,
            node_pools=_by_name(objects[kinds.NODE_POOLS]),
            node_classes=_by_name(node_classes),
            problems=(*rejected, *problems),
        )

    def look(self, *, claims: Iterable[ClaimRecord] | None = None, with_market: bool = True) -> ClusterState:
        """Observe everything that a decision may depend on; without the market only decisions that need no prices are possible.

        Commands are read before claims, and both before the cluster: a node that a finished command removed is seen as leaving.
        Nodes are read before pods: an error overestimates free room rather than misses a pod's use of it. Kinds that only
        volumes need are left out where no pod has one.

        Raises:
            PortError: If the observation fails; there is no partial result.
        """
        rejected: list[ObjectProblem] = []
        commands = self._stores.commands.all()
        records = tuple(claims) if claims is not None else self._stores.claims.all()
        options = self._settings.options()
        objects, node_classes = self._objects(options, rejected)
        now = self._clock.now()
        denials = self._denials(objects[kinds.EC2_NODE_CLASSES], now) if with_market else ()
        market = self.catalogue(objects[kinds.EC2_NODE_CLASSES], now) if with_market else Catalogue()
        snapshot, problems = assemble(
            objects,
            now=now,
            catalogue=without_denied(market, denials),
            options=options,
            cluster=self._settings.cluster_name,
            is_live=True,
        )
        if with_market:
            snapshot = self._without_shifted_zones(snapshot)
        current = with_pod_events(records, snapshot.pods, now)
        return ClusterState(
            snapshot=self._joined(snapshot, current, commands),
            claims=_by_claim(records),
            displaced=_displaced(records, snapshot.pods),
            pod_events=tuple(
                (before, after) for before, after in zip(records, current, strict=True) if before is not after
            ),
            commands=commands,
            node_pools=_by_name(objects[kinds.NODE_POOLS]),
            node_classes=_by_name(node_classes),
            buffers=objects.get(kinds.CAPACITY_BUFFERS, ()),
            denials=denials,
            problems=(*rejected, *problems),
        )

    def _objects(
        self, options: Options, rejected: list[ObjectProblem]
    ) -> tuple[dict[Resource, tuple[Any, ...]], tuple[JsonObject, ...]]:
        """Return the objects of each kind that options and pods require, and the EC2NodeClasses in their current state."""
        objects: dict[Resource, tuple[Any, ...]] = {kind: self._read(kind, rejected) for kind in _ALWAYS}
        node_classes = self._with_current_classes(objects)
        objects[kinds.PODS] = self._read(kinds.PODS, rejected)
        if _have_volumes(objects[kinds.PODS]):
            objects |= {kind: self._read(kind, rejected) for kind in _FOR_VOLUMES}
        if options.feature_gates.node_overlay:
            objects[kinds.NODE_OVERLAYS] = self._read(kinds.NODE_OVERLAYS, rejected)
        if options.feature_gates.capacity_buffer:
            objects[kinds.CAPACITY_BUFFERS] = self._read(kinds.CAPACITY_BUFFERS, rejected)
            objects |= {kind: self._read(kind, rejected) for kind in needed_kinds(objects[kinds.CAPACITY_BUFFERS])}
        if options.default_spreads:
            objects |= {kind: self._read(kind, rejected) for kind in _FOR_DEFAULT_SPREADS if kind not in objects}
        return objects, node_classes

    def market(self) -> Snapshot:
        """Observe what NodePools may buy now, without the running cluster: enough to order a claim that was planned before.

        Raises:
            PortError: If the observation fails.
        """
        objects: dict[Resource, tuple[Any, ...]] = {kind: self._list(kind) for kind in _MARKET}
        self._with_current_classes(objects)
        options, now = self._settings.options(), self._clock.now()
        if options.feature_gates.node_overlay:
            objects[kinds.NODE_OVERLAYS] = self._list(kinds.NODE_OVERLAYS)
        snapshot, _ = assemble(
            objects,
            now=now,
            catalogue=without_denied(
                self.catalogue(objects[kinds.EC2_NODE_CLASSES], now),
                self._denials(objects[kinds.EC2_NODE_CLASSES], now),
            ),
            options=options,
            cluster=self._settings.cluster_name,
            is_live=True,
        )
        return self._without_shifted_zones(snapshot)

    def catalogue(self, node_classes: Iterable[JsonObject], now: datetime) -> Catalogue:
        """Return the market for these classes without recently refused offerings. Raises NotFoundError before the first."""
        manifests, refused = sorted(node_classes, key=_name), self._stores.unavailable.active(now)
        open_ = without_unavailable(self._catalogues.catalogue(manifests), refused)
        return without_full_subnets(open_, {_name(one): subnets_of(one) for one in manifests}, refused)

    def _with_current_classes(self, objects: dict[Resource, tuple[Any, ...]]) -> tuple[JsonObject, ...]:
        """Give each EC2NodeClass in the snapshot a status that matches its current spec.

        Returns:
            The classes for those who launch from them or write their status.
        """
        written = objects[kinds.EC2_NODE_CLASSES]
        current = objects[kinds.EC2_NODE_CLASSES] = self._current.all(written, self._clock.now())
        return current if self._current.resolves else written

    def _denials(self, node_classes: Iterable[JsonObject], now: datetime) -> tuple[LaunchDenial, ...]:
        """Return what prevents launches from these EC2NodeClasses now; a changed class may be retried at once."""
        revisions = {_name(manifest): revision_of(manifest) for manifest in node_classes}
        return tuple(
            denial
            for denial in self._stores.denials.all()
            if denial.node_class in revisions and denial.is_paused(now, revisions[denial.node_class])
        )

    def without_refusals(self, view: ClusterState) -> Snapshot:
        """Return the snapshot as if EC2 had refused and denied nothing. Raises PortError."""
        whole = self._catalogues.catalogue(sorted(view.node_classes.values(), key=_name))
        return self._without_shifted_zones(msgspec.structs.replace(view.snapshot, catalogue=whole))

    def node_class(self, name: str) -> JsonObject:
        """Return one EC2NodeClass manifest. Raises NotFoundError."""
        found: JsonObject = self._kubernetes.get(kinds.EC2_NODE_CLASSES, name)
        return found

    def _pods(self, fields: str) -> tuple[Pod, ...]:
        """Return the pods that a field selector selects. Their priorities are not known: no PriorityClass is read for them."""
        translator = PodTranslator()
        return tuple(map(translator.readable_or_not, self._kubernetes.list(kinds.PODS, fields=fields).items))

    def _list(self, kind: Resource) -> tuple[Any, ...]:
        return self._kubernetes.list(kind).items

    def _read(self, kind: Resource, rejected: list[ObjectProblem]) -> tuple[Any, ...]:
        """Return the objects of a kind; unreadable ones are named in `rejected`."""
        listing = self._kubernetes.list(kind)
        rejected += [
            ObjectProblem(resource=kind, position=-1, subject=f"{kind.kind} {name}", field="", problem=why)
            for name, why in listing.rejected
        ]
        return listing.items

    def _without_shifted_zones(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot without launches in zones from which traffic is shifted away."""
        away = self._stores.brakes.engaged().zones
        if not away:
            return snapshot
        names = zones_by_id(snapshot.node_classes, snapshot.nodes)
        zones = frozenset(names.get(zone, zone) for zone in away)
        return msgspec.structs.replace(snapshot, catalogue=without_zones(snapshot.catalogue, zones))

    def _joined(
        self, snapshot: Snapshot, records: tuple[ClaimRecord, ...], commands: tuple[CommandRecord, ...]
    ) -> Snapshot:
        """Return the snapshot with our claims, what commands are removing, and pods bound to the claim on its way for them.

        Those are pending pods, and pods on a node that is leaving or that a command is removing, for which the claim is the
        replacement. They take up the claim's room, and count in its zone, from the moment that it is stored.
        """
        removed = frozenset(name for command in commands if command.has_started for name in command.command.claims)
        leaving = frozenset(
            r.node_name for r in records if r.node_name and (r.deletion is not None or r.name in removed)
        )
        patience = {pool.name: pool.disruption.consolidate_after for pool in snapshot.node_pools}
        requested = [r.plan for r in records if r.phase is ClaimPhase.REQUESTED and r.deletion is None]
        virtual = {pod for plan in requested for pod in plan.buffer_pods}
        joined = msgspec.structs.replace(
            snapshot,
            buffers=tuple(_without_requested(buffer, virtual) for buffer in snapshot.buffers),
            node_claims=tuple(
                requested_claim(record, snapshot.now)
                if is_requested(record)
                else node_claim(record, _patience(record, patience), snapshot.now)
                for record in records
                if record.machine is not None or is_requested(record)
            ),
            node_pools=tuple(_with_current_hash(pool) for pool in snapshot.node_pools),
            node_classes=tuple(_with_current_class_hash(found) for found in snapshot.node_classes),
            marked_for_deletion=tuple(sorted(removed)),
            nominated_until=self._stores.nominations.until(snapshot.now),
            moved_workloads=self._stores.moves.read(snapshot.now).unsettled(snapshot.now),
        )
        return with_expected_pods(joined, records, removed, leaving)


def _patience(record: ClaimRecord, patience: Mapping[str, timedelta | None]) -> timedelta | None:
    return patience.get(record.plan.node_pool)


def _displaced(records: Iterable[ClaimRecord], pods: Iterable[Pod]) -> dict[str, tuple[str, ...]]:
    """Return the pods that must move, by the claim whose drain may wait for their replacements."""
    claims = {record.node_name: record.name for record in records if record.node_name and awaits_replacements(record)}
    found: dict[str, list[str]] = {name: [] for name in sorted(claims.values())}
    for pod in pods:
        if pod.node_name in claims and is_reschedulable(pod):
            found[claims[pod.node_name]].append(pod.key)
    return {name: tuple(sorted(keys)) for name, keys in found.items()}


def _without_requested(buffer: CapacityBuffer, spoken_for: Collection[str]) -> CapacityBuffer:
    """Return the buffer without the pods for which a launch is on its way."""
    own = f"{buffer.namespace}/"
    names = (key.removeprefix(own) for key in spoken_for if key.startswith(own))
    return msgspec.structs.replace(buffer, requested=tuple(sorted(names)))


def _with_current_hash(pool: NodePool) -> NodePool:
    """Return the pool as if its hash annotation were always current; `reconcile` writes it there for people."""
    if not pool.template_hash:
        return pool
    own = {**pool.own_annotations, labels.NODEPOOL_HASH: pool.template_hash, labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
    return msgspec.structs.replace(pool, own_annotations=own)


def _with_current_class_hash(node_class: NodeClass) -> NodeClass:
    if not node_class.spec_hash:
        return node_class
    hashes = {labels.NODECLASS_HASH: node_class.spec_hash, labels.NODECLASS_HASH_VERSION: HASH_VERSION}
    return msgspec.structs.replace(node_class, own_annotations={**node_class.own_annotations, **hashes})


def _have_volumes(pods: Iterable[Any]) -> bool:
    return any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for pod in pods
        for volume in pod.spec.volumes
    )


def _by_claim(records: Iterable[ClaimRecord]) -> dict[str, ClaimRecord]:
    return {record.name: record for record in sorted(records, key=lambda record: record.name)}


def _by_name(manifests: Iterable[JsonObject]) -> dict[str, JsonObject]:
    return {_name(manifest): manifest for manifest in sorted(manifests, key=_name)}


def _name(manifest: JsonObject) -> str:
    return str((manifest.get("metadata") or {}).get("name", ""))
