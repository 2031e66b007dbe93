"""Describes, tags and terminates this cluster's instances in EC2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from adapters.aws.services import AwsService
from adapters.ports import (
    Clock,
    ConflictError,
    DeniedError,
    Instance,
    JsonObject,
    NotFoundError,
    ThrottledError,
    TransientError,
)
from core import labels
from core.ami_families.family import Cluster
from core.catalogue.node_class import CAPACITY_BLOCK, DEFAULT_RESERVATION, EC2NodeClass
from core.launch.request import RenderedLaunch, render_launch
from core.launch.template import INTERRUPTIBLE, NAME_PREFIX, ONLY_RESERVED, LaunchTemplate, tag_list
from core.launch.validation import (
    LaunchValidation,
    concerns_the_class,
    next_validation,
    read_validation,
    template_fields,
    validation_orders,
)
from core.model.catalogue import InstanceType
from core.model.node_pool import NodePool
from core.model.values.quotas import InstanceEnd

_NOT_TERMINATED: Final = ("pending", "running", "shutting-down", "stopped", "stopping")
_ALIVE: Final = ("pending", "running")
_IDS_PER_CALL: Final = 500
_FILTER_VALUES_MAX: Final = 200
"""EC2's limit on values of a filter."""


class Instances:
    """Describes, tags and terminates.

    Args:
        ec2: The client.
        cluster: Name of the EKS cluster.
        before_terminating: Waits until EC2 terminates so many. Raises ThrottledError.
    """

    def __init__(
        self, ec2: AwsService, *, cluster: str, before_terminating: Callable[[int], None] = lambda _: None
    ) -> None:
        self._ec2 = ec2
        self._cluster = cluster
        self._before_terminating = before_terminating

    def all(self) -> tuple[Instance, ...]:
        """Return every instance of ours that is not terminated, by id. Raises PortError."""
        return _in_order(self._described(self._ours()))

    def some(self, ids: Sequence[str]) -> tuple[Instance, ...]:
        """Return those of these instances that are not terminated, by id; unknown ones are left out. Raises PortError.

        The ids come from our rows, so tags are not checked: an instance whose tags were removed still runs and costs money.
        """
        wanted = sorted(set(ids))
        described = (self._described([{"Name": "instance-id", "Values": batch}]) for batch in _batches(wanted))
        return _in_order(instance for instances in described for instance in instances)

    def of_claim(self, claim: str) -> tuple[Instance, ...]:
        """Return the living instances that were launched under a claim's name, by id. Raises PortError."""
        described = self._described([*self._ours(), {"Name": f"tag:{labels.NODECLAIM}", "Values": [claim]}])
        return tuple(instance for instance in _in_order(described) if instance.is_alive)

    def end_of(self, instance_id: str) -> InstanceEnd | None:
        """Return why one instance ended or was stopped, None where EC2 does not know it any more.

        Raises:
            ConflictError: If it runs or is about to, as far as EC2 knows.
        """
        wanted = [{"Name": "instance-id", "Values": [instance_id]}]
        for reservation in self._ec2.items("DescribeInstances", "Reservations", Filters=wanted):
            for described in reservation.get("Instances", ()):
                if described["State"]["Name"] in _ALIVE:
                    raise ConflictError("ec2:DescribeInstances", f"instance {instance_id} has not ended yet")
                return _end(described.get("StateReason") or {})
        return None

    def in_reservations(self, reservation_ids: Sequence[str]) -> dict[str, int]:
        """Return reservation id → how many living instances of ours it holds. Raises PortError."""
        wanted = sorted(set(reservation_ids))
        held = [
            instance.reservation_id
            for batch in _batches(wanted)
            for instance in self._described([*self._ours(), {"Name": "capacity-reservation-id", "Values": batch}])
            if instance.is_alive
        ]
        counts = Counter(held)
        return {identity: counts[identity] for identity in wanted}

    def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of one instance. Raises NotFoundError, PortError."""
        self._ec2.call("CreateTags", Resources=[instance_id], Tags=tag_list(dict(tags)))

    def terminate(self, instance_ids: Sequence[str]) -> None:
        """Terminate the instances.

        EC2 refuses a whole call for one unknown id; then each id is tried alone. Raises PortError.
        """
        ids = sorted(set(instance_ids))
        for start in range(0, len(ids), _IDS_PER_CALL):
            batch = ids[start : start + _IDS_PER_CALL]
            self._before_terminating(len(batch))
            try:
                self._ec2.call("TerminateInstances", InstanceIds=batch)
            except NotFoundError:
                if len(batch) > 1:
                    self._terminate_one_by_one(batch)

    def _terminate_one_by_one(self, ids: Sequence[str]) -> None:
        for instance_id in ids:
            try:
                self._ec2.call("TerminateInstances", InstanceIds=[instance_id])
            except NotFoundError:
                continue

    def _ours(self) -> list[JsonObject]:
        return [
            {"Name": f"tag:{labels.CLUSTER_TAG}", "Values": [self._cluster]},
            {"Name": "tag-key", "Values": [labels.NODEPOOL]},
        ]

    def _described(self, more: Sequence[JsonObject]) -> Iterator[Instance]:
        filters = [{"Name": "instance-state-name", "Values": list(_NOT_TERMINATED)}, *more]
        for reservation in self._ec2.items("DescribeInstances", "Reservations", Filters=filters, MaxResults=1000):
            yield from (_instance(described) for described in reservation.get("Instances", ()))


def _batches(ids: Sequence[str]) -> Iterator[list[str]]:
    """Yield the ids in parts that fit into a filter."""
    yield from (list(ids[start : start + _FILTER_VALUES_MAX]) for start in range(0, len(ids), _FILTER_VALUES_MAX))


def efa_interfaces(interfaces: Iterable[Mapping[str, Any]]) -> int:
    """Return how many of these network interfaces carry EFA traffic, exclusively or in addition to their own."""
    return sum(str(interface.get("InterfaceType")) in ("efa", "efa-only") for interface in interfaces)


def _in_order(instances: Iterable[Instance]) -> tuple[Instance, ...]:
    return tuple(sorted(instances, key=lambda instance: instance.instance_id))


def _end(reason: Mapping[str, Any]) -> InstanceEnd:
    code = str(reason.get("Code") or "")
    return InstanceEnd(code, str(reason.get("Message") or "").removeprefix(f"{code}: "))


def _instance(described: Mapping[str, Any]) -> Instance:
    return Instance(
        instance_id=described["InstanceId"],
        instance_type=described["InstanceType"],
        zone=described["Placement"]["AvailabilityZone"],
        capacity_type=_capacity_type(described),
        state=described["State"]["Name"],
        launched_at=described["LaunchTime"],
        private_dns_name=described.get("PrivateDnsName") or "",
        image_id=described.get("ImageId") or "",
        efa_interfaces=efa_interfaces(described.get("NetworkInterfaces") or ()),
        subnet_id=described.get("SubnetId") or "",
        placement_group=described["Placement"].get("GroupId") or "",
        partition=described["Placement"].get("PartitionNumber") or 0,
        security_groups=tuple(sorted(group["GroupId"] for group in described.get("SecurityGroups") or ())),
        tags={tag["Key"]: tag["Value"] for tag in described.get("Tags") or ()},
        **_reservation(described),
    )


def _capacity_type(described: Mapping[str, Any]) -> str:
    if _is_spot(described):
        return labels.SPOT
    return labels.RESERVED if _is_reserved(described) else labels.ON_DEMAND


def _is_reserved(described: Mapping[str, Any]) -> bool:
    """Whether it was launched into a reservation and still is in one; EC2 may put others into an open one (Karpenter)."""
    specification = described.get("CapacityReservationSpecification") or {}
    return (
        bool(described.get("CapacityReservationId"))
        and specification.get("CapacityReservationPreference") == ONLY_RESERVED
    )


def _reservation(described: Mapping[str, Any]) -> JsonObject:
    if not _is_reserved(described):
        return {}
    lifecycle = described.get("InstanceLifecycle")
    return {
        "reservation_id": described["CapacityReservationId"],
        "reservation_type": CAPACITY_BLOCK if lifecycle == CAPACITY_BLOCK else DEFAULT_RESERVATION,
        "interruptible": lifecycle == INTERRUPTIBLE,
    }


def _is_spot(described: Mapping[str, Any]) -> bool:
    return bool(described.get("SpotInstanceRequestId")) or described.get("InstanceLifecycle") == "spot"


# Creates launch templates named by a digest of their content, and deletes old ones.


KEPT_FOR: Final = timedelta(days=14)
"""Age at which a template is deleted. One that is still in use is created again by the next launch."""

KEPT_MAX: Final = 1_000
"""The most templates that a cluster keeps; a region allows 5,000 for all users of the account."""

DELETED_MAX: Final = 200
"""The most templates that one run deletes, a quarter of a second each; the next run continues."""


class TemplateNames(Protocol):
    """Knows the existing templates across sandboxes (`adapters.aws.dynamodb.launch_memory`); it may be wrong."""

    def all(self) -> frozenset[str]:
        """Return the names of templates that probably exist."""

    def add(self, names: Iterable[str]) -> None:
        """Remember that these exist."""

    def drop(self, names: Iterable[str]) -> None:
        """Remember no longer that these exist."""


class LaunchTemplates:
    """Manages the templates that launches use.

    Which of them exist is read once in a sandbox: otherwise each new one asks EC2 to create what exists, and while EC2
    throttles, new sandboxes do so in every run. A template that is missing all the same is found by the launch.
    """

    def __init__(self, ec2: AwsService, *, cluster: str, names: TemplateNames | None = None) -> None:
        self._ec2 = ec2
        self._cluster = cluster
        self._names = names
        self._known: set[str] | None = None

    def ensure(self, templates: Iterable[LaunchTemplate]) -> None:
        """Create the templates that do not exist yet; the name determines the content, so an existing one is correct.

        Raises PortError.
        """
        if self._known is None:
            self._known = set(self._names.all() if self._names is not None else ())
        created = list[str]()
        try:
            for template in templates:
                if template.name not in self._known:
                    self._create(template)
                    self._known.add(template.name)
                    created.append(template.name)
        finally:
            if self._names is not None:
                self._names.add(created)

    def forget(self, templates: Iterable[LaunchTemplate]) -> None:
        """Create the templates again next time: one of them was deleted."""
        self._drop([template.name for template in templates])

    def _drop(self, names: Sequence[str]) -> None:
        (self._known or set[str]()).difference_update(names)
        if self._names is not None:
            self._names.drop(names)

    def prune(self, now: datetime) -> int:
        """Delete this cluster's templates that are older than `KEPT_FOR`, and the oldest of more than `KEPT_MAX`.

        Returns:
            How many were deleted.

        Raises:
            PortError: If they cannot be listed, or one cannot be deleted.
        """
        ours = [{"Name": f"tag:{labels.CLUSTER_TAG}", "Values": [self._cluster]}]
        listed = self._ec2.items("DescribeLaunchTemplates", "LaunchTemplates", Filters=ours, MaxResults=200)
        by_age = sorted(
            (template["CreateTime"], template["LaunchTemplateName"])
            for template in listed
            if template["LaunchTemplateName"].startswith(NAME_PREFIX)
        )
        beyond = len(by_age) - KEPT_MAX
        ends = [name for place, (made, name) in enumerate(by_age) if place < beyond or now - made > KEPT_FOR]
        self._drop(ends[:DELETED_MAX])
        for name in ends[:DELETED_MAX]:
            self._delete(name)
        return len(ends[:DELETED_MAX])

    def _create(self, template: LaunchTemplate) -> None:
        tags = {"ResourceType": "launch-template", "Tags": tag_list(template.tags)}
        try:
            self._ec2.call(
                "CreateLaunchTemplate",
                LaunchTemplateName=template.name,
                LaunchTemplateData=template.data,
                TagSpecifications=[tags],
            )
        except ConflictError:
            return

    def _delete(self, name: str) -> None:
        try:
            self._ec2.call("DeleteLaunchTemplate", LaunchTemplateName=name)
        except NotFoundError:
            return


# Asks EC2 whether it would launch from an EC2NodeClass: CreateLaunchTemplate, then CreateFleet and RunInstances as DryRun.
#
# The other two calls need an existing launch template (Karpenter does the same). It is named by its content and pruned like
# those of launches.


TypesFor = Callable[[JsonObject], Iterable[InstanceType]]
"""Returns the instance types as sized for a resolved EC2NodeClass, none before the market was read."""

_Denied = tuple[str, str, str]

_UNKNOWN_PROFILE: Final = "Invalid IAM Instance Profile name"
PROFILE_SPREADS: Final = timedelta(minutes=1)
"""How long EC2 may take to know a new instance profile, mostly seconds. Afterwards, the profile counts as missing."""


def unread(_: JsonObject) -> Iterable[InstanceType]:
    """Return no types: the market was never read."""
    return ()


class DryRunTurns(Protocol):
    """Turns of DryRuns, which EC2 counts as requests for launches."""

    def dry_run(self) -> datetime | None:
        """Wait until EC2 accepts one, and return that moment. Raises ThrottledError."""

    def slow_down(self, sent: datetime | None, answers: int) -> None:
        """Learn how many attempts of the request that was sent then EC2 throttled."""


class LaunchValidator:
    """Validates changed launches; answers are cached in this sandbox and in the annotation."""

    def __init__(
        self,
        ec2: AwsService,
        templates: LaunchTemplates,
        clock: Clock,
        types_for: TypesFor = unread,
        *,
        turns: DryRunTurns,
        uses_reservations: bool = True,
    ) -> None:
        self._ec2 = ec2
        self._templates = templates
        self._clock = clock
        self._types_for = types_for
        self._turns = turns
        self._uses_reservations = uses_reservations
        self._known: dict[str, LaunchValidation] = {}
        self._profile_seen: dict[str, datetime] = {}

    def validate(
        self, node_class: EC2NodeClass, manifest: JsonObject, cluster: Cluster, node_pools: Sequence[NodePool] = ()
    ) -> LaunchValidation:
        """Return EC2's answer about the resolved class with these NodePools. `manifest` has the resolved status.

        Raises:
            InvalidInputError: If a launch cannot be rendered.
            TransientError: If EC2 cannot answer now, or does not know a new instance profile yet.
        """
        fields, now = template_fields(node_class, cluster), self._clock.now()
        before = self._before(node_class)
        if before is not None and before.answers(fields, now):
            return before
        launches = self._launches(node_class, manifest, cluster, node_pools)
        denied = next((denial for denial in map(self._denied, launches) if denial is not None), None)
        if denied is not None:
            self._wait_for_profile(node_class, denied)
        answer = next_validation(before, fields if launches else {}, denied, now)
        self._known[_key(node_class)] = answer
        return answer

    def _before(self, node_class: EC2NodeClass) -> LaunchValidation | None:
        """Return the later answer of the cache and the annotation."""
        written = read_validation(node_class.metadata.annotations.get(labels.LAUNCH_VALIDATION, ""))
        readings = [validation for validation in (written, self._known.get(_key(node_class))) if validation is not None]
        return max(readings, key=lambda validation: validation.asked_at, default=None)

    def _wait_for_profile(self, node_class: EC2NodeClass, denied: _Denied) -> None:
        """Raise TransientError if EC2 may not know the class's newly created profile yet."""
        call, _, message = denied
        if not node_class.spec.role or _UNKNOWN_PROFILE not in message:
            return
        now, profile = self._clock.now(), node_class.status.instance_profile
        if now < self._profile_seen.setdefault(profile, now) + PROFILE_SPREADS:
            raise TransientError(call, f"{message}; a new profile in IAM is visible within seconds")

    def _launches(
        self, node_class: EC2NodeClass, manifest: JsonObject, cluster: Cluster, node_pools: Sequence[NodePool]
    ) -> list[RenderedLaunch]:
        """Return the launches to validate; none if no type has an image and a subnet, so that nothing could be launched."""
        orders = validation_orders(
            node_class, manifest, self._types_for(manifest), node_pools, uses_reservations=self._uses_reservations
        )
        rendered = [render_launch(order, node_class, cluster) for order in orders]
        return [launch for launch in rendered if launch.offerings]

    def _denied(self, rendered: RenderedLaunch) -> _Denied | None:
        """Return the call that EC2 denies, with code and message; None if it allows all."""
        try:
            self._templates.ensure(rendered.templates)
        except DeniedError as error:
            return error.call, error.code, error.message
        fleet = {name: value for name, value in rendered.request.items() if name != "ClientToken"}
        return self._asked("CreateFleet", rendered, **fleet) or self._asked(
            "RunInstances", rendered, **_one_instance(rendered)
        )

    def _asked(self, operation: str, rendered: RenderedLaunch, **request: Any) -> _Denied | None:
        sent = self._turns.dry_run()
        try:
            self._ec2.call(operation, DryRun=True, **request)
        except ThrottledError as error:
            self._turns.slow_down(sent, error.answers)
            raise
        except NotFoundError as error:  # the template was deleted concurrently
            self._templates.forget(rendered.templates)
            raise TransientError(error.call, error.detail) from error
        except DeniedError as error:
            return (error.call, error.code, error.message) if concerns_the_class(error.code) else None
        return None


_JUDGED: Final = ("IamInstanceProfile", "BlockDeviceMappings", "MetadataOptions")
"""Fields of the template on which policies put conditions."""


def _key(node_class: EC2NodeClass) -> str:
    return node_class.metadata.uid or node_class.name


def _one_instance(rendered: RenderedLaunch) -> JsonObject:
    """Return RunInstances' request for the first offering: it carries what the launch would, not only the template's name.

    EC2 judges the request by what it carries itself: without the template's metadata options, a policy that demands IMDSv2
    denies it, although it allows the launch (docs/engineering/aws-facts.md#dry-run-context). Tags are those of each kind that
    the launch creates: our own role demands them on all. The subnet is part of the interfaces: EC2 rejects a separate one.
    """
    offering, template = rendered.offerings[0], rendered.templates[0]
    subnet = rendered.subnets[offering.zone]
    interfaces = [{**interface, "SubnetId": subnet} for interface in template.data["NetworkInterfaces"]]
    is_spot = offering.capacity_type == labels.SPOT
    return {
        **({"InstanceMarketOptions": {"MarketType": labels.SPOT}} if is_spot else {}),
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": offering.instance_type,
        "LaunchTemplate": {"LaunchTemplateName": template.name, "Version": "$Latest"},
        "NetworkInterfaces": interfaces,
        **{name: template.data[name] for name in _JUDGED if name in template.data},
        "TagSpecifications": [
            *({"ResourceType": kind, "Tags": tag_list(rendered.tags)} for kind in ("instance", "volume")),
            *template.data["TagSpecifications"],
        ],
    }
