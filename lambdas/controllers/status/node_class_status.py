"""Writes the status of EC2NodeClasses: what they resolve to, whether EC2 allows launches, and memory that nodes reported."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.ports import Clock, CloudProvider, JsonObject
from adapters.run_report import RunReport
from core import labels
from core.api.objects import generation_of, mapping, name_of
from core.api.status import readiness
from core.catalogue.discovered.address_reading import lacks_addresses, written_reading
from core.catalogue.discovered.node_memory import with_seen
from core.catalogue.discovered.placement_group import written_group
from core.catalogue.discovered.upcoming_reservations import written_upcoming
from core.catalogue.node_class import AddressReading, read_node_class
from core.catalogue.reservations import selects_reservations, written_places
from core.errors import InvalidInputError
from core.labels import HASH_VERSION
from core.manifests.wire import api_resources as kinds
from core.model.node_pool import NodeClass, NodePool
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason
from installation.metric_names import CHANGED_NODE_CLASSES
from lambdas.controllers.status.node_memory import seen_memory
from lambdas.controllers.status.status_writer import condition
from lambdas.controllers.status.user_objects import UserObjects
from lambdas.controllers.status.validation_events import ValidationEvents

RESOLVE_EVERY: Final = timedelta(minutes=5)
"""How often a ready class is resolved again; images and subnets may change without an event (Karpenter)."""

RESOLVE_SCARCE_EVERY: Final = timedelta(minutes=1)
"""The same for a class with scarce capacity: reservations, which others use too and which end (Karpenter), or a subnet without
room for another node."""


class NodeClassStatus:
    """Resolves a class if that is due, and records when."""

    def __init__(self, cloud: CloudProvider, objects: UserObjects, validations: ValidationEvents, clock: Clock) -> None:
        self._cloud = cloud
        self._objects = objects
        self._validations = validations
        self._clock = clock
        self._resolved: dict[tuple[str, int], datetime] = {}

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
            self._objects.write_status(kinds.EC2_NODE_CLASSES, manifest, {"conditions": more})
            return True
        status, places = _without_places(self._cloud.resolve(manifest, node_pools))
        validated = str(status.pop("launchValidation", ""))
        group = status.pop("placementGroup", None)
        upcoming = status.pop("upcomingReservations", ())
        addresses = _read_addresses(status.pop("subnetAddresses", None))
        status = {**status, "conditions": [*status.get("conditions", ()), *more]}
        self._resolved[_revision(manifest)] = self._clock.now()
        if self._objects.write_status(kinds.EC2_NODE_CLASSES, manifest, status):
            report.count(CHANGED_NODE_CLASSES)
        free_before = _annotations(manifest).get(labels.SUBNET_ADDRESSES, "")
        own: dict[str, str | None] = {
            labels.NODECLASS_HASH: node_class.spec_hash,
            labels.NODECLASS_HASH_VERSION: HASH_VERSION,
            labels.RESERVATION_PLACES: written_places(places) if places else None,
            labels.UPCOMING_RESERVATIONS: written_upcoming(upcoming),
            labels.PLACEMENT_GROUP: None if group is None else written_group(group),
            labels.SUBNET_ADDRESSES: written_reading(addresses, free_before),
        }
        if validated:
            own[labels.LAUNCH_VALIDATION] = validated
            self._validations.report(manifest, validated, report)
        self._objects.annotate(kinds.EC2_NODE_CLASSES, manifest, own)
        return readiness({"status": status})

    def keep_memory(self, manifest: JsonObject, view: ClusterState) -> None:
        """Store on the class how much memory its registered nodes have, if that is new."""
        try:
            written = with_seen(read_node_class(manifest), seen_memory(name_of(manifest), view))
        except InvalidInputError:
            return
        if written is not None:
            self._objects.annotate(kinds.EC2_NODE_CLASSES, manifest, {labels.NODE_MEMORY: written})

    def _write_invalid(
        self, manifest: JsonObject, node_class: NodeClass, more: list[JsonObject], report: RunReport
    ) -> None:
        problem = node_class.problem
        report.count("invalidNodeClasses")
        report.decide(DecisionKind.SKIP, f"EC2NodeClass {node_class.name}", RunReason.VALIDATION_FAILED, problem)
        conditions = [condition(kind, "False", problem) for kind in ("ValidationSucceeded", "Ready")]
        self._objects.write_status(kinds.EC2_NODE_CLASSES, manifest, {"conditions": [*conditions, *more]})
        # Other classes share the subnets, and nobody reads their addresses for this class any more.
        self._objects.annotate(kinds.EC2_NODE_CLASSES, manifest, {labels.SUBNET_ADDRESSES: None})

    def _is_due(self, manifest: JsonObject) -> bool:
        last = self._resolved.get(_revision(manifest))
        is_scarce = selects_reservations(manifest) or lacks_addresses(_annotations(manifest))
        every = RESOLVE_SCARCE_EVERY if is_scarce else RESOLVE_EVERY
        return last is None or self._clock.now() >= last + every


def _revision(manifest: JsonObject) -> tuple[str, int]:
    return name_of(manifest), generation_of(manifest)


def _annotations(manifest: JsonObject) -> JsonObject:
    return mapping(mapping(manifest.get("metadata")).get("annotations"))


def _read_addresses(found: JsonObject | None) -> AddressReading | None:
    return None if found is None else msgspec.convert(found, AddressReading)


def _without_places(status: JsonObject) -> tuple[JsonObject, dict[str, int]]:
    """Return the status in Karpenter's form, and the places of each reservation."""
    found = status.get("capacityReservations")
    if found is None:
        return status, {}
    entries = [{key: value for key, value in one.items() if key != "places"} for one in found]
    return {**status, "capacityReservations": entries}, {one["id"]: one["places"] for one in found}
