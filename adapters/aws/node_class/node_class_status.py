"""Computes the status of an EC2NodeClass: what its selectors resolve to now, and whether nodes can be launched from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from adapters.aws.eks import ClusterDescription, EksCluster
from adapters.aws.node_class.ami import Images
from adapters.aws.node_class.capacity_reservations import CapacityReservations
from adapters.aws.node_class.instance_profile import InstanceProfiles
from adapters.aws.node_class.network import NetworkSelection
from adapters.aws.node_class.node_class_conditions import (
    VALID,
    ClassCondition,
    rendering_problem,
    rules_problem,
    written_conditions,
)
from adapters.aws.node_class.placement_groups import PlacementGroups
from adapters.ports import Clock, DeniedError, JsonObject, NotFoundError
from core.ami_families.bootstrap import Cluster
from core.ami_families.registry import family_of
from core.catalogue.discovered.address_reading import address_reading
from core.catalogue.node_class import EC2NodeClass, read_node_class
from core.errors import InvalidInputError
from core.launch.validation.launch_validation import LaunchValidation, written_validation
from core.model.node_pool import NodePool

LAUNCH_VALIDATION: Final = "launchValidation"
"""A member of the result that is not part of the status: the new value of annotation `labels.LAUNCH_VALIDATION`."""


Validate = Callable[[EC2NodeClass, JsonObject, Cluster, Sequence[NodePool]], LaunchValidation]
"""Returns EC2's answer about a resolved class, given twice, and its NodePools. Raises InvalidInputError, TransientError."""


class NodeClassResolver:
    """Resolves classes."""

    def __init__(
        self,
        cluster: EksCluster,
        network: NetworkSelection,
        images: Images,
        profiles: InstanceProfiles,
        placement_groups: PlacementGroups,
        reservations: CapacityReservations | None,
        validate: Validate,
        clock: Clock,
    ) -> None:
        """`reservations` is None if the feature gate ReservedCapacity is off; `validate` asks EC2 about a resolved class."""
        self._validate = validate
        self._cluster = cluster
        self._network = network
        self._images = images
        self._profiles = profiles
        self._placement_groups = placement_groups
        self._reservations = reservations
        self._clock = clock

    def resolve(
        self, manifest: JsonObject, node_pools: Sequence[NodePool] = (), *, is_validated: bool = True
    ) -> JsonObject:
        """Return the whole status, with the `places` of each capacity reservation and EC2's answer as `launchValidation`.

        If the class selects a placement group, it is `placementGroup`; subnets with few addresses are `subnetAddresses`, and
        capacity reservations that have not begun are `upcomingReservations`.

        A part that AWS denies or does not find makes its condition False.

        Args:
            manifest: The class.
            node_pools: The NodePools of the class, which determine what may be launched from it.
            is_validated: Whether to validate launches with EC2.

        Raises:
            TransientError: If AWS cannot answer now; the current status stays valid.
        """
        now = self._clock.now()
        try:
            node_class = read_node_class(manifest)
            described = self._cluster.describe()
        except InvalidInputError as error:
            by_type = {VALID: ClassCondition("InvalidSpec", str(error))}
            return {"conditions": written_conditions(manifest, by_type, self._clock.now())}
        found: JsonObject = {}
        by_type = self._selected(found, node_class, described, now)
        _split_addresses(found, node_class, described, now)
        by_type["PlacementGroupReady"] = self._placed(found, node_class)
        by_type[VALID] = rules_problem(manifest) or rendering_problem(node_class, described, by_type)
        found["capacityReservations"] = None  # with the gate off, the status does not list them
        if self._reservations is not None:
            by_type["CapacityReservationsReady"] = _reserved(found, self._reservations, node_class, now)
        if is_validated and not by_type[VALID].reason:
            by_type[VALID] = self._asked({**manifest, "status": found}, found, node_pools)
        return {**found, "conditions": written_conditions(manifest, by_type, self._clock.now())}

    def _selected(
        self, found: JsonObject, node_class: EC2NodeClass, described: ClusterDescription, now: datetime
    ) -> dict[str, ClassCondition]:
        """Resolve the parts that every launch needs, add them to the status, and return the condition of each."""
        spec = node_class.spec
        return {
            "AMIsReady": self._ami_problem(node_class, described)
            or _resolve(
                found,
                "amis",
                "AMINotFound",
                lambda: self._images.resolve(spec.ami_selector_terms, described.version, now),
            ),
            "SubnetsReady": _resolve(
                found, "subnets", "SubnetsNotFound", lambda: self._network.subnets(spec.subnet_selector_terms)
            ),
            "SecurityGroupsReady": _resolve(
                found,
                "securityGroups",
                "SecurityGroupsNotFound",
                lambda: self._network.security_groups(spec.security_group_selector_terms),
            ),
            "InstanceProfileReady": _resolve(
                found, "instanceProfile", "InstanceProfileNotFound", lambda: self._profiles.resolve(node_class)
            ),
        }

    def _placed(self, found: JsonObject, node_class: EC2NodeClass) -> ClassCondition:
        """Resolve the placement group; a class that selects none is fine (Karpenter)."""
        selector = node_class.spec.placement_group_selector
        if selector is None:
            return ClassCondition()
        try:
            found["placementGroup"] = self._placement_groups.resolve(selector)
        except NotFoundError as error:
            return ClassCondition("PlacementGroupNotFound", str(error))
        except DeniedError as error:
            return ClassCondition("PlacementGroupResolutionFailed", str(error))
        return ClassCondition()

    def _ami_problem(self, node_class: EC2NodeClass, described: ClusterDescription) -> ClassCondition | None:
        problem = family_of("", node_class.alias).why_not_published(described.version)
        return ClassCondition("UnsupportedAlias", problem) if problem else None

    def _asked(self, resolved: JsonObject, found: JsonObject, node_pools: Sequence[NodePool]) -> ClassCondition:
        """Validate the resolved class with EC2, and add its answer to the status."""
        try:
            node_class = read_node_class(resolved)
            answer = self._validate(node_class, resolved, self._cluster.describe().cluster, node_pools)
        except InvalidInputError as error:
            return ClassCondition("InvalidConfiguration", str(error))
        found[LAUNCH_VALIDATION] = written_validation(answer)
        return ClassCondition(answer.reason(), answer.explanation())


def _resolve(found: JsonObject, field: str, missing: str, read: Callable[[], Any]) -> ClassCondition:
    """Resolve one part and add it to the status; if nothing is found, the condition is False."""
    try:
        found[field] = read()
    except NotFoundError as error:
        return ClassCondition(missing, str(error))
    except DeniedError as error:
        return ClassCondition("NotAllowed", str(error))
    return ClassCondition() if found[field] else ClassCondition(missing, "the selector terms match nothing")


def _split_addresses(found: JsonObject, node_class: EC2NodeClass, described: ClusterDescription, now: datetime) -> None:
    """Move the free addresses out of `subnets`, whose form is Karpenter's."""
    subnets = found.get("subnets") or []
    known = {str(subnet["id"]): subnet.pop("free") for subnet in subnets}
    free = {subnet: int(count) for subnet, count in known.items() if count is not None}
    reading = address_reading(node_class, free, is_ipv6=described.cluster.is_ipv6, read_at=now)
    if reading is not None:
        found["subnetAddresses"] = msgspec.to_builtins(reading)


def _reserved(
    found: JsonObject, reservations: CapacityReservations, node_class: EC2NodeClass, now: datetime
) -> ClassCondition:
    """Resolve the reservations; none is fine (Karpenter). Those that have not begun are `upcomingReservations`."""
    found["capacityReservations"] = []
    try:
        resolved = reservations.resolve(node_class, now)
    except DeniedError as error:
        return ClassCondition("NotAllowed", str(error))
    upcoming = [one for one in resolved if "startTime" in one]
    found["capacityReservations"] = [one for one in resolved if "startTime" not in one]
    if not upcoming:
        return ClassCondition()
    from core.catalogue.discovered.upcoming_reservations import upcoming_message  # most clusters have booked none

    found["upcomingReservations"] = upcoming
    return ClassCondition(message=upcoming_message(upcoming))
