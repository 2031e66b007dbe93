"""The market for launches: without offerings that EC2 refuses or denies, and without zones that traffic is shifted from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec

from adapters.brakes.ports import Brakes
from adapters.observation.cluster_state import ClusterState
from adapters.observation.unavailable_offerings import without_full_subnets, without_unavailable, without_zones
from adapters.ports import CatalogueStore, JsonObject, PortError, QuotaStore
from adapters.store import LaunchDenials, UnavailableOfferings
from core.api.objects import name_of
from core.catalogue.node_class import has_address_reading
from core.catalogue.reservations import with_reservations
from core.launch.denials.denial import LaunchDenial, revision_of
from core.launch.denials.subnets import refused_subnets, subnets_of
from core.lifecycle.records import ClaimRecord
from core.lifecycle.reserved_places import held_places
from core.manifests.zone_ids import zones_by_id
from core.model.catalogue import Catalogue
from core.model.snapshot import Snapshot


class OpenMarket:
    """Reads the market without offerings that cannot be launched now."""

    def __init__(
        self,
        catalogues: CatalogueStore,
        unavailable: UnavailableOfferings,
        denials: LaunchDenials,
        brakes: Brakes,
        quotas: QuotaStore,
    ) -> None:
        self._catalogues = catalogues
        self._unavailable = unavailable
        self._denials = denials
        self._brakes = brakes
        self._quotas = quotas

    def read_at(self) -> tuple[datetime, ...]:
        """Return when the stored shapes and prices were read; empty before the first reading. Raises PortError."""
        facts = self._catalogues.facts()
        return (facts.shapes_read_at, facts.prices_read_at) if facts is not None else ()

    def catalogue(
        self, node_classes: Iterable[JsonObject], now: datetime, claims: Iterable[ClaimRecord] = ()
    ) -> Catalogue:
        """Return the market for these classes without recently refused offerings. Raises NotFoundError before the first.

        `claims` are all claims, for plans: each holds its place in a capacity reservation.
        """
        manifests, refused = sorted(node_classes, key=name_of), self._unavailable.refused(now).avoided
        open_ = without_unavailable(self._whole(manifests, claims, now), refused)
        return without_full_subnets(open_, {name_of(one): subnets_of(one) for one in manifests}, refused)

    def denials(self, node_classes: Iterable[JsonObject], now: datetime) -> tuple[LaunchDenial, ...]:
        """Return what prevents launches from these EC2NodeClasses now; a changed class may be retried at once."""
        revisions = {name_of(manifest): revision_of(manifest) for manifest in node_classes}
        return tuple(
            denial
            for denial in self._denials.all()
            if denial.node_class in revisions and denial.is_paused(now, revisions[denial.node_class])
        )

    def without_shifted_zones(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot without launches in zones from which traffic is shifted away."""
        away = self._brakes.engaged().zones
        if not away:
            return snapshot
        names = zones_by_id(snapshot.node_classes, snapshot.nodes)
        zones = frozenset(names.get(zone, zone) for zone in away)
        return msgspec.structs.replace(snapshot, catalogue=without_zones(snapshot.catalogue, zones))

    def with_quotas(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with EC2's vCPU quotas; without any if they cannot be read, since EC2 enforces them itself."""
        with suppress(PortError):
            reading = self._quotas.reading()
            if reading is not None:
                left = reading.left_to(snapshot.cluster, snapshot.now)
                return msgspec.structs.replace(snapshot, vcpu_quotas=left)
        return snapshot

    def with_addresses(
        self, snapshot: Snapshot, node_classes: Iterable[JsonObject], claims: Iterable[ClaimRecord]
    ) -> Snapshot:
        """Return the snapshot with the free addresses of subnets that have few, beside all claims in flight.

        A subnet that recently refused a launch has none: launches avoid it. Raises PortError.
        """
        manifests = tuple(node_classes)
        if not any(map(has_address_reading, manifests)):
            return snapshot
        from core.lifecycle.in_flight_addresses import addresses_left  # most clusters have plenty

        full = refused_subnets(self._unavailable.refused(snapshot.now).avoided)
        left = addresses_left(manifests, claims, snapshot.now) | dict.fromkeys(sorted(full), 0)
        return msgspec.structs.replace(snapshot, subnet_addresses=left)

    def _whole(self, manifests: Sequence[JsonObject], claims: Iterable[ClaimRecord], now: datetime) -> Catalogue:
        return with_reservations(self._catalogues.catalogue(manifests), manifests, held_places(claims), now)

    def without_refusals(self, view: ClusterState) -> Snapshot:
        """Return the snapshot as if EC2 had refused and denied nothing. Raises PortError."""
        manifests = sorted(view.node_classes.values(), key=name_of)
        whole = self._whole(manifests, view.claims.values(), view.snapshot.now)
        return self.without_shifted_zones(msgspec.structs.replace(view.snapshot, catalogue=whole))
