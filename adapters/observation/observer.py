"""Observes Kubernetes, the table and the catalogue, and joins them into one snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec

from adapters.brakes import Brakes
from adapters.observation.cluster_reader import CURRENT_ONLY, UNBOUND, ClusterReader, CurrentNodeClasses, ObjectsByKind
from adapters.observation.stores import OwnRows, Stores
from adapters.ports import CatalogueStore, Clock, CloudProvider, JsonObject, Kubernetes, PortError, QuotaStore
from adapters.store import LaunchDenials, UnavailableOfferings, UnreadableRow, UnreadableRowError
from core import labels
from core.api.objects import name_of
from core.calendars import at
from core.catalogue.node_class import has_address_reading
from core.catalogue.reservations import selects_reservations, with_reservations
from core.disruption.move_history import recently
from core.labels import HASH_VERSION
from core.launch.denials import LaunchDenial, closed_zones, refused_subnets, revision_of, subnets_of
from core.lifecycle.claims import held_places, is_late_to_initialize, node_claim, requested_claim
from core.lifecycle.deletion import awaits_replacements
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandRecord, with_pod_events
from core.manifests.assemble import ObjectProblem, assemble, zones_by_id
from core.manifests.wire import resources
from core.manifests.wire.objects import WireCapacityBuffer, WireProvisioningRequest
from core.model.catalogue import Catalogue, InstanceType, OfferingKey
from core.model.node_pool import Calendar, NodeClass, NodePool
from core.model.pod import Pod
from core.model.snapshot import CapacityBuffer, EvictedNode, MovedWorkload, Snapshot
from core.node_facts import with_trusted_nodes
from core.pods import is_reschedulable
from core.scheduling.pods import DefaultSpreads
from core.spending import with_spending
from installation.settings import ON, Settings

# One observation of the cluster, with our table's records.


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an observation.

    Attributes:
        claims: Claims by name, in that order.
        node_pools, node_classes, node_overlays: The manifests behind the snapshot's, by name.
        buffers: The CapacityBuffers as decoded from the wire, if their feature gate is on.
        requests: The ProvisioningRequests as decoded from the wire.
        displaced: Name of a leaving claim whose drain may wait for replacements → keys of the pods that must move from it.
        pod_events: Claims on whose node a pod arrived or left since the last stored observation: before and after.
        denials: The denials that currently prevent launches.
        problems: Objects that could not be used, or only with a warning.
        unreadable_rows: Rows that are left out of the claims, the commands and all else that was read from the table.
    """

    snapshot: Snapshot
    claims: dict[str, ClaimRecord]
    commands: tuple[CommandRecord, ...]
    node_pools: dict[str, JsonObject]
    node_classes: dict[str, JsonObject]
    node_overlays: dict[str, JsonObject] = {}
    buffers: tuple[WireCapacityBuffer, ...] = ()
    requests: tuple[WireProvisioningRequest, ...] = ()
    displaced: dict[str, tuple[str, ...]] = {}
    pod_events: tuple[tuple[ClaimRecord, ClaimRecord], ...] = ()
    denials: tuple[LaunchDenial, ...] = ()
    problems: tuple[ObjectProblem, ...] = ()
    unreadable_rows: tuple[UnreadableRow, ...] = ()

    def require_commands(self) -> None:
        """Raise UnreadableRowError if the row of a command is left out: its nodes look as if they were in none."""
        for row in self.unreadable_rows:
            if row.is_command:
                raise UnreadableRowError("dynamodb:Query", row)

    @property
    def unreadable_claims(self) -> frozenset[str]:
        """Names of claims that exist although `claims` lacks them."""
        return frozenset(row.name for row in self.unreadable_rows if row.is_claim)


# NodePools and EC2NodeClasses as if their hash annotations were always current: drift compares nodes with these.


def with_current_pool_hash(pool: NodePool) -> NodePool:
    """Return the pool with its current hash annotation, which `reconcile` also writes to the object for people."""
    if not pool.template_hash:
        return pool
    stamped = {
        **pool.own_annotations,
        labels.NODEPOOL_HASH: pool.template_hash,
        labels.NODEPOOL_HASH_VERSION: HASH_VERSION,
    }
    return msgspec.structs.replace(pool, own_annotations=stamped)


def with_current_class_hash(node_class: NodeClass) -> NodeClass:
    """Return the class with its current hash annotation."""
    if not node_class.spec_hash:
        return node_class
    hashes = {labels.NODECLASS_HASH: node_class.spec_hash, labels.NODECLASS_HASH_VERSION: HASH_VERSION}
    return msgspec.structs.replace(node_class, own_annotations={**node_class.own_annotations, **hashes})


Launching = TypeVar("Launching", NodeClass, NodePool)


def without_dropped_fields(written: Launching) -> Launching:
    """Return the class or NodePool with a problem if a field of what it launches is dropped: the node may be a wrong one."""
    if not written.unknown_fields or written.problem:
        return written
    fields = ",".join(written.unknown_fields)
    problem = (
        f"{fields}: this version does not know it; update Fleetwright, or launch without it:"
        f" annotate the object with {labels.IGNORED_FIELDS}: {fields}"
    )
    return msgspec.structs.replace(written, problem=problem)


# Binds pods to the stored or launched claim planned for them, so that they are not planned again while its node boots.
#
# A plan packs pods more tightly than a later plan that places them one by one onto the launching nodes. If they were planned
# again, some would not fit, and each run of a burst would launch additional nodes.


NOMINATIONS_VALID_FOR: Final = timedelta(minutes=2)
"""How long nominations are valid after a node's initialization: kube-scheduler retries pods with up to 10 s of back-off, and a
burst keeps it busy longer."""


def awaits_pods(record: ClaimRecord, now: datetime) -> bool:
    """Whether pods wait for its node: it was launched for them, and its node is neither initialized nor late."""
    boots = record.phase in (ClaimPhase.LAUNCHED, ClaimPhase.REGISTERED) and record.deletion is None
    return boots and bool(record.plan.pods) and not is_late_to_initialize(record, now)


def is_requested(record: ClaimRecord) -> bool:
    """Whether it is stored for pods but not launched yet."""
    return record.phase is ClaimPhase.REQUESTED and record.deletion is None and bool(record.plan.pods)


def with_expected_pods(
    snapshot: Snapshot,
    records: Iterable[ClaimRecord],
    removed: Collection[str] = (),
    leaving: Collection[str] = (),
) -> Snapshot:
    """Return the snapshot with these pods bound to their claims, as they will be; pods bound elsewhere stay there.

    Once the node is initialized, the scheduler decides. A pod that we nominated, and whose nomination it has not cleared,
    counts as bound for a while, since the scheduler reserves room for it; pods that it does not bind there are planned again.
    For Karpenter, a nominated pod does not wait at all, since the scheduler made room for it by preemption. Our own nominations
    make no room, so they are removed after their time.

    Args:
        snapshot: The observation.
        records: Every claim.
        removed: Names of claims that commands are removing: no pod is expected there.
        leaving: Names of the leaving nodes: their pods count as moved, unless they are already being deleted, since their
            successors then need the room.
    """
    records = tuple(records)
    stay = [record for record in records if record.name not in removed]
    times = Counter(node.provider_id for node in snapshot.nodes)
    nodes = {
        node.provider_id: node.name for node in snapshot.nodes if node.provider_id and times[node.provider_id] == 1
    }
    waiting = {
        record.name: nodes.get(record.provider_id, record.name)
        for record in stay
        if awaits_pods(record, snapshot.now) or is_requested(record)
    }
    node_of = {pod: waiting[record.name] for record in stay if record.name in waiting for pod in record.plan.pods}
    validity = _nominations(records, removed, snapshot)
    if not node_of and not validity:
        return snapshot
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(_expected(pod, node_of, validity, leaving) for pod in snapshot.pods),
        node_claims=tuple(
            msgspec.structs.replace(claim, node_name=waiting[claim.name]) if claim.name in waiting else claim
            for claim in snapshot.node_claims
        ),
    )


def _nominations(
    records: Iterable[ClaimRecord], removed: Collection[str], snapshot: Snapshot
) -> dict[tuple[str, str], bool]:
    """Return for each nominated pod and its node whether the nomination still holds."""
    return {
        (pod, record.node_name): record.name not in removed and _is_valid(record, snapshot.now)
        for record in records
        for pod in record.nominated
    }


def _expected(
    pod: Pod, node_of: Mapping[str, str], validity: Mapping[tuple[str, str], bool], leaving: Collection[str]
) -> Pod:
    if pod.node_name and (pod.node_name not in leaving or pod.is_terminating):
        return pod
    if pod.key in node_of:
        return msgspec.structs.replace(pod, node_name=node_of[pod.key])
    if pod.node_name:
        return pod
    is_valid = validity.get((pod.key, pod.nominated_node_name)) if pod.nominated_node_name else None
    if is_valid is None:
        return pod
    return msgspec.structs.replace(pod, node_name=pod.nominated_node_name if is_valid else "", nominated_node_name="")


def _is_valid(record: ClaimRecord, now: datetime) -> bool:
    """Whether our nomination is still valid: the node stays, and the scheduler's time is not over."""
    since = record.initialized_at
    return record.deletion is None and since is not None and now - since < NOMINATIONS_VALID_FOR


# The snapshot joined with the table: claims, commands, nominations, and pods on claims that are launched for them.


def with_own_state(
    snapshot: Snapshot,
    records: tuple[ClaimRecord, ...],
    commands: tuple[CommandRecord, ...],
    *,
    nominated_until: dict[str, datetime],
    moved_workloads: dict[str, MovedWorkload],
    evicted_nodes: dict[str, EvictedNode],
) -> Snapshot:
    """Return the snapshot with our claims, the claims that commands remove, and pods bound to claims being launched for them.

    Those are pending pods, and pods on a node that is leaving or that a command is removing, for which the claim is the
    replacement. They use the claim's room and count in its zone as soon as it is stored.
    """
    reasons = {name: c.command.reason for c in commands if c.has_started for name in c.command.claims}
    removed = frozenset(reasons)
    leaving = frozenset(r.node_name for r in records if r.node_name and (r.deletion is not None or r.name in removed))
    consolidate_after = {pool.name: pool.disruption.consolidate_after for pool in snapshot.node_pools}
    requested = [r.plan for r in records if r.phase is ClaimPhase.REQUESTED and r.deletion is None]
    virtual = {pod for plan in requested for pod in plan.buffer_pods}
    joined = msgspec.structs.replace(
        snapshot,
        buffers=tuple(_without_requested(buffer, virtual) for buffer in snapshot.buffers),
        requested_members=tuple(sorted(virtual)),
        node_claims=tuple(
            requested_claim(record, snapshot.now)
            if is_requested(record)
            else node_claim(
                record, _consolidate_after(record, consolidate_after), snapshot.now, reasons.get(record.name, "")
            )
            for record in records
            if record.machine is not None or is_requested(record)
        ),
        node_pools=tuple(without_dropped_fields(with_current_pool_hash(pool)) for pool in snapshot.node_pools),
        node_classes=tuple(without_dropped_fields(with_current_class_hash(c)) for c in snapshot.node_classes),
        marked_for_deletion=tuple(sorted(removed)),
        nominated_until=nominated_until,
        moved_workloads=moved_workloads,
        evicted_nodes=evicted_nodes,
    )
    return with_expected_pods(with_trusted_nodes(joined).snapshot, records, removed, leaving)


def _consolidate_after(record: ClaimRecord, consolidate_after: Mapping[str, timedelta | None]) -> timedelta | None:
    return consolidate_after.get(record.plan.node_pool)


def displaced_pods(records: Iterable[ClaimRecord], pods: Iterable[Pod]) -> dict[str, tuple[str, ...]]:
    """Return the pods that must move, by the claim whose drain may wait for their replacements."""
    claims = {record.node_name: record.name for record in records if record.node_name and awaits_replacements(record)}
    displaced: dict[str, list[str]] = {name: [] for name in sorted(claims.values())}
    for pod in pods:
        if pod.node_name in claims and is_reschedulable(pod):
            displaced[claims[pod.node_name]].append(pod.key)
    return {name: tuple(sorted(keys)) for name, keys in displaced.items()}


def _without_requested(buffer: CapacityBuffer, requested: Collection[str]) -> CapacityBuffer:
    """Return the buffer without the pods whose launch is in progress."""
    prefix = f"{buffer.namespace}/"
    names = (key.removeprefix(prefix) for key in requested if key.startswith(prefix))
    return msgspec.structs.replace(buffer, requested=tuple(sorted(names)))


# Marks NodePools whose nodes' user data exceeds EC2's limit, so that nothing is planned for them.
#
# `reconcile` writes the same into their conditions; this module covers NodePools that were created or edited since then.


UserDataProblem = Callable[[JsonObject, NodePool], str]
"""Returns why a NodePool cannot launch from a class, empty if it can (`CloudProvider.user_data_problem`)."""


def measured(pool: NodePool, node_classes: Mapping[str, JsonObject], problem_of: UserDataProblem) -> NodePool:
    """Return the NodePool, with a problem if its nodes' user data is too long. Raises PortError."""
    manifest = node_classes.get(pool.node_class.name)
    if manifest is None or pool.problem:
        return pool
    return msgspec.structs.replace(pool, problem=problem_of(manifest, pool))


def without_oversized_pools(
    snapshot: Snapshot, node_classes: Mapping[str, JsonObject], problem_of: UserDataProblem
) -> Snapshot:
    """Return the snapshot with its NodePools measured; if that fails now, the launch reports the problem."""
    pools = []
    for pool in snapshot.node_pools:
        try:
            pools.append(measured(pool, node_classes, problem_of))
        except PortError:
            pools.append(pool)
    return msgspec.structs.replace(snapshot, node_pools=tuple(pools))


# Marks offerings of the catalogue that EC2 recently refused, or in zones to avoid, as unavailable.
#
# Such offerings still price running nodes, but nothing is launched from them.


def without_unavailable(catalogue: Catalogue, refused: AbstractSet[OfferingKey]) -> Catalogue:
    """Return the catalogue with the refused offerings marked as unavailable."""
    if not refused:
        return catalogue
    names = {key.instance_type for key in refused}

    def masked(types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        return tuple(
            _masked(instance_type, refused) if instance_type.name in names else instance_type for instance_type in types
        )

    return Catalogue(
        default=masked(catalogue.default),
        by_node_class={name: masked(types) for name, types in catalogue.by_node_class.items()},
    )


def without_denied(catalogue: Catalogue, denials: Iterable[LaunchDenial]) -> Catalogue:
    """Return the catalogue with the offerings that EC2 denies an EC2NodeClass marked as unavailable, for that class."""
    by_class = dict(catalogue.by_node_class)
    for denial in denials:
        types = by_class.get(denial.node_class, catalogue.default)
        keys = {o.key for instance_type in types for o in instance_type.offerings if denial.scope.covers(o.key)}
        by_class[denial.node_class] = tuple(_masked(instance_type, keys) for instance_type in types)
    return Catalogue(default=catalogue.default, by_node_class=by_class)


def has_unavailable(catalogue: Catalogue) -> bool:
    """Whether any offering is not available."""
    type_lists = (catalogue.default, *catalogue.by_node_class.values())
    return any(
        not offering.available
        for types in type_lists
        for instance_type in types
        for offering in instance_type.offerings
    )


def without_full_subnets(
    catalogue: Catalogue, subnets: Mapping[str, Iterable[tuple[str, str]]], refused: AbstractSet[OfferingKey]
) -> Catalogue:
    """Return the catalogue with an EC2NodeClass's offerings marked as unavailable where all its subnets lack addresses.

    Args:
        catalogue: The catalogue.
        subnets: EC2NodeClass → (subnet id, zone).
        refused: What EC2 recently refused, subnets included.
    """
    by_class = dict(catalogue.by_node_class)
    for name, class_subnets in sorted(subnets.items()):
        zones = closed_zones(class_subnets, refused)
        if zones:
            types = catalogue.types_for(name)
            keys = {o.key for instance_type in types for o in instance_type.offerings if o.zone in zones}
            by_class[name] = tuple(_masked(instance_type, keys) for instance_type in types)
    return Catalogue(default=catalogue.default, by_node_class=by_class)


def without_zones(catalogue: Catalogue, zones: AbstractSet[str]) -> Catalogue:
    """Return the catalogue with all offerings in these zones marked as unavailable."""
    if not zones:
        return catalogue
    in_them = {
        offering.key
        for types in (catalogue.default, *catalogue.by_node_class.values())
        for instance_type in types
        for offering in instance_type.offerings
        if offering.zone in zones
    }
    return without_unavailable(catalogue, in_them)


def _masked(instance_type: InstanceType, refused: AbstractSet[OfferingKey]) -> InstanceType:
    offerings = tuple(
        msgspec.structs.replace(offering, available=False) if offering.key in refused else offering
        for offering in instance_type.offerings
    )
    return msgspec.structs.replace(instance_type, offerings=offerings)


# The market for launches: without offerings that EC2 refuses or denies, and without zones that traffic is shifted from.


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
        return without_full_subnets(open_, {name_of(manifest): subnets_of(manifest) for manifest in manifests}, refused)

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
                quotas = reading.left_to(snapshot.cluster, snapshot.now)
                return msgspec.structs.replace(snapshot, vcpu_quotas=quotas)
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
        from core.lifecycle.claims import addresses_left  # most clusters have plenty

        full = refused_subnets(self._unavailable.refused(snapshot.now).avoided)
        addresses = addresses_left(manifests, claims, snapshot.now) | dict.fromkeys(sorted(full), 0)
        return msgspec.structs.replace(snapshot, subnet_addresses=addresses)

    def _whole(self, manifests: Sequence[JsonObject], claims: Iterable[ClaimRecord], now: datetime) -> Catalogue:
        return with_reservations(self._catalogues.catalogue(manifests), manifests, held_places(claims), now)

    def without_refusals(self, view: ClusterState) -> Snapshot:
        """Return the snapshot as if EC2 had refused and denied nothing. Raises PortError."""
        manifests = sorted(view.node_classes.values(), key=name_of)
        catalogue = self._whole(manifests, view.claims.values(), view.snapshot.now)
        return self.without_shifted_zones(msgspec.structs.replace(view.snapshot, catalogue=catalogue))


HOURS_READ_EVERY: Final = timedelta(minutes=5)
"""How often a quiet installation reads the hours of its NodePools; what they say is evaluated in each run."""


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
        self._hours: Snapshot | None = None
        self._forecast: tuple[Calendar, ...] = ()
        self._forecast_read_at: datetime | None = None

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
        """Whether anything but a pod requests room, so that there is something to plan: a buffer, a calendar, a request."""
        return self._reader.has_buffers() or self.keeps_warm() or self.awaits_requests()

    def awaits_requests(self) -> bool:
        """Whether a ProvisioningRequest waits for room, or for the end of its booking. Raises PortError."""
        return self._reader.awaits_requests()

    def keeps_warm(self) -> bool:
        """Whether a calendar keeps room now: NodePools and Calendars are read every few minutes. Raises PortError."""
        now = self._clock.now()
        if self._hours is None or now - self._hours.now >= HOURS_READ_EVERY:
            self._hours = self._assembled(self._reader.hours(), now, Catalogue())[0]
        hours = self._hours
        pools = (at(pool, hours.calendars, now) for pool in hours.node_pools if pool.hours is not None)
        return any(pool.hours is not None and pool.hours.warm and not pool.is_closed for pool in pools)

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
        reading = self._reader.without_pods()
        snapshot, problems = self._assembled(reading.by_kind, self._clock.now(), Catalogue())
        return ClusterState(
            snapshot=self._joined(snapshot, records, commands),
            claims=_by_claim(records),
            commands=commands,
            node_pools=reading.node_pools(),
            node_classes=reading.node_classes_by_name(),
            problems=(*reading.rejected, *problems),
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
        reading = self._reader.complete()
        node_classes = reading.by_kind[resources.EC2_NODE_CLASSES]
        now = self._clock.now()
        denials = self.open_market.denials(node_classes, now) if with_market else ()
        market = self.open_market.catalogue(node_classes, now, records) if with_market else Catalogue()
        snapshot, problems = self._assembled(reading.by_kind, now, without_denied(market, denials))
        if with_market:
            snapshot = self.open_market.without_shifted_zones(self.open_market.with_quotas(snapshot))
            snapshot = self.open_market.with_addresses(snapshot, node_classes, records)
        if self._user_data_problem is not None:
            snapshot = without_oversized_pools(snapshot, reading.node_classes_by_name(), self._user_data_problem)
        current = with_pod_events(records, snapshot.pods, now, self._stores.pod_ends.latest(now))
        return ClusterState(
            snapshot=self._joined(snapshot, current, commands),
            claims=_by_claim(records),
            displaced=displaced_pods(records, snapshot.pods),
            pod_events=tuple(
                (before, after) for before, after in zip(records, current, strict=True) if before is not after
            ),
            commands=commands,
            node_pools=reading.node_pools(),
            node_classes=reading.node_classes_by_name(),
            node_overlays=reading.node_overlays(),
            buffers=reading.by_kind.get(resources.CAPACITY_BUFFERS, ()),
            requests=reading.by_kind.get(resources.PROVISIONING_REQUESTS, ()),
            denials=denials,
            problems=(*reading.rejected, *problems),
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
            forecast=self._forecast_calendars(now),
        )

    def _forecast_calendars(self, now: datetime) -> tuple[Calendar, ...]:
        """Return the Calendars of the forecast, read every few minutes; if it cannot be read, the last ones."""
        if self._settings.forecast != ON:
            return ()
        if self._forecast_read_at is None or now - self._forecast_read_at >= HOURS_READ_EVERY:
            from core.forecast import calendars_of  # few installations keep room by forecasts

            with suppress(PortError):
                forecast = self._stores.forecasts.forecast()
                self._forecast = calendars_of(forecast) if forecast is not None else ()
                self._forecast_read_at = now
        return self._forecast

    def market(self) -> Snapshot:
        """Observe what NodePools may buy now, without the running cluster: enough to order a claim that was planned before.

        Raises:
            PortError: If the observation fails.
        """
        reading = self._reader.for_launches()
        now = self._clock.now()
        node_classes = reading.by_kind[resources.EC2_NODE_CLASSES]
        is_limited = any(
            selects_reservations(node_class) or has_address_reading(node_class) for node_class in node_classes
        )
        claims = self._stores.claims.all() if is_limited else ()
        catalogue = without_denied(
            self.open_market.catalogue(node_classes, now, claims), self.open_market.denials(node_classes, now)
        )
        snapshot, _ = self._assembled(reading.by_kind, now, catalogue)
        snapshot = self._with_spending(snapshot, claims if is_limited else None)
        return self.open_market.with_addresses(self.open_market.without_shifted_zones(snapshot), node_classes, claims)

    def _joined(
        self, snapshot: Snapshot, records: tuple[ClaimRecord, ...], commands: tuple[CommandRecord, ...]
    ) -> Snapshot:
        if self._settings.is_shadow:  # NodeClaims of the other provisioner are the facts, and its hashes show drift
            return snapshot
        history = self._stores.moves.readable(snapshot.now)
        return with_own_state(
            self._with_spending(snapshot, records),
            records,
            commands,
            nominated_until=self._stores.nominations.until(snapshot.now),
            moved_workloads=history.unsettled(snapshot.now),
            evicted_nodes=recently(history.evicted_nodes, snapshot.now),
        )

    def _with_spending(self, snapshot: Snapshot, records: Sequence[ClaimRecord] | None) -> Snapshot:
        """Add what caps have spent, and limit the NodePools to what is left; without records, these are read if one counts."""
        if not any(cap.periods for calendar in snapshot.calendars for cap in calendar.caps):
            return snapshot
        from core.lifecycle.metering import spending  # few clusters have caps of days or months

        records = self._stores.claims.all() if records is None else records
        spent = spending(snapshot.calendars, self._stores.claims.meters(), records, snapshot.now)
        return with_spending(msgspec.structs.replace(snapshot, spending=spent))


def _by_claim(records: Iterable[ClaimRecord]) -> dict[str, ClaimRecord]:
    return {record.name: record for record in sorted(records, key=lambda record: record.name)}
