"""Computes the status of an EC2NodeClass: what its selectors resolve to now, and whether nodes can be launched from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from core import api, labels
from core.ami_families.bootstrap import Cluster, registered_taints
from core.ami_families.registry import family_of
from core.api.objects import generation_of
from core.catalogue.discovered.address_reading import address_reading
from core.catalogue.kubelet import expressions
from core.catalogue.node_class import EC2NodeClass, read_node_class
from core.catalogue.sizing import sizing_of
from core.errors import InvalidInputError
from core.launch.block_devices import block_device_mappings
from core.launch.node_bootstrap import bootstrap_of
from core.launch.validation.launch_validation import LaunchValidation, written_validation
from core.model.node_pool import NodePool
from core.model.values.sizing_settings import SizingSettings
from lambdas.adapters.aws.eks import ClusterDescription, EksCluster
from lambdas.adapters.aws.node_class.ami import Images
from lambdas.adapters.aws.node_class.capacity_reservations import CapacityReservations
from lambdas.adapters.aws.node_class.instance_profile import InstanceProfiles
from lambdas.adapters.aws.node_class.network import NetworkSelection
from lambdas.adapters.aws.node_class.placement_groups import PlacementGroups
from lambdas.ports import Clock, DeniedError, JsonObject, NotFoundError

READY: Final = "Ready"
VALID: Final = "ValidationSucceeded"
LAUNCH_VALIDATION: Final = "launchValidation"
"""A member of the result that is not part of the status: the new value of annotation `labels.LAUNCH_VALIDATION`."""


Validate = Callable[[EC2NodeClass, JsonObject, Cluster, Sequence[NodePool]], LaunchValidation]
"""Returns EC2's answer about a resolved class, given twice, and its NodePools. Raises InvalidInputError, TransientError."""


class _Verdict(msgspec.Struct, frozen=True):
    """One condition: True without a reason, False with one."""

    reason: str = ""
    message: str = ""


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
            verdicts = {VALID: _Verdict("InvalidSpec", str(error))}
            return {"conditions": self._conditions(manifest, verdicts)}
        found: JsonObject = {}
        verdicts = self._selected(found, node_class, described, now)
        _split_addresses(found, node_class, described, now)
        verdicts["PlacementGroupReady"] = self._placed(found, node_class)
        verdicts[VALID] = _judged(manifest) or _validated(node_class, described, verdicts)
        found["capacityReservations"] = None  # with the gate off, the status does not list them
        if self._reservations is not None:
            verdicts["CapacityReservationsReady"] = _reserved(found, self._reservations, node_class, now)
        if is_validated and not verdicts[VALID].reason:
            verdicts[VALID] = self._asked({**manifest, "status": found}, found, node_pools)
        return {**found, "conditions": self._conditions(manifest, verdicts)}

    def _selected(
        self, found: JsonObject, node_class: EC2NodeClass, described: ClusterDescription, now: datetime
    ) -> dict[str, _Verdict]:
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

    def _placed(self, found: JsonObject, node_class: EC2NodeClass) -> _Verdict:
        """Resolve the placement group; a class that selects none is fine (Karpenter)."""
        selector = node_class.spec.placement_group_selector
        if selector is None:
            return _Verdict()
        try:
            found["placementGroup"] = self._placement_groups.resolve(selector)
        except NotFoundError as error:
            return _Verdict("PlacementGroupNotFound", str(error))
        except DeniedError as error:
            return _Verdict("PlacementGroupResolutionFailed", str(error))
        return _Verdict()

    def _ami_problem(self, node_class: EC2NodeClass, described: ClusterDescription) -> _Verdict | None:
        problem = family_of("", node_class.alias).why_not_published(described.version)
        return _Verdict("UnsupportedAlias", problem) if problem else None

    def _asked(self, resolved: JsonObject, found: JsonObject, node_pools: Sequence[NodePool]) -> _Verdict:
        """Validate the resolved class with EC2, and add its answer to the status."""
        try:
            node_class = read_node_class(resolved)
            answer = self._validate(node_class, resolved, self._cluster.describe().cluster, node_pools)
        except InvalidInputError as error:
            return _Verdict("InvalidConfiguration", str(error))
        found[LAUNCH_VALIDATION] = written_validation(answer)
        return _Verdict(answer.reason(), answer.explanation())

    def _conditions(self, manifest: JsonObject, verdicts: Mapping[str, _Verdict]) -> list[JsonObject]:
        """Return one condition for each verdict, and Ready; an unchanged condition keeps its time."""
        before = {c.get("type"): c for c in (manifest.get("status") or {}).get("conditions") or ()}
        bad = sorted(name for name, verdict in verdicts.items() if verdict.reason)
        root = _Verdict("UnhealthyDependents", f"{', '.join(bad)} is False") if bad else _Verdict()
        stamp = self._clock.now().isoformat().replace("+00:00", "Z")
        conditions: list[JsonObject] = []
        for name, verdict in sorted({**verdicts, READY: root}.items()):
            status = "False" if verdict.reason else "True"
            known = before.get(name) or {}
            is_same = known.get("status") == status and known.get("lastTransitionTime")
            conditions.append(
                {
                    "type": name,
                    "status": status,
                    "reason": verdict.reason or name,
                    "message": verdict.message,
                    "lastTransitionTime": known["lastTransitionTime"] if is_same else stamp,
                    "observedGeneration": generation_of(manifest),
                }
            )
        return conditions


def _resolve(found: JsonObject, field: str, missing: str, read: Callable[[], Any]) -> _Verdict:
    """Resolve one part and add it to the status; if nothing is found, the condition is False."""
    try:
        found[field] = read()
    except NotFoundError as error:
        return _Verdict(missing, str(error))
    except DeniedError as error:
        return _Verdict("NotAllowed", str(error))
    return _Verdict() if found[field] else _Verdict(missing, "the selector terms match nothing")


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
) -> _Verdict:
    """Resolve the reservations; none is fine (Karpenter). Those that have not begun are `upcomingReservations`."""
    found["capacityReservations"] = []
    try:
        resolved = reservations.resolve(node_class, now)
    except DeniedError as error:
        return _Verdict("NotAllowed", str(error))
    upcoming = [one for one in resolved if "startTime" in one]
    found["capacityReservations"] = [one for one in resolved if "startTime" not in one]
    if not upcoming:
        return _Verdict()
    from core.catalogue.discovered.upcoming_reservations import upcoming_message  # most clusters have booked none

    found["upcomingReservations"] = upcoming
    return _Verdict(message=upcoming_message(upcoming))


def _judged(manifest: JsonObject) -> _Verdict | None:
    """Apply the rules of our API, since the API server may have older or Karpenter's rules: plans exclude an invalid class."""
    named = {"apiVersion": f"{labels.AWS_GROUP}/v1", "kind": "EC2NodeClass", **manifest}
    found = api.problems(named)
    if not found:
        return None
    of_kubelet = all(problem.field.startswith("spec.kubelet") for problem in found)
    message = "; ".join(f"{problem.field}: {problem.message}" for problem in found)
    return _Verdict("InvalidKubeletConfiguration" if of_kubelet else "InvalidSpec", message)


def _validated(node_class: EC2NodeClass, described: ClusterDescription, verdicts: Mapping[str, _Verdict]) -> _Verdict:
    """Check that a launch can be rendered: an error here would fail the launch of every node."""
    family, computed = node_class.family, expressions(node_class.spec.kubelet)
    try:
        sizing_of(node_class, SizingSettings())
        block_device_mappings(node_class.spec.block_device_mappings, family)
        family.user_data(bootstrap_of(node_class, described.cluster, labels={}, taints=registered_taints(())))
    except InvalidInputError as error:
        needs_cidr = family.needs_service_cidr and not described.cluster.service_cidr
        return _Verdict("ClusterCIDRResolutionFailed" if needs_cidr else "InvalidConfiguration", str(error))
    if computed:
        problem = f"spec.kubelet: {', '.join(computed)} must be plain values, expressions are not evaluated"
        return _Verdict("KubeletExpressionsDisabled", problem)
    bad = sorted(name for name, verdict in verdicts.items() if verdict.reason)
    return _Verdict("DependenciesNotReady", f"{', '.join(bad)} is False") if bad else _Verdict()
