"""Observes Kubernetes, the table and the catalogue, and joins them into one snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from adapters.observation.cluster_reader import UNBOUND, ClusterReader, ObjectsByKind
from adapters.observation.cluster_state import ClusterState
from adapters.observation.current_node_classes import CURRENT_ONLY, CurrentNodeClasses
from adapters.observation.open_market import OpenMarket
from adapters.observation.own_state import displaced_pods, with_own_state
from adapters.observation.pool_user_data import UserDataProblem, without_oversized_pools
from adapters.observation.stores import OwnRows, Stores
from adapters.observation.unavailable_offerings import without_denied
from adapters.ports import CatalogueStore, Clock, CloudProvider, JsonObject, Kubernetes
from core.catalogue.node_class import has_address_reading
from core.catalogue.reservations import selects_reservations
from core.disruption.budgets.recent_evictions import recently
from core.lifecycle.pod_events import with_pod_events
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.manifests.assemble import ObjectProblem, assemble
from core.manifests.wire import api_resources as kinds
from core.model.catalogue import Catalogue
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from installation.settings import Settings


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
        self._reader = ClusterReader(kubernetes, settings, clock, current)
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
        return self._reader.pods(UNBOUND)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods of one node."""
        return self._reader.pods(f"spec.nodeName={node}")

    def default_spreads(self) -> DefaultSpreads:
        """Return the default spreads with the Services and workloads that they follow; none if none must hold.

        Raises:
            PortError: If these cannot be listed.
        """
        if not self._settings.options().requires_default_spreads:
            return DefaultSpreads(Snapshot(now=self._clock.now()))
        snapshot, _ = self._assembled(self._reader.for_default_spreads(), self._clock.now(), Catalogue())
        return DefaultSpreads(snapshot)

    def keeps_room(self) -> bool:
        """Whether any capacity buffer requests room, so that there is something to plan without a pending pod."""
        return self._reader.has_buffers()

    def node_class(self, name: str) -> JsonObject:
        """Return one EC2NodeClass manifest. Raises NotFoundError."""
        return self._reader.node_class(name)

    def observe_without_pods(self, rows: OwnRows | None = None) -> ClusterState:
        """Observe nodes, NodePools and EC2NodeClasses with our claims: enough to see whether anything needs repair.

        Args:
            rows: Commands and claims that were just read.

        Raises:
            PortError: If the observation fails.
        """
        rows = rows or self._stores.own_rows()
        commands, records = rows.commands, rows.claims
        found = self._reader.without_pods()
        snapshot, problems = self._assembled(found.by_kind, self._clock.now(), Catalogue())
        return ClusterState(
            snapshot=self._joined(snapshot, records, commands),
            claims=_by_claim(records),
            commands=commands,
            node_pools=found.node_pools(),
            node_classes=found.node_classes_by_name(),
            problems=(*found.rejected, *problems),
            unreadable_rows=self._stores.unreadable.all(),
        )

    def observe(self, *, with_market: bool = True, rows: OwnRows | None = None) -> ClusterState:
        """Observe all inputs of a decision; without the market, only decisions without prices are possible.

        Commands are read before claims, and both before the cluster: a node that a finished command removed is seen as leaving.

        Args:
            with_market: Whether to read prices and offerings.
            rows: Commands and claims that were just read.

        Raises:
            PortError: If the observation fails; there is no partial result.
        """
        rows = rows or self._stores.own_rows()
        commands, records = rows.commands, rows.claims
        found = self._reader.complete()
        node_classes = found.by_kind[kinds.EC2_NODE_CLASSES]
        now = self._clock.now()
        denials = self.open_market.denials(node_classes, now) if with_market else ()
        market = self.open_market.catalogue(node_classes, now, records) if with_market else Catalogue()
        snapshot, problems = self._assembled(found.by_kind, now, without_denied(market, denials))
        if with_market:
            snapshot = self.open_market.without_shifted_zones(self.open_market.with_quotas(snapshot))
            snapshot = self.open_market.with_addresses(snapshot, node_classes, records)
        if self._user_data_problem is not None:
            snapshot = without_oversized_pools(snapshot, found.node_classes_by_name(), self._user_data_problem)
        current = with_pod_events(records, snapshot.pods, now, self._stores.pod_ends.latest(now))
        return ClusterState(
            snapshot=self._joined(snapshot, current, commands),
            claims=_by_claim(records),
            displaced=displaced_pods(records, snapshot.pods),
            pod_events=tuple(
                (before, after) for before, after in zip(records, current, strict=True) if before is not after
            ),
            commands=commands,
            node_pools=found.node_pools(),
            node_classes=found.node_classes_by_name(),
            buffers=found.by_kind.get(kinds.CAPACITY_BUFFERS, ()),
            denials=denials,
            problems=(*found.rejected, *problems),
            unreadable_rows=self._stores.unreadable.all(),
        )

    def _assembled(
        self, objects: ObjectsByKind, now: datetime, catalogue: Catalogue
    ) -> tuple[Snapshot, tuple[ObjectProblem, ...]]:
        return assemble(
            objects,
            now=now,
            catalogue=catalogue,
            options=self._settings.options(),
            cluster=self._settings.cluster_name,
            is_live=True,
        )

    def market(self) -> Snapshot:
        """Observe what NodePools may buy now, without the running cluster: enough to order a claim that was planned before.

        Raises:
            PortError: If the observation fails.
        """
        found = self._reader.for_launches()
        now = self._clock.now()
        node_classes = found.by_kind[kinds.EC2_NODE_CLASSES]
        is_limited = any(selects_reservations(each) or has_address_reading(each) for each in node_classes)
        claims = self._stores.claims.all() if is_limited else ()
        catalogue = without_denied(
            self.open_market.catalogue(node_classes, now, claims), self.open_market.denials(node_classes, now)
        )
        snapshot, _ = self._assembled(found.by_kind, now, catalogue)
        return self.open_market.with_addresses(self.open_market.without_shifted_zones(snapshot), node_classes, claims)

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


def _by_claim(records: Iterable[ClaimRecord]) -> dict[str, ClaimRecord]:
    return {record.name: record for record in sorted(records, key=lambda record: record.name)}
