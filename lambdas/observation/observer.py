"""Observes Kubernetes, the table and the catalogue, and joins them into one snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from core.api.objects import name_of
from core.catalogue.node_class import has_address_reading
from core.catalogue.reservations import selects_reservations
from core.disruption.budgets.recent_evictions import recently
from core.lifecycle.pod_events import with_pod_events
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.manifests.assemble import ObjectProblem, assemble
from core.manifests.buffers import needed_kinds
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from core.model.catalogue import Catalogue
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from lambdas.observation.cluster_state import ClusterState
from lambdas.observation.current_node_classes import CURRENT_ONLY, CurrentNodeClasses
from lambdas.observation.open_market import OpenMarket
from lambdas.observation.own_state import displaced_pods, with_own_state
from lambdas.observation.pool_user_data import UserDataProblem, without_oversized_pools
from lambdas.observation.stores import OwnRows, Stores
from lambdas.observation.unavailable_offerings import (
    without_denied,
)
from lambdas.ports import CatalogueStore, Clock, CloudProvider, JsonObject, Kubernetes
from lambdas.settings import Settings

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
"""The kinds that determine which pods a default constraint selects."""


class Observer:
    """Makes observations."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        catalogues: CatalogueStore,
        stores: Stores,
        settings: Settings,
        clock: Clock,
        current: CurrentNodeClasses = CURRENT_ONLY,
        user_data_problem: UserDataProblem | None = None,
    ) -> None:
        self._current = current
        self._user_data_problem = user_data_problem
        self._kubernetes = kubernetes
        self._catalogues = catalogues
        self._stores = stores
        self.open_market = OpenMarket(catalogues, stores.unavailable, stores.denials, stores.brakes, stores.quotas)
        self._settings = settings
        self._clock = clock

    def judging(self, cloud: CloudProvider) -> Observer:
        """Return an observer that resolves edited EC2NodeClasses and checks NodePools without waiting for `reconcile`."""
        return Observer(
            self._kubernetes,
            self._catalogues,
            self._stores,
            self._settings,
            self._clock,
            CurrentNodeClasses(cloud.resolve),
            cloud.user_data_problem,
        )

    def unbound_pods(self) -> tuple[Pod, ...]:
        """Return the pods that have no node."""
        return self._pods(UNBOUND)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods of one node."""
        return self._pods(f"spec.nodeName={node}")

    def keeps_room(self) -> bool:
        """Whether any capacity buffer requests room, so that there is something to plan without a pending pod."""
        return self._settings.options().feature_gates.capacity_buffer and bool(self._list(kinds.CAPACITY_BUFFERS))

    def observe_without_pods(self, rows: OwnRows | None = None) -> ClusterState:
        """Observe nodes, NodePools and EC2NodeClasses with our claims: enough to see whether anything needs repair.

        Args:
            rows: Commands and claims that were just read.

        Raises:
            PortError: If the observation fails.
        """
        rejected: list[ObjectProblem] = []
        rows = rows or self._stores.own_rows()
        commands, records = rows.commands, rows.claims
        objects: dict[Resource, tuple[Any, ...]] = {
            kind: self._read(kind, rejected) for kind in (kinds.NODES, *_MARKET)
        }
        node_classes = self._with_current_classes(objects)
        snapshot, problems = self._assembled(objects, self._clock.now(), Catalogue())
        return ClusterState(
            snapshot=self._joined(snapshot, records, commands),
            claims=_by_claim(records),
            commands=commands,
            node_pools=_by_name(objects[kinds.NODE_POOLS]),
            node_classes=_by_name(node_classes),
            problems=(*rejected, *problems),
            unreadable_rows=self._stores.unreadable.all(),
        )

    def observe(self, *, with_market: bool = True, rows: OwnRows | None = None) -> ClusterState:
        """Observe all inputs of a decision; without the market, only decisions without prices are possible.

        Commands are read before claims, and both before the cluster: a node that a finished command removed is seen as leaving.
        Nodes are read before pods, so that pods which are bound in between count. Kinds that only volumes need are skipped if
        no pod has one.

        Args:
            with_market: Whether to read prices and offerings.
            rows: Commands and claims that were just read.

        Raises:
            PortError: If the observation fails; there is no partial result.
        """
        rejected: list[ObjectProblem] = []
        rows = rows or self._stores.own_rows()
        commands, records = rows.commands, rows.claims
        objects, node_classes = self._objects(rejected)
        now = self._clock.now()
        denials = self.open_market.denials(objects[kinds.EC2_NODE_CLASSES], now) if with_market else ()
        market = (
            self.open_market.catalogue(objects[kinds.EC2_NODE_CLASSES], now, records) if with_market else Catalogue()
        )
        snapshot, problems = self._assembled(objects, now, without_denied(market, denials))
        if with_market:
            snapshot = self.open_market.without_shifted_zones(self.open_market.with_quotas(snapshot))
            snapshot = self.open_market.with_addresses(snapshot, objects[kinds.EC2_NODE_CLASSES], records)
        if self._user_data_problem is not None:
            snapshot = without_oversized_pools(snapshot, _by_name(node_classes), self._user_data_problem)
        current = with_pod_events(records, snapshot.pods, now, self._stores.pod_ends.latest(now))
        return ClusterState(
            snapshot=self._joined(snapshot, current, commands),
            claims=_by_claim(records),
            displaced=displaced_pods(records, snapshot.pods),
            pod_events=tuple(
                (before, after) for before, after in zip(records, current, strict=True) if before is not after
            ),
            commands=commands,
            node_pools=_by_name(objects[kinds.NODE_POOLS]),
            node_classes=_by_name(node_classes),
            buffers=objects.get(kinds.CAPACITY_BUFFERS, ()),
            denials=denials,
            problems=(*rejected, *problems),
            unreadable_rows=self._stores.unreadable.all(),
        )

    def _assembled(
        self, objects: dict[Resource, tuple[Any, ...]], now: datetime, catalogue: Catalogue
    ) -> tuple[Snapshot, tuple[ObjectProblem, ...]]:
        return assemble(
            objects,
            now=now,
            catalogue=catalogue,
            options=self._settings.options(),
            cluster=self._settings.cluster_name,
            is_live=True,
        )

    def _objects(self, rejected: list[ObjectProblem]) -> tuple[dict[Resource, tuple[Any, ...]], tuple[JsonObject, ...]]:
        """Return the objects of each kind that options and pods require, and the EC2NodeClasses in their current state."""
        options = self._settings.options()
        objects: dict[Resource, tuple[Any, ...]] = {kind: self._read(kind, rejected) for kind in _ALWAYS}
        node_classes = self._with_current_classes(objects)
        objects[kinds.PODS] = self._read(kinds.PODS, rejected)
        if _have_volumes(objects[kinds.PODS]):
            objects |= {kind: self._read(kind, rejected) for kind in _FOR_VOLUMES}
        if self._settings.is_shadow:
            objects[kinds.NODE_CLAIMS] = self._read(kinds.NODE_CLAIMS, rejected)
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
        now = self._clock.now()
        if self._settings.options().feature_gates.node_overlay:
            objects[kinds.NODE_OVERLAYS] = self._list(kinds.NODE_OVERLAYS)
        node_classes = objects[kinds.EC2_NODE_CLASSES]
        is_limited = any(selects_reservations(found) or has_address_reading(found) for found in node_classes)
        claims = self._stores.claims.all() if is_limited else ()
        catalogue = without_denied(
            self.open_market.catalogue(node_classes, now, claims), self.open_market.denials(node_classes, now)
        )
        snapshot, _ = self._assembled(objects, now, catalogue)
        return self.open_market.with_addresses(self.open_market.without_shifted_zones(snapshot), node_classes, claims)

    def _with_current_classes(self, objects: dict[Resource, tuple[Any, ...]]) -> tuple[JsonObject, ...]:
        """Give each EC2NodeClass a status that matches its current spec.

        Returns:
            The classes, for callers that launch from them or write their status.
        """
        written = objects[kinds.EC2_NODE_CLASSES]
        current = objects[kinds.EC2_NODE_CLASSES] = self._current.all(
            written, self._clock.now(), objects[kinds.NODE_POOLS]
        )
        return current if self._current.resolves else written

    def node_class(self, name: str) -> JsonObject:
        """Return one EC2NodeClass manifest. Raises NotFoundError."""
        found: JsonObject = self._kubernetes.get(kinds.EC2_NODE_CLASSES, name)
        return found

    def _pods(self, fields: str) -> tuple[Pod, ...]:
        """Return the pods that a field selector selects.

        PriorityClasses are not read, so pods have only their own priorities.
        """
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

    def _joined(
        self, snapshot: Snapshot, records: tuple[ClaimRecord, ...], commands: tuple[CommandRecord, ...]
    ) -> Snapshot:
        if self._settings.is_shadow:  # NodeClaims of the other provisioner are the facts, and its hashes show drift
            return snapshot
        history = self._stores.moves.readable(snapshot.now)
        return with_own_state(
            snapshot,
            records,
            commands,
            nominated_until=self._stores.nominations.until(snapshot.now),
            moved_workloads=history.unsettled(snapshot.now),
            evicted_nodes=recently(history.evicted_nodes, snapshot.now),
        )


def _have_volumes(pods: Iterable[Any]) -> bool:
    return any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for pod in pods
        for volume in pod.spec.volumes
    )


def _by_claim(records: Iterable[ClaimRecord]) -> dict[str, ClaimRecord]:
    return {record.name: record for record in sorted(records, key=lambda record: record.name)}


def _by_name(manifests: Iterable[JsonObject]) -> dict[str, JsonObject]:
    return {name_of(manifest): manifest for manifest in sorted(manifests, key=name_of)}
