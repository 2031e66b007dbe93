"""Writes the status of every EC2NodeClass and NodePool: what the class resolves to, the pool's use, and conditions of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec

from adapters.brakes import Breakers
from adapters.observability import logger
from adapters.observation.observer import ClusterState, measured
from adapters.observation.stores import Stores
from adapters.ports import CatalogueStore, Clock, CloudProvider, JsonObject, Kubernetes, QuotaStore, ThrottledError
from adapters.run_report import RunReport
from core import labels
from core.api.objects import generation_of, mapping, name_of
from core.api.status import annotations_of, is_stale, readiness
from core.brakes import Action, EngagedBrakes
from core.breakers import Breaker
from core.catalogue.build import MarketFacts
from core.catalogue.free_addresses import lacks_addresses, written_reading
from core.catalogue.node_class import AddressReading, read_node_class
from core.catalogue.node_memory import SeenMemory, with_seen, written_group
from core.catalogue.reservations import selects_reservations, written_places, written_upcoming
from core.disruption.budgets import unreadable
from core.disruption.move_history import Rollout
from core.errors import InvalidInputError
from core.labels import HASH_VERSION
from core.launch.denials import LaunchDenial
from core.launch.validation import LaunchValidation, changed_fields, read_validation
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from core.model.node_pool import NodeClass, NodePool
from core.model.values import quantity
from core.model.values.quotas import QuotaReading
from core.pool_admission import short_quotas
from core.reasons.code import DecisionKind
from core.reasons.nodes import NodeReason
from core.reasons.runs import RunReason
from installation.metric_names import CHANGED_NODE_CLASSES
from lambdas.controllers.events import about_node_class, about_node_overlay, about_node_pool, normal, warning, write
from lambdas.controllers.status_writer import Present, StatusWriter, UnknownFields, condition, tolerate_gone

# Condition LaunchDenied of NodePools and EC2NodeClasses: what EC2 does not launch, why, and when it is retried.


LAUNCH_DENIED: Final = "LaunchDenied"
"""A condition for people only: Ready does not change, since a launch may succeed at any moment."""

_NOT_IN_REASONS: Final = re.compile("[^A-Za-z0-9_]+")
"""Kubernetes does not accept a dot in a condition's reason."""


def denied_launches(node_class: str, denials: Iterable[LaunchDenial]) -> JsonObject:
    """Return the condition for an EC2NodeClass and its NodePools. Denials that a person can resolve come first."""
    engaged = [denial for denial in denials if denial.node_class == node_class and denial.is_engaged]
    if not engaged:
        return condition(LAUNCH_DENIED, "False", reason="NotDenied")
    ordered = sorted(engaged, key=lambda denial: (denial.names_capacity(), denial.code))
    message = "; ".join(f"{denial.explanation()}{_again(denial)}" for denial in ordered)
    return condition(LAUNCH_DENIED, "True", message, reason=_NOT_IN_REASONS.sub("_", ordered[0].code).strip("_"))


def _again(denial: LaunchDenial) -> str:
    if denial.until is None:
        return ""
    return f" One launch retries after {denial.until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}."


# Finds how much memory the registered nodes of an EC2NodeClass have.


def seen_memory(node_class: str, view: ClusterState) -> Iterator[SeenMemory]:
    """Yield the memory of each registered node of the class.

    A node whose stopped instance was changed to another type is ignored: its memory is not that of the launched type.
    """
    nodes = {node.provider_id: node for node in view.snapshot.nodes if node.provider_id and not node.unreadable}
    for claim in view.claims.values():
        machine = claim.machine
        if machine is None or not claim.is_registered or claim.plan.node_class.name != node_class:
            continue
        node, launched = nodes.get(machine.provider_id), machine.offering.instance_type
        if node is not None and node.labels.get(labels.INSTANCE_TYPE, launched) == launched:
            yield SeenMemory(launched, machine.image_id, node.capacity.get(quantity.MEMORY, 0))


# Conditions of a NodePool that depend on itself, its EC2NodeClass and the brakes.


def pool_readiness(pool: NodePool, ready_classes: Mapping[str, bool | None]) -> list[JsonObject]:
    """Return ValidationSucceeded, NodeClassReady, and Ready, which is the worse of both.

    Args:
        pool: The NodePool.
        ready_classes: Name of an EC2NodeClass → whether it is ready; None before its first status.
    """
    name = pool.node_class.name
    class_ready = ready_classes.get(name)
    awaited = class_ready is None and name in ready_classes
    pool_conditions = [
        condition("ValidationSucceeded", "False" if pool.problem else "True", pool.problem),
        condition(
            "NodeClassReady",
            "True" if class_ready else "Unknown" if awaited else "False",
            "" if class_ready else f"EC2NodeClass {name!r} is missing or not ready",
        ),
    ]
    worst = next(
        (c for c in pool_conditions if c["status"] == "False"),
        next((c for c in pool_conditions if c["status"] != "True"), None),
    )
    return [
        *pool_conditions,
        condition("Ready", worst["status"] if worst else "True", worst["message"] if worst else ""),
    ]


def disruption_paused(pool: NodePool, brakes: EngagedBrakes) -> JsonObject:
    """Return whether a brake or an unreadable budget prevents voluntary disruption in the pool, with advice."""
    action_brakes = (brakes.stopping(action, pool.name) for action in (Action.DISRUPT, Action.EXPIRE, Action.REPAIR))
    brake = next((brake for brake in action_brakes if brake is not None), None)
    if brake is not None:
        return condition("DisruptionPaused", "True", brake.message, reason=brake.kind)
    if problem := unreadable(pool):
        return condition("DisruptionPaused", "True", problem, reason="InvalidBudget")
    return condition("DisruptionPaused", "False", reason="NoBrakeEngaged")


# Caches the last answer of a source, and reads it again when it is due.


READ_EVERY: Final = timedelta(minutes=5)
"""As often as the market and EC2's quotas are read from AWS."""

Reading = TypeVar("Reading")


class PeriodicReading(Generic[Reading]):
    """The last reading of one source.

    Attributes:
        latest: The last answer of the source; None before the first reading.
    """

    def __init__(self, clock: Clock) -> None:
        self.latest: Reading | None = None
        self._clock = clock
        self._read_at = datetime.min.replace(tzinfo=UTC)

    def refresh(self, source: Callable[[], Reading | None]) -> None:
        """Read the source again where that is due. Raises PortError."""
        now = self._clock.now()
        if now - self._read_at >= READ_EVERY:
            self.latest, self._read_at = source(), now


# Condition MarketStale of NodePools: whether prices or instance types were last read long ago, or never.


MARKET_STALE: Final = "MarketStale"
"""A condition for people only: plans use the last reading."""

_NEVER_READ: Final = "instance types and prices were never read, so nothing is launched"
_ADVICE: Final = "decision `NotRead` or the error in the log of refresh_catalogue names the call that fails; permit it"


class MarketCondition:
    """The condition, the same for every NodePool, by the last reading."""

    def __init__(self, catalogues: CatalogueStore, clock: Clock) -> None:
        self._catalogues = catalogues
        self._clock = clock
        self._facts: PeriodicReading[MarketFacts] = PeriodicReading(clock)

    def read(self) -> None:
        """Look up the last reading of the market again where that is due. Raises PortError."""
        self._facts.refresh(self._catalogues.facts)

    def current(self) -> JsonObject:
        """Return the condition; True where a part is stale or nothing was ever read, with what to do."""
        facts = self._facts.latest
        if facts is None:
            return condition(MARKET_STALE, "True", f"{_NEVER_READ}: {_ADVICE}", reason="NeverRead")
        stale = facts.stale_parts(self._clock.now())
        if not stale:
            return condition(MARKET_STALE, "False", reason="NotStale")
        message = f"{'; '.join(part.explanation for part in stale)}, and plans use these: {_ADVICE}"
        return condition(MARKET_STALE, "True", message, reason="And".join(part.name for part in stale) + "Stale")


# Condition QuotaShort of NodePools: which of EC2's vCPU quotas are nearly used up.


QUOTA_SHORT: Final = "QuotaShort"
"""A condition for people only: plans stay within quotas regardless."""


class QuotaConditions:
    """The condition of each NodePool, by the last reading."""

    def __init__(self, quotas: QuotaStore, clock: Clock) -> None:
        self._quotas = quotas
        self._clock = clock
        self._reading: PeriodicReading[QuotaReading] = PeriodicReading(clock)

    def read(self) -> None:
        """Read the quotas again where that is due. Raises PortError."""
        self._reading.refresh(self._quotas.reading)

    def of(self, pool: NodePool) -> JsonObject:
        """Return the condition of a NodePool; Unknown before the first reading."""
        reading = self._reading.latest
        if reading is None:
            return condition(QUOTA_SHORT, "Unknown", "EC2's quotas were not read yet", reason="NotRead")
        short = short_quotas(pool, reading, self._clock.now())
        if not short:
            return condition(QUOTA_SHORT, "False", reason="NotShort")
        return condition(QUOTA_SHORT, "True", "; ".join(short), reason="NearlyUsedUp")


# Condition NodeRegistrationHealthy of NodePools: whether the last few new nodes registered.


REGISTRATION: Final = "NodeRegistrationHealthy"
"""A condition for people only: neither Ready nor planning depends on it (Karpenter)."""


class RegistrationConditions:
    """The condition of each NodePool, by the breakers that `read` found."""

    def __init__(self, breakers: Breakers, clock: Clock) -> None:
        self._breakers = breakers
        self._clock = clock
        self._found: dict[str, Breaker] = {}

    def read(self) -> None:
        """Read the results of all NodePools. Raises PortError."""
        self._found = {breaker.node_pool: breaker for breaker in self._breakers.breakers()}

    def of(self, pool: NodePool, manifest: JsonObject, node_class: JsonObject | None) -> JsonObject:
        """Return the condition by launches since NodePool and EC2NodeClass changed (Karpenter).

        Results of other generations are dropped here, since only here generations are known. Raises PortError.
        """
        breaker = self._found.get(pool.name)
        if breaker is None:
            return condition(REGISTRATION, "Unknown", "no node was launched recently")
        generations = f"{generation_of(manifest)}/{generation_of(node_class or {})}"
        if breaker.generations != generations:
            self._breakers.renew(pool.name, generations, self._clock.now())
        current = breaker.at(generations)
        if current.registers is None:
            few = "too few nodes were launched since NodePool or EC2NodeClass changed"
            return condition(REGISTRATION, "Unknown", few)
        if current.registers:
            return condition(REGISTRATION, "True")
        message = f"{current.results.count(False)} of the last {len(current.results)} new nodes failed"
        last = f", the last: {current.message}" if current.message else ""
        return condition(REGISTRATION, "False", message + last, reason="RegistrationFailed")


# Condition RolloutStopped of NodePools: whether drifted nodes stay because their replacements do not become ready.


ROLLOUT_STOPPED: Final = "RolloutStopped"


def rollout_condition(rollout: Rollout, manifest: JsonObject, kubernetes: Kubernetes, now: datetime) -> JsonObject:
    """Return the condition of a NodePool; an event reports when the stop begins. Raises PortError."""
    if not rollout.is_stopped(now):
        return condition(ROLLOUT_STOPPED, "False", reason="NotStopped")
    message = f"drifted nodes stay until {rollout.stopped_until:%Y-%m-%dT%H:%M:%SZ}: {rollout.message}"
    present = (manifest.get("status") or {}).get("conditions") or ()
    if not any(c.get("type") == ROLLOUT_STOPPED and c.get("status") == "True" for c in present):
        event = warning(about_node_pool(manifest), NodeReason.ROLLOUT_STOPPED, message, now, identity=message)
        write(kubernetes, [event])
    return condition(ROLLOUT_STOPPED, "True", message, reason="ReplacementsNotReady")


# Writes status and annotations of NodePools and EC2NodeClasses, from their manifests as listed.


class UserObjects:
    """Writes only what differs from the manifest."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._statuses = StatusWriter(kubernetes, clock)

    def write_status(self, kind: Resource, manifest: JsonObject, status: JsonObject) -> bool:
        """Bring the status up to date; return whether it was not. Raises PortError."""
        return self._statuses.write(Present.of(kind, manifest), status)

    def annotate(self, kind: Resource, manifest: JsonObject, annotations: Mapping[str, str | None]) -> None:
        """Set annotations; None removes one. Raises PortError."""
        present = (manifest.get("metadata") or {}).get("annotations") or {}
        if all(present.get(key) == value for key, value in annotations.items()):
            return
        body = {"metadata": {"annotations": dict(annotations)}}
        tolerate_gone(lambda: self._kubernetes.patch(kind, name_of(manifest), body))


# Reports which fields of the launch template an edited EC2NodeClass changes, and EC2's answer about them.


_AGREED: Final = "EC2 would launch from it (DryRun)"


class ValidationEvents:
    """Writes an event and a decision if EC2 gave a new answer."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock

    def report(self, manifest: JsonObject, written: str, report: RunReport) -> None:
        """Report the answer `written` if it differs from the one in the class's annotation; a repeated denial is not news."""
        before = read_validation(annotations_of(manifest).get(labels.LAUNCH_VALIDATION, ""))
        now = read_validation(written)
        if now is None or not now.fields or (before is not None and _said(before) == _said(now)):
            return
        message, subject = _message(before, now), f"EC2NodeClass {name_of(manifest)}"
        kind, reason = (normal, RunReason.LAUNCH_VALIDATED) if now.agrees else (warning, RunReason.LAUNCH_NOT_VALIDATED)
        if now.agrees:
            logger.info(message, extra={"subject": subject})
        else:
            report.decide(DecisionKind.SKIP, subject, reason, message)
        about = about_node_class(manifest)
        write(self._kubernetes, [kind(about, reason, message, self._clock.now(), identity=message)])


def _said(answer: LaunchValidation) -> tuple[dict[str, str], str, str]:
    return answer.fields, answer.call, answer.code


def _message(before: LaunchValidation | None, now: LaunchValidation) -> str:
    fields = changed_fields(before.fields, now.fields) if before is not None else ()
    changed = f"launch template changed in {', '.join(fields)}: " if fields else ""
    return f"{changed}{now.explanation() or _AGREED}"


# Writes the status of EC2NodeClasses: what they resolve to, whether EC2 allows launches, and memory that nodes reported.


RESOLVE_EVERY: Final = timedelta(minutes=5)
"""How often a ready class is resolved again; images and subnets may change without an event (Karpenter)."""

RESOLVE_SCARCE_EVERY: Final = timedelta(minutes=1)
"""The same for a class with scarce capacity: reservations, which others use too and which end (Karpenter), or a subnet without
room for another node."""


THROTTLED_AGAIN: Final = (timedelta(seconds=5), timedelta(seconds=10), timedelta(seconds=10))
"""Waits of one round before classes that are not ready are resolved again while EC2 throttles: pods wait for them.

EC2's smallest buckets refill by a token a second, and what was resolved takes none again. The waits of all classes together
leave a round of two minutes its time.
"""


class NodeClassStatus:
    """Resolves a class if that is due, and records when."""

    def __init__(
        self,
        cloud: CloudProvider,
        objects: UserObjects,
        validations: ValidationEvents,
        clock: Clock,
        pause: Callable[[timedelta], None],
    ) -> None:
        self._cloud = cloud
        self._objects = objects
        self._validations = validations
        self._clock = clock
        self._pause = pause
        self._resolved: dict[tuple[str, int], datetime] = {}
        self._waits: Iterator[timedelta] = iter(())

    def begin_round(self) -> None:
        """Allow the waits of a round."""
        self._waits = iter(THROTTLED_AGAIN)

    def write(
        self,
        manifest: JsonObject,
        node_class: NodeClass,
        node_pools: list[NodePool],
        more: list[JsonObject],
        report: RunReport,
    ) -> bool | None:
        """Resolve and write the class of these NodePools, with `more` conditions; return whether it is ready now."""
        if node_class.problem:
            self._write_invalid(manifest, node_class, more, report)
            return False
        if readiness(manifest) and not self._is_due(manifest):
            self._objects.write_status(resources.EC2_NODE_CLASSES, manifest, {"conditions": more})
            return True
        status, places = _without_places(self._resolve(manifest, node_pools))
        validated = str(status.pop("launchValidation", ""))
        group = status.pop("placementGroup", None)
        upcoming = status.pop("upcomingReservations", ())
        addresses = _read_addresses(status.pop("subnetAddresses", None))
        status = {**status, "conditions": [*status.get("conditions", ()), *more]}
        self._resolved[_revision(manifest)] = self._clock.now()
        if self._objects.write_status(resources.EC2_NODE_CLASSES, manifest, status):
            report.count(CHANGED_NODE_CLASSES)
        free_before = _annotations(manifest).get(labels.SUBNET_ADDRESSES, "")
        stamped: dict[str, str | None] = {
            labels.NODECLASS_HASH: node_class.spec_hash,
            labels.NODECLASS_HASH_VERSION: HASH_VERSION,
            labels.RESERVATION_PLACES: written_places(places) if places else None,
            labels.UPCOMING_RESERVATIONS: written_upcoming(upcoming),
            labels.PLACEMENT_GROUP: None if group is None else written_group(group),
            labels.SUBNET_ADDRESSES: written_reading(addresses, free_before),
        }
        if validated:
            stamped[labels.LAUNCH_VALIDATION] = validated
            self._validations.report(manifest, validated, report)
        self._objects.annotate(resources.EC2_NODE_CLASSES, manifest, stamped)
        return readiness({"status": status})

    def _resolve(self, manifest: JsonObject, node_pools: list[NodePool]) -> JsonObject:
        """Resolve the class; a new, changed or unready one is tried again while EC2 throttles. Raises PortError."""
        while True:
            try:
                return self._cloud.resolve(manifest, node_pools)
            except ThrottledError:
                is_usable = readiness(manifest) and not is_stale(manifest)
                wait = None if is_usable else next(self._waits, None)
                if wait is None:
                    raise
                self._pause(wait)

    def keep_memory(self, manifest: JsonObject, view: ClusterState) -> None:
        """Store on the class how much memory its registered nodes have, if that is new."""
        try:
            written = with_seen(read_node_class(manifest), seen_memory(name_of(manifest), view))
        except InvalidInputError:
            return
        if written is not None:
            self._objects.annotate(resources.EC2_NODE_CLASSES, manifest, {labels.NODE_MEMORY: written})

    def _write_invalid(
        self, manifest: JsonObject, node_class: NodeClass, more: list[JsonObject], report: RunReport
    ) -> None:
        problem = node_class.problem
        report.count("invalidNodeClasses")
        report.decide(DecisionKind.SKIP, f"EC2NodeClass {node_class.name}", RunReason.VALIDATION_FAILED, problem)
        conditions = [condition(kind, "False", problem) for kind in ("ValidationSucceeded", "Ready")]
        self._objects.write_status(resources.EC2_NODE_CLASSES, manifest, {"conditions": [*conditions, *more]})
        # Other classes share the subnets, and nobody reads their addresses for this class any more.
        self._objects.annotate(resources.EC2_NODE_CLASSES, manifest, {labels.SUBNET_ADDRESSES: None})

    def _is_due(self, manifest: JsonObject) -> bool:
        last = self._resolved.get(_revision(manifest))
        is_scarce = selects_reservations(manifest) or lacks_addresses(_annotations(manifest))
        every = RESOLVE_SCARCE_EVERY if is_scarce else RESOLVE_EVERY
        return last is None or self._clock.now() >= last + every


def _revision(manifest: JsonObject) -> tuple[str, int]:
    return name_of(manifest), generation_of(manifest)


def _annotations(manifest: JsonObject) -> JsonObject:
    return mapping(mapping(manifest.get("metadata")).get("annotations"))


def _read_addresses(reading: JsonObject | None) -> AddressReading | None:
    return None if reading is None else msgspec.convert(reading, AddressReading)


def _without_places(status: JsonObject) -> tuple[JsonObject, dict[str, int]]:
    """Return the status in Karpenter's form, and the places of each reservation."""
    reservations = status.get("capacityReservations")
    if reservations is None:
        return status, {}
    entries = [{key: value for key, value in reservation.items() if key != "places"} for reservation in reservations]
    return {**status, "capacityReservations": entries}, {
        reservation["id"]: reservation["places"] for reservation in reservations
    }


Attempt = Callable[[str, Callable[[], object]], bool]


class Readings(msgspec.Struct, frozen=True):
    """The sources of conditions; a condition whose source could not be read stays unchanged.

    Attributes:
        denials: Denied launches; None if they could not be read.
        rollouts: NodePool → its rollout.
        registrations: Whether the breakers were read.
        market: Whether the market was read.
        quotas: Whether the quotas were read.
    """

    denials: tuple[LaunchDenial, ...] | None
    rollouts: Mapping[str, Rollout]
    registrations: bool
    market: bool
    quotas: bool

    def launches(self, node_class: str) -> list[JsonObject]:
        """Return the condition of a class's launches; none if denials could not be read."""
        return [] if self.denials is None else [denied_launches(node_class, self.denials)]


class ObjectStatus:
    """Writes a status only if it differs from the present one."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        cloud: CloudProvider,
        stores: Stores,
        catalogues: CatalogueStore,
        clock: Clock,
        pause: Callable[[timedelta], None],
    ) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud
        self._stores = stores
        self._clock = clock
        self._market = MarketCondition(catalogues, clock)
        self._quotas = QuotaConditions(stores.quotas, clock)
        self._registrations = RegistrationConditions(stores.breakers, clock)
        self._objects = UserObjects(kubernetes, clock)
        self._classes = NodeClassStatus(cloud, self._objects, ValidationEvents(kubernetes, clock), clock, pause)
        self._unknown_fields = UnknownFields(kubernetes, clock)

    def write(self, view: ClusterState, report: RunReport, attempt: Attempt) -> None:
        """Bring the status of every class, then of every pool and overlay, up to date.

        Args:
            view: The observation.
            report: Collects the decisions.
            attempt: Runs a piece of work under its subject, so that a failure does not affect the others; returns whether it
                succeeded.
        """
        node_classes = {node_class.name: node_class for node_class in view.snapshot.node_classes}
        pools = {pool.name: pool for pool in view.snapshot.node_pools}
        ready = {name: readiness(manifest) for name, manifest in view.node_classes.items()}
        readings = self._read(attempt)
        self._classes.begin_round()

        def write_class(name: str, manifest: JsonObject) -> None:
            self._classes.keep_memory(manifest, view)
            class_pools = [pool for pool in pools.values() if pool.node_class.name == name]
            fields = self._unknown_fields.condition(manifest, about_node_class(manifest), report)
            more = [*readings.launches(name), *fields]
            ready[name] = self._classes.write(manifest, node_classes[name], class_pools, more, report)

        def write_pool(name: str, manifest: JsonObject) -> None:
            pool = measured(pools[name], view.node_classes, self._cloud.user_data_problem)
            more = self._pool_conditions(pool, manifest, view, readings)
            more += self._unknown_fields.condition(manifest, about_node_pool(manifest), report)
            self._write_pool(manifest, pool, [*pool_readiness(pool, ready), *more], view, report)

        def write_overlay(manifest: JsonObject) -> None:
            fields = self._unknown_fields.condition(manifest, about_node_overlay(manifest), report)
            if fields:
                self._objects.write_status(resources.NODE_OVERLAYS, manifest, {"conditions": fields})

        for name, manifest in view.node_classes.items():
            attempt(f"EC2NodeClass {name}", partial(write_class, name, manifest))
        for name, manifest in view.node_pools.items():
            attempt(f"NodePool {name}", partial(write_pool, name, manifest))
        for name, manifest in view.node_overlays.items():
            attempt(f"NodeOverlay {name}", partial(write_overlay, manifest))

    def _read(self, attempt: Attempt) -> Readings:
        denials = list[LaunchDenial]()
        are_denials_read = attempt("denials", lambda: denials.extend(self._stores.denials.all()))
        registrations = attempt("breakers", self._registrations.read)
        rollouts = dict[str, Rollout]()
        attempt("rollouts", lambda: rollouts.update(self._stores.moves.read(self._clock.now()).rollouts))
        return Readings(
            denials=tuple(denials) if are_denials_read else None,
            rollouts=rollouts,
            registrations=registrations,
            market=attempt("market", self._market.read),
            quotas=attempt("quotas", self._quotas.read),
        )

    def _pool_conditions(
        self, pool: NodePool, manifest: JsonObject, view: ClusterState, readings: Readings
    ) -> list[JsonObject]:
        """Return the conditions about the NodePool's nodes and launches."""
        rows = list[JsonObject]()
        if readings.registrations:
            node_class = view.node_classes.get(pool.node_class.name)
            rows.append(self._registrations.of(pool, manifest, node_class))
        if rollout := readings.rollouts.get(pool.name):
            rows.append(rollout_condition(rollout, manifest, self._kubernetes, self._clock.now()))
        rows += readings.launches(pool.node_class.name)
        if readings.market:
            rows.append(self._market.current())
        if readings.quotas:
            rows.append(self._quotas.of(pool))
        return rows

    def _write_pool(
        self, manifest: JsonObject, pool: NodePool, conditions: list[JsonObject], view: ClusterState, report: RunReport
    ) -> None:
        if pool.problem:
            report.count("invalidNodePools")
            report.decide(DecisionKind.SKIP, f"NodePool {pool.name}", RunReason.VALIDATION_FAILED, pool.problem)
        used = _used(pool, view.claims.values())
        status = {
            "resources": quantity.render_resources(used),
            "nodes": used["nodes"],
            "conditions": [*conditions, disruption_paused(pool, self._stores.brakes.engaged())],
        }
        self._objects.write_status(resources.NODE_POOLS, manifest, status)
        if pool.template_hash:
            hashes = {labels.NODEPOOL_HASH: pool.template_hash, labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
            self._objects.annotate(resources.NODE_POOLS, manifest, hashes)


def _used(pool: NodePool, claims: Iterable[ClaimRecord]) -> quantity.Resources:
    """Return the capacity of the NodePool's nodes that stay, and their number."""
    pool_claims = [claim for claim in claims if claim.plan.node_pool == pool.name and claim.deletion is None]
    capacities = [claim.machine.capacity for claim in pool_claims if claim.machine is not None]
    return quantity.add(*capacities, {"nodes": len(capacities)})
