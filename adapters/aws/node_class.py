"""Computes the status of an EC2NodeClass: what its selectors resolve to now, and whether nodes can be launched from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from adapters.aws.instance_profiles import InstanceProfiles
from adapters.aws.services import AwsService, ClusterDescription, EksCluster
from adapters.ports import Clock, DeniedError, JsonObject, NotFoundError
from core import api, labels
from core.ami_families.family import Cluster
from core.ami_families.registry import family_of
from core.api.objects import generation_of
from core.catalogue.document import ARCHITECTURES
from core.catalogue.free_addresses import address_reading
from core.catalogue.kubelet import expressions
from core.catalogue.node_class import (
    ACTIVE,
    CAPACITY_BLOCK,
    DEFAULT_RESERVATION,
    EXPIRING,
    UPCOMING,
    CapacityReservation,
    EC2NodeClass,
    PlacementGroupSelector,
    ReservationTerm,
    SelectorTerm,
    read_node_class,
)
from core.catalogue.reservations import leaves_at
from core.errors import InvalidInputError
from core.launch.template import SHARED
from core.launch.validation import LaunchValidation, first_certain, launch_problems, written_validation
from core.model.node_pool import NodePool

# Selects the subnets and security groups of an EC2NodeClass.


class NetworkSelection:
    """Looks up networks by the terms of a class."""

    def __init__(self, ec2: AwsService) -> None:
        self._ec2 = ec2

    def subnets(self, terms: Iterable[SelectorTerm]) -> list[JsonObject]:
        """Return `status.subnets`, each with its free IPv4 addresses as `free` (None: unknown); most first, ties by id.

        Raises PortError.
        """
        by_id: dict[str, Any] = {}
        for filters in term_filters(terms, id_filter="subnet-id"):
            for subnet in self._ec2.items("DescribeSubnets", "Subnets", Filters=filters, MaxResults=500):
                by_id[subnet["SubnetId"]] = subnet
        entries = [
            {
                "id": subnet["SubnetId"],
                "zone": subnet["AvailabilityZone"],
                "zoneID": subnet.get("AvailabilityZoneId", ""),
                "free": None if subnet.get("Ipv6Native") else subnet.get("AvailableIpAddressCount"),
            }
            for subnet in by_id.values()
        ]
        return sorted(entries, key=lambda entry: (-(entry["free"] or 0), entry["id"]))

    def security_groups(self, terms: Iterable[SelectorTerm]) -> list[JsonObject]:
        """Return `status.securityGroups`, by id. Raises PortError."""
        groups: dict[str, str] = {}
        for filters in term_filters(terms, id_filter="group-id", name_filter="group-name"):
            for group in self._ec2.items("DescribeSecurityGroups", "SecurityGroups", Filters=filters, MaxResults=500):
                groups[group["GroupId"]] = group.get("GroupName", "")
        return [{"id": group, "name": groups[group]} for group in sorted(groups)]


def term_filters(
    terms: Iterable[SelectorTerm], *, id_filter: str, name_filter: str = ""
) -> Iterator[list[dict[str, Any]]]:
    """Return one set of filters for each query: all ids together, all names together, each set of tags alone.

    Within a term an id wins over a name, and a name over tags (Karpenter).
    """
    all_terms = list(terms)
    ids = sorted({term.id for term in all_terms if term.id})
    if ids:
        yield [{"Name": id_filter, "Values": ids}]
    names = sorted({term.name for term in all_terms if name_filter and term.name and not term.id})
    if names:
        yield [{"Name": name_filter, "Values": names}]
    for term in all_terms:
        if term.tags and not term.id and not (name_filter and term.name):
            yield tag_filters(term.tags)


def tag_filters(tags: dict[str, str]) -> list[dict[str, Any]]:
    """Return filters for all of these tags; the value `*` matches any value of the key."""
    return [
        {"Name": "tag-key", "Values": [key]} if tags[key] == "*" else {"Name": f"tag:{key}", "Values": [tags[key]]}
        for key in sorted(tags)
    ]


# Selects the machine images of an EC2NodeClass: by alias, id, SSM parameter, name, owner or tags.


_NAMES_PER_CALL: Final = 10
_DEFAULT_OWNERS: Final = ("amazon", "self")


class Images:
    """Looks up images by the terms of a class."""

    def __init__(self, ec2: AwsService, ssm: AwsService) -> None:
        self._ec2 = ec2
        self._ssm = ssm

    def resolve(self, terms: Sequence[SelectorTerm], kubernetes_version: str, now: datetime) -> list[JsonObject]:
        """Return `status.amis`: for each set of requirements the best image, newest first. Raises PortError."""
        candidates = [
            (image, [*variant, *_architecture(image)])
            for image, variants in self._matching(terms, kubernetes_version)
            for variant in variants
            if image.get("Architecture") in ARCHITECTURES
        ]
        best: dict[str, tuple[JsonObject, list[JsonObject]]] = {}
        for image, requirements in candidates:
            ordered = sorted(requirements, key=lambda r: (len(r["key"]), r["key"]))
            newest = best.get(repr(ordered))
            if newest is None or _rank(image, now) > _rank(newest[0], now):
                best[repr(ordered)] = (image, ordered)
        newest_first = sorted(best.values(), key=lambda pair: repr(pair[1]))
        newest_first.sort(key=lambda pair: pair[0]["ImageId"])
        newest_first.sort(key=lambda pair: str(pair[0].get("CreationDate", "")), reverse=True)
        return [_status(image, requirements, now) for image, requirements in newest_first]

    def _matching(
        self, terms: Sequence[SelectorTerm], kubernetes_version: str
    ) -> Iterator[tuple[JsonObject, Sequence[Sequence[JsonObject]]]]:
        for term in terms:
            if term.alias:
                yield from self._by_alias(term.alias, kubernetes_version)
        parameters = sorted({term.ssm_parameter for term in terms if term.ssm_parameter})
        ids = {value for value in self._values(parameters).values() if value.startswith("ami-")}
        ids |= {term.id for term in terms if term.id}
        yield from (
            (image, [[]]) for image in self._images([{"Name": "image-id", "Values": sorted(ids)}] if ids else [])
        )
        for term in terms:
            if not (term.alias or term.id or term.ssm_parameter):
                yield from ((image, [[]]) for image in self._by_description(term))

    def _by_alias(
        self, alias: str, kubernetes_version: str
    ) -> Iterator[tuple[JsonObject, Sequence[Sequence[JsonObject]]]]:
        parameters = family_of("", alias).images(kubernetes_version, alias.partition("@")[2])
        values = self._values([parameter.path for parameter in parameters])
        images = {i["ImageId"]: i for i in self._images([{"Name": "image-id", "Values": sorted(set(values.values()))}])}
        for parameter in parameters:
            image = images.get(values.get(parameter.path, ""))
            if image is not None:
                yield image, parameter.serves

    def _by_description(self, term: SelectorTerm) -> Iterable[JsonObject]:
        filters = tag_filters(term.tags)
        if term.name:
            filters.append({"Name": "name", "Values": [term.name]})
        owners = [term.owner] if term.owner else list(_DEFAULT_OWNERS) if term.name else []
        return self._images(filters, owners) if filters or owners else ()

    def _images(self, filters: list[dict[str, Any]], owners: Sequence[str] = ()) -> Iterator[JsonObject]:
        if any(not wanted["Values"] for wanted in filters) or not (filters or owners):
            return
        more: JsonObject = {"Owners": list(owners)} if owners else {}
        available = {"Name": "state", "Values": ["available"]}
        yield from self._ec2.items(
            "DescribeImages", "Images", Filters=[*filters, available], IncludeDeprecated=True, MaxResults=1000, **more
        )

    def _values(self, names: Sequence[str]) -> dict[str, str]:
        """Return parameter → image id; missing parameters are left out, since not every variant is published everywhere."""
        values: dict[str, str] = {}
        for start in range(0, len(names), _NAMES_PER_CALL):
            answer = self._ssm.call("GetParameters", Names=list(names[start : start + _NAMES_PER_CALL]))
            values |= {parameter["Name"]: parameter["Value"] for parameter in answer.get("Parameters", ())}
        return values


def _architecture(image: JsonObject) -> list[JsonObject]:
    return [{"key": labels.ARCH, "operator": "In", "values": [ARCHITECTURES[image["Architecture"]]]}]


def _rank(image: JsonObject, now: datetime) -> tuple[bool, str, str]:
    """Rank by not deprecated, then newer, then the larger name (Karpenter)."""
    return not _is_deprecated(image, now), str(image.get("CreationDate", "")), str(image.get("Name", ""))


def _is_deprecated(image: JsonObject, now: datetime) -> bool:
    text = image.get("DeprecationTime")
    return bool(text) and datetime.fromisoformat(str(text)) <= now


def _status(image: JsonObject, requirements: list[JsonObject], now: datetime) -> JsonObject:
    deprecated = {"deprecated": True} if _is_deprecated(image, now) else {}
    return {"id": image["ImageId"], "name": image.get("Name", ""), "requirements": requirements, **deprecated}


# Finds the capacity reservations of an EC2NodeClass: EC2's On-Demand Capacity Reservations and Capacity Blocks.


_PAGE: Final = 1000
_KINDS: Final = (DEFAULT_RESERVATION, CAPACITY_BLOCK)
_CRITERIA: Final = ("open", "targeted")
_LINUX: Final = "Linux/UNIX"
_WINDOWS: Final = "Windows"
_SIZE_TAG: Final = "aws:ec2capacityreservation:incrementalRequestedQuantity"


class CapacityReservations:
    """Looks up reservations by the terms of a class.

    Args:
        ec2: The client.
        own_instances: Reservation ids → how many living instances of ours each holds.
    """

    def __init__(self, ec2: AwsService, own_instances: Callable[[Sequence[str]], Mapping[str, int]]) -> None:
        self._ec2 = ec2
        self._own_instances = own_instances

    def resolve(self, node_class: EC2NodeClass, now: datetime) -> list[JsonObject]:
        """Return `status.capacityReservations`, by id, each with an additional `places`. Raises PortError.

        Those that have not begun have EC2's state and an additional `startTime`. It excludes ended and dedicated ones, and
        those that the class's images cannot be launched into.
        """
        by_id: dict[str, JsonObject] = {}
        for described in self._matching(node_class.spec.capacity_reservation_selector_terms):
            if _is_usable(described, node_class, now):
                by_id[described["CapacityReservationId"]] = described
        own_instances = self._own_instances(sorted(by_id)) if by_id else {}
        return [
            {**_entry(by_id[identity], now), "places": _places(by_id[identity], own_instances[identity])}
            for identity in sorted(by_id)
        ]

    def _matching(self, terms: Sequence[ReservationTerm]) -> Iterator[JsonObject]:
        ids = sorted({term.id for term in terms if term.id})
        yield from self._by_id(ids)
        for term in terms:
            if not term.id:
                yield from self._ec2.items(
                    "DescribeCapacityReservations", "CapacityReservations", Filters=_filters(term), MaxResults=_PAGE
                )

    def _by_id(self, ids: Sequence[str]) -> Iterable[JsonObject]:
        """Return the reservations with these ids.

        EC2 refuses a whole call for one unknown id; then each id is requested alone.
        """
        if not ids:
            return ()
        try:
            return list(
                self._ec2.items(
                    "DescribeCapacityReservations",
                    "CapacityReservations",
                    CapacityReservationIds=list(ids),
                )
            )
        except NotFoundError:
            if len(ids) == 1:
                return ()
            return [described for identity in ids for described in self._by_id([identity])]


def _filters(term: ReservationTerm) -> list[JsonObject]:
    named = {
        "owner-id": term.owner_id,
        "instance-match-criteria": term.instance_match_criteria,
    }
    filters: list[JsonObject] = [{"Name": name, "Values": [value]} for name, value in named.items() if value]
    return [*filters, *tag_filters(term.tags)]


def _is_usable(described: JsonObject, node_class: EC2NodeClass, now: datetime) -> bool:
    end = described.get("EndDate")
    return bool(
        (described.get("State") == ACTIVE or (described.get("State") in UPCOMING and described.get("StartDate")))
        and (end is None or end > now)
        and described.get("ReservationType", DEFAULT_RESERVATION) in _KINDS
        and described.get("InstanceMatchCriteria") in _CRITERIA
        and described.get("Tenancy", SHARED) == SHARED
        and _is_of_platform(described, node_class)
    )


def _is_of_platform(described: JsonObject, node_class: EC2NodeClass) -> bool:
    """Whether the class can use the reservation's platform.

    A class with custom images may use any: only its owner knows their billing.
    """
    family = node_class.family
    if not node_class.alias:
        return True
    platform: str = described.get("InstancePlatform", _LINUX)
    return platform == (_WINDOWS if family.windows_build else _LINUX)


def _entry(described: JsonObject, now: datetime) -> JsonObject:
    end = described.get("EndDate")
    entry = {
        "id": described["CapacityReservationId"],
        "instanceType": described["InstanceType"],
        "availabilityZone": described["AvailabilityZone"],
        "ownerID": described.get("OwnerId", ""),
        "instanceMatchCriteria": described["InstanceMatchCriteria"],
        "reservationType": described.get("ReservationType", DEFAULT_RESERVATION),
        "state": described["State"],
    }
    if end is not None:
        entry["endTime"] = _written(end)
    if described["State"] in UPCOMING:
        entry["startTime"] = _written(described["StartDate"])
    leaves = leaves_at(msgspec.convert(entry, CapacityReservation))
    if described["State"] == ACTIVE and leaves is not None and leaves <= now:
        entry["state"] = EXPIRING
    return {**entry, "interruptible": True} if described.get("Interruptible") else entry


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _places(described: JsonObject, own_instances: int) -> int:
    """Return how many of our instances fit: the free places, and those that ours hold.

    An instance that is launched between the two calls counts in both figures; the reservation's size bounds the error.
    Before the start nothing is free, and a tag has the size of a block (EC2).
    """
    if described["State"] in UPCOMING:
        sizes = [str(tag.get("Value", "")) for tag in described.get("Tags") or () if tag.get("Key") == _SIZE_TAG]
        return max(
            [int(size) for size in sizes if size.isdecimal()], default=int(described.get("TotalInstanceCount", 0))
        )
    return int(min(described.get("AvailableInstanceCount", 0) + own_instances, described.get("TotalInstanceCount", 0)))


# Makes the conditions of an EC2NodeClass: what keeps nodes from being launched from it, without asking AWS.


READY: Final = "Ready"
VALID: Final = "ValidationSucceeded"


class ClassCondition(msgspec.Struct, frozen=True):
    """One condition: True without a reason, False with one."""

    reason: str = ""
    message: str = ""


def written_conditions(manifest: JsonObject, by_type: Mapping[str, ClassCondition], now: datetime) -> list[JsonObject]:
    """Return the conditions as the status has them, with Ready; an unchanged condition keeps its time."""
    before = {c.get("type"): c for c in (manifest.get("status") or {}).get("conditions") or ()}
    bad = sorted(name for name, condition in by_type.items() if condition.reason)
    root = ClassCondition("UnhealthyDependents", f"{', '.join(bad)} is False") if bad else ClassCondition()
    stamp = now.isoformat().replace("+00:00", "Z")
    written: list[JsonObject] = []
    for name, condition in sorted({**by_type, READY: root}.items()):
        status = "False" if condition.reason else "True"
        earlier = before.get(name) or {}
        is_same = earlier.get("status") == status and earlier.get("lastTransitionTime")
        written.append(
            {
                "type": name,
                "status": status,
                "reason": condition.reason or name,
                "message": condition.message,
                "lastTransitionTime": earlier["lastTransitionTime"] if is_same else stamp,
                "observedGeneration": generation_of(manifest),
            }
        )
    return written


def rules_problem(manifest: JsonObject) -> ClassCondition | None:
    """Apply the rules of our API, since the API server may have older or Karpenter's rules: plans exclude an invalid class."""
    named = {"apiVersion": f"{labels.AWS_GROUP}/v1", "kind": "EC2NodeClass", **manifest}
    faults = api.problems(named)
    if not faults:
        return None
    of_kubelet = all(problem.field.startswith("spec.kubelet") for problem in faults)
    message = "; ".join(f"{problem.field}: {problem.message}" for problem in faults)
    return ClassCondition("InvalidKubeletConfiguration" if of_kubelet else "InvalidSpec", message)


def rendering_problem(
    node_class: EC2NodeClass, described: ClusterDescription, by_type: Mapping[str, ClassCondition]
) -> ClassCondition:
    """Check that a launch may succeed: an error here would fail the launch of every node."""
    family, computed = node_class.family, expressions(node_class.spec.kubelet)
    problem = first_certain(launch_problems(node_class, described.cluster))
    is_computed = problem is None or problem.field in [f"spec.kubelet.{name}" for name in computed]
    if computed and is_computed:
        message = f"spec.kubelet: {', '.join(computed)} must be plain values, expressions are not evaluated"
        return ClassCondition("KubeletExpressionsDisabled", message)
    if problem is not None:
        needs_cidr = family.needs_service_cidr and not described.cluster.service_cidr
        reason = "ClusterCIDRResolutionFailed" if needs_cidr else "InvalidConfiguration"
        return ClassCondition(reason, f"{problem.field}: {problem.problem}")
    bad = sorted(name for name, condition in by_type.items() if condition.reason)
    return ClassCondition("DependenciesNotReady", f"{', '.join(bad)} is False") if bad else ClassCondition()


# Finds the placement group of an EC2NodeClass.


AVAILABLE = "available"


class PlacementGroups:
    """Looks up groups by id or name."""

    def __init__(self, ec2: AwsService) -> None:
        self._ec2 = ec2

    def resolve(self, selector: PlacementGroupSelector) -> JsonObject:
        """Return the group as `placementGroup` of a status. Raises NotFoundError if none is available, PortError."""
        what = f"placement group {selector.id or selector.name}"
        groups = self._described(selector)
        available = next((group for group in groups if group.get("State") == AVAILABLE), None)
        if available is None:
            states = ", ".join(sorted({str(group.get("State")) for group in groups}))
            message = (
                f"{what} is {states}, not available" if states else f"{what} does not exist in this account and region"
            )
            raise NotFoundError("ec2:DescribePlacementGroups", message)
        return {
            "id": available["GroupId"],
            "name": available.get("GroupName", ""),
            "strategy": available.get("Strategy", ""),
            "partitions": available.get("PartitionCount") or 0,
        }

    def _described(self, selector: PlacementGroupSelector) -> Sequence[Mapping[str, Any]]:
        """Return EC2's groups of this id or name.

        EC2 has no filter for ids, and a group that another account shares is found by `GroupIds` alone
        (docs/engineering/aws-facts.md#placement-group-ids).
        """
        named: JsonObject = (
            {"GroupIds": [selector.id]}
            if selector.id
            else {"Filters": [{"Name": "group-name", "Values": [selector.name]}]}
        )
        try:
            answer = self._ec2.call("DescribePlacementGroups", **named)
        except NotFoundError:
            return ()
        groups: Sequence[Mapping[str, Any]] = answer.get("PlacementGroups") or ()
        return groups


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
        validate: Validate | None,
        clock: Clock,
    ) -> None:
        """`reservations` is None if the feature gate ReservedCapacity is off; `validate` asks EC2 about a resolved class.

        Without `validate`, the first launch shows whether EC2 allows it.
        """
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
        status: JsonObject = {}
        by_type = self._selected(status, node_class, described, now)
        _split_addresses(status, node_class, described, now)
        by_type["PlacementGroupReady"] = self._placed(status, node_class)
        by_type[VALID] = rules_problem(manifest) or rendering_problem(node_class, described, by_type)
        status["capacityReservations"] = None  # with the gate off, the status does not list them
        if self._reservations is not None:
            by_type["CapacityReservationsReady"] = _reserved(status, self._reservations, node_class, now)
        if is_validated and self._validate is not None and not by_type[VALID].reason:
            by_type[VALID] = self._asked(self._validate, {**manifest, "status": status}, status, node_pools)
        return {**status, "conditions": written_conditions(manifest, by_type, self._clock.now())}

    def _selected(
        self, status: JsonObject, node_class: EC2NodeClass, described: ClusterDescription, now: datetime
    ) -> dict[str, ClassCondition]:
        """Resolve the parts that every launch needs, add them to the status, and return the condition of each."""
        spec = node_class.spec
        return {
            "AMIsReady": self._ami_problem(node_class, described)
            or _resolve(
                status,
                "amis",
                "AMINotFound",
                lambda: self._images.resolve(spec.ami_selector_terms, described.version, now),
            ),
            "SubnetsReady": _resolve(
                status, "subnets", "SubnetsNotFound", lambda: self._network.subnets(spec.subnet_selector_terms)
            ),
            "SecurityGroupsReady": _resolve(
                status,
                "securityGroups",
                "SecurityGroupsNotFound",
                lambda: self._network.security_groups(spec.security_group_selector_terms),
            ),
            "InstanceProfileReady": _resolve(
                status, "instanceProfile", "InstanceProfileNotFound", lambda: self._profiles.resolve(node_class)
            ),
        }

    def _placed(self, status: JsonObject, node_class: EC2NodeClass) -> ClassCondition:
        """Resolve the placement group; a class that selects none is fine (Karpenter)."""
        selector = node_class.spec.placement_group_selector
        if selector is None:
            return ClassCondition()
        try:
            status["placementGroup"] = self._placement_groups.resolve(selector)
        except NotFoundError as error:
            return ClassCondition("PlacementGroupNotFound", str(error))
        except DeniedError as error:
            return ClassCondition("PlacementGroupResolutionFailed", str(error))
        return ClassCondition()

    def _ami_problem(self, node_class: EC2NodeClass, described: ClusterDescription) -> ClassCondition | None:
        problem = family_of("", node_class.alias).why_not_published(described.version)
        return ClassCondition("UnsupportedAlias", problem) if problem else None

    def _asked(
        self, validate: Validate, resolved: JsonObject, status: JsonObject, node_pools: Sequence[NodePool]
    ) -> ClassCondition:
        """Validate the resolved class with EC2, and add its answer to the status."""
        try:
            node_class = read_node_class(resolved)
            answer = validate(node_class, resolved, self._cluster.describe().cluster, node_pools)
        except InvalidInputError as error:
            return ClassCondition("InvalidConfiguration", str(error))
        status[LAUNCH_VALIDATION] = written_validation(answer)
        return ClassCondition(answer.reason(), answer.explanation())


def _resolve(status: JsonObject, field: str, missing: str, read: Callable[[], Any]) -> ClassCondition:
    """Resolve one part and add it to the status; if nothing is found, the condition is False."""
    try:
        status[field] = read()
    except NotFoundError as error:
        return ClassCondition(missing, str(error))
    except DeniedError as error:
        return ClassCondition("NotAllowed", str(error))
    return ClassCondition() if status[field] else ClassCondition(missing, "the selector terms match nothing")


def _split_addresses(
    status: JsonObject, node_class: EC2NodeClass, described: ClusterDescription, now: datetime
) -> None:
    """Move the free addresses out of `subnets`, whose form is Karpenter's."""
    subnets = status.get("subnets") or []
    free_by_subnet = {str(subnet["id"]): subnet.pop("free") for subnet in subnets}
    free = {subnet: int(count) for subnet, count in free_by_subnet.items() if count is not None}
    reading = address_reading(node_class, free, is_ipv6=described.cluster.is_ipv6, read_at=now)
    if reading is not None:
        status["subnetAddresses"] = msgspec.to_builtins(reading)


def _reserved(
    status: JsonObject, reservations: CapacityReservations, node_class: EC2NodeClass, now: datetime
) -> ClassCondition:
    """Resolve the reservations; none is fine (Karpenter). Those that have not begun are `upcomingReservations`."""
    status["capacityReservations"] = []
    try:
        resolved = reservations.resolve(node_class, now)
    except DeniedError as error:
        return ClassCondition("NotAllowed", str(error))
    upcoming = [reservation for reservation in resolved if "startTime" in reservation]
    status["capacityReservations"] = [reservation for reservation in resolved if "startTime" not in reservation]
    if not upcoming:
        return ClassCondition()
    from core.catalogue.reservations import upcoming_message  # most clusters have booked none

    status["upcomingReservations"] = upcoming
    return ClassCondition(message=upcoming_message(upcoming))
