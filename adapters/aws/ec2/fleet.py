"""Launches a claim, or several that share a launch, with one CreateFleet call, and interprets EC2's answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from adapters.aws.ec2.instances import (
    Instances,
    LaunchTemplates,
    LaunchValidator,
    TemplateNames,
    TypesFor,
    efa_interfaces,
    unread,
)
from adapters.aws.instance_profiles import InstanceProfiles, OwnedProfiles, UnusedProfiles
from adapters.aws.node_class import (
    CapacityReservations,
    Images,
    NetworkSelection,
    NodeClassResolver,
    PlacementGroups,
    Validate,
)
from adapters.aws.services import AwsService, CoalescedCalls, EksCluster
from adapters.aws.session import meaning_of, retries_of
from adapters.observability import logger
from adapters.ports import (
    Clock,
    ConflictError,
    DeniedError,
    Impairment,
    Instance,
    InsufficientCapacityError,
    JsonObject,
    LaunchDeniedError,
    Launched,
    LostReplyError,
    NotFoundError,
    PortError,
    RefusedOffering,
    SilentError,
    ThrottledError,
    TransientError,
    UnfulfilledError,
)
from core import labels
from core.ami_families.family import Cluster
from core.api.status import is_stale
from core.catalogue.node_class import EC2NodeClass, read_node_class
from core.errors import InvalidInputError
from core.launch.denials import NO_IMAGE_OR_SUBNET, NOT_RENDERED, OF_CAPACITY, Remembered, rule_of
from core.launch.request import RenderedLaunch, may_exceed, render_launch, user_data_problem
from core.launch.validation import first_certain, launch_problems
from core.lifecycle.steps import may_be_unlisted
from core.model.catalogue import Offering, OfferingKey
from core.model.node_pool import NodePool
from core.model.plan import LaunchOrder
from core.model.values.quotas import InstanceEnd

# Interprets the errors of a fleet: which offerings to remember as without capacity, and which error to raise.


_NO_SPOT_AT_ALL: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
_SILENCE: Final = "UnfulfillableCapacity"
"""The assumed code of an answer with neither instances nor errors (Karpenter)."""

_REASONS: Final = (
    ("ServiceLinkedRoleCreationNotPermitted", "SpotServiceLinkedRoleMissing"),
    ("Not authorized for images", "ImageNotAuthorized"),
    ("UnauthorizedOperation", "Unauthorized"),
    ("AccessDenied", "Unauthorized"),
    ("AuthFailure", "Unauthorized"),
    ("belong to different networks", "SecurityGroupSubnetMismatch"),
    ("Invalid IAM Instance Profile name", "InstanceProfileNotFound"),
    ("iamInstanceProfile.name is invalid", "InstanceProfileNameInvalid"),
    ("InvalidLaunchTemplate", "LaunchTemplateNotFound"),
    ("User data is limited to", "UserDataTooLarge"),
    ("InvalidAMIID", "ImageNotFound"),
    ("RequestLimitExceeded", "Throttled"),
    ("not eligible for Free Tier", "FreeTierOnly"),
    ("MaxFleetCountExceeded", "FleetQuotaExceeded"),
    ("PendingVerification", "AccountPendingVerification"),
    ("MaxSpotInstanceCountExceeded", "SpotQuotaExceeded"),
    ("VcpuLimitExceeded", "VcpuQuotaExceeded"),
    ("InsufficientFreeAddressesInSubnet", "SubnetWithoutAddresses"),
    ("InsufficientCidrBlocks", "SubnetWithoutPrefixes"),
)
"""Text in a fleet error's code or message → reason for people; the first match counts (Karpenter's order)."""


def refused_offerings(
    errors: Iterable[Mapping[str, Any]], tried: Sequence[OfferingKey], zone_of_subnet: Mapping[str, str]
) -> tuple[RefusedOffering, ...]:
    """Return the offerings that the errors refer to, with EC2's code, in order and each once; transient errors are left out.

    An error about a subnet refers to everything in its zone, a missing service-linked role to all spot.
    """
    refused: dict[OfferingKey, RefusedOffering] = {}
    for error in errors:
        code, message = str(error.get("ErrorCode", "")), str(error.get("ErrorMessage", ""))
        if not issubclass(meaning_of(code), TransientError):
            for key in tried:
                if _concerns(error, key, zone_of_subnet):
                    refused.setdefault(key, RefusedOffering(key, code, message, _subnet_of(error)))
    return tuple(sorted(refused.values()))


def failure(
    call: str, errors: Sequence[Mapping[str, Any]], refused: Sequence[RefusedOffering], tried: Sequence[OfferingKey]
) -> PortError:
    """Return the error to raise when a fleet launched nothing.

    If another offering may succeed, the caller plans again without the refused ones; otherwise EC2's code decides between a
    later retry and giving up. An answer without errors counts as no capacity (Karpenter).
    """
    detail = "; ".join(dict.fromkeys(describe(error) for error in errors))
    if not errors:
        detail = "EC2 launched nothing and returned no error"
        return InsufficientCapacityError(call, detail, [RefusedOffering(key, _SILENCE, detail) for key in tried])
    lasting = [error for error in errors if not issubclass(_meaning(error), TransientError)]
    if not lasting:
        return UnfulfilledError(call, detail)
    code, message = str(lasting[0].get("ErrorCode", "")), str(lasting[0].get("ErrorMessage", ""))
    return refusal(call, detail, refused or [RefusedOffering(key, code, message) for key in tried])


def refusal(call: str, detail: str, refused: Sequence[RefusedOffering]) -> PortError:
    """Return the error for these refusals: no capacity if other offerings may succeed, else a denial."""
    may_go_elsewhere = any(rule_of(refused_offering.code).remembered in OF_CAPACITY for refused_offering in refused)
    return (InsufficientCapacityError if may_go_elsewhere else LaunchDeniedError)(call, detail, refused)


def has_throttled(answer: Mapping[str, Any]) -> bool:
    """Whether EC2 throttled the fleet's own requests for instances, whatever else it launched."""
    return any(_meaning(error) is ThrottledError for error in answer.get("Errors") or ())


def describe(error: Mapping[str, Any]) -> str:
    """Return one fleet error for people: our reason, EC2's code and its message."""
    code, message = str(error.get("ErrorCode", "")), str(error.get("ErrorMessage", ""))
    reason = next((reason for text, reason in _REASONS if text in code or text in message), "LaunchFailed")
    return f"{reason} ({code}: {message})"


def _meaning(error: Mapping[str, Any]) -> type[PortError]:
    return meaning_of(str(error.get("ErrorCode", "")))


def _subnet_of(error: Mapping[str, Any]) -> str:
    override = (error.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return str(override.get("SubnetId") or "")


def _concerns(error: Mapping[str, Any], key: OfferingKey, zone_of_subnet: Mapping[str, str]) -> bool:
    code = error.get("ErrorCode")
    if code == _NO_SPOT_AT_ALL:
        return key.capacity_type == labels.SPOT
    override = (error.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    zone = zone_of_subnet.get(override.get("SubnetId", "")) or override.get("AvailabilityZone")
    if zone is not None and key.zone != zone:
        return False
    return rule_of(str(code)).remembered is Remembered.SUBNET or override.get("InstanceType") in (
        None,
        key.instance_type,
    )


# Waits for the turn of a launch or a termination, and reports to the pace that all sandboxes share when EC2 throttles one.


class RequestPace(Protocol):
    """Assigns the turns of all sandboxes (`adapters.aws.dynamodb.launch_memory`)."""

    def wait(self, now: datetime, tokens: int = 1) -> timedelta:
        """Take the next turn and return how long to wait for it. Raises ThrottledError where that is too long."""
        ...

    def give_back(self, tokens: int) -> None:
        """Return tokens that EC2 did not take. Raises PortError."""
        ...

    def slow_down(self, sent: datetime, now: datetime, answers: int) -> None:
        """Reduce the rate after throttled answers to the request that was sent then. Raises PortError."""
        ...


class EC2Turns:
    """Turns of an application that neither launches nor terminates, or alone in its account: no request waits."""

    def launch(self, instances: int) -> datetime | None:
        """Wait until EC2 accepts a launch of so many, and return that moment. Raises ThrottledError."""

    def dry_run(self) -> datetime | None:
        """Wait until EC2 accepts a DryRun of a launch, and return that moment. Raises ThrottledError."""

    def terminate(self, instances: int) -> None:
        """Wait until EC2 terminates so many. Raises ThrottledError."""

    def not_launched(self, instances: int) -> None:
        """Learn that EC2 launched so many fewer than it was asked for, without throttling."""

    def slow_down(self, sent: datetime | None, answers: int) -> None:
        """Learn how many attempts of the request that was sent then EC2 throttled."""


UNPACED: Final = EC2Turns()


class PacedTurns(EC2Turns):
    """Turns at the shared paces.

    Args:
        requests: The pace of launches' requests.
        launched, terminated: The paces of instances (docs/engineering/aws-facts.md#instance-bucket).
    """

    def __init__(
        self,
        requests: RequestPace,
        launched: RequestPace,
        terminated: RequestPace,
        clock: Clock,
        pause: Callable[[timedelta], None],
    ) -> None:
        self._requests = requests
        self._launched = launched
        self._terminated = terminated
        self._clock = clock
        self._pause = pause

    def launch(self, instances: int) -> datetime:
        """Wait until EC2 accepts a launch of so many, and return that moment. Raises ThrottledError.

        The request's token is taken first: one that is lost, because there are no tokens of instances, is back in a moment.
        """
        now = self._clock.now()
        self._wait(max(self._requests.wait(now), self._launched.wait(now, instances)))
        return self._clock.now()

    def dry_run(self) -> datetime:
        """Wait until EC2 accepts a DryRun, which takes a request's token (docs/engineering/aws-facts.md#run-instances-bucket).

        It takes no tokens of instances. Raises ThrottledError.
        """
        self._wait(self._requests.wait(self._clock.now()))
        return self._clock.now()

    def terminate(self, instances: int) -> None:
        """Wait until EC2 terminates so many. Raises ThrottledError."""
        self._wait(self._terminated.wait(self._clock.now(), instances))

    def not_launched(self, instances: int) -> None:
        """Give tokens back: otherwise, refused launches would slow down those that succeed."""
        if instances <= 0:
            return
        try:
            self._launched.give_back(instances)
        except PortError as error:
            logger.warning("tokens of instances are not given back", extra={"problem": str(error)})

    def slow_down(self, sent: datetime | None, answers: int) -> None:
        """Reduce the pace. If the table does not answer, the next throttled launch does."""
        if sent is None or not answers:
            return
        try:
            self._requests.slow_down(sent, self._clock.now(), answers)
        except PortError as error:
            logger.warning("throttling is not stored", extra={"problem": str(error)})

    def _wait(self, wait: timedelta) -> None:
        if wait:
            self._pause(wait)


CALL: Final = "ec2:CreateFleet"
ATTEMPTS_MAX: Final = 2
"""A second attempt is made if a launch template was deleted since its last use."""

_TEMPLATE_CODES: Final = "InvalidLaunchTemplate"
"""Begin of EC2's codes for a launch template that does not exist."""


class FleetLauncher:
    """Launches instances."""

    def __init__(
        self,
        ec2: AwsService,
        templates: LaunchTemplates,
        instances: Instances,
        clock: Clock,
        turns: EC2Turns = UNPACED,
    ) -> None:
        self._turns = turns
        self._ec2 = ec2
        self._templates = templates
        self._instances = instances
        self._clock = clock

    def launch(self, order: LaunchOrder, node_class: EC2NodeClass, cluster: Cluster) -> Launched:
        """Launch the ordered instances, or some of them.

        Raises InsufficientCapacityError, LaunchDeniedError, TransientError, ConflictError.
        """
        problem = first_certain(launch_problems(node_class, cluster))
        if problem is not None:
            raise not_rendered(order, InvalidInputError(problem.problem, field=problem.field))
        try:
            rendered = render_launch(order, node_class, cluster)
        except InvalidInputError as error:
            raise not_rendered(order, error) from error
        if not rendered.offerings:
            message = "no offered type has an image and a subnet in its zone"
            raise _not_requested(order, NO_IMAGE_OR_SUBNET, message)
        try:
            answer = self._create_fleet(rendered)
            if _is_silent(answer):
                return self._after_silence(order, rendered)
        except ConflictError as error:
            return self._adopted(order, error)
        except NotFoundError as error:
            code, _, message = error.detail.partition(": ")
            raise refusal(error.call, error.detail, _all_refused(rendered, code, message)) from error
        except DeniedError as error:
            refused = _all_refused(rendered, error.code, error.message)
            raise refusal(error.call, error.detail, refused) from error
        return self._read(answer, rendered)

    def _create_fleet(self, rendered: RenderedLaunch) -> JsonObject:
        """Return EC2's answer. Launch templates that were deleted since their last use are created again, once.

        If EC2's answer reports them among its errors, the token is used up: the second request has another one.
        """
        request = rendered.request
        for attempt in range(1, ATTEMPTS_MAX + 1):
            count = int(request["TargetCapacitySpecification"]["TotalTargetCapacity"])
            sent = self._turns.launch(count)
            try:
                self._templates.ensure(rendered.templates)  # as many requests as the launch, from the same bucket
                answer = self._ec2.call("CreateFleet", **request)
            except TransientError as error:
                self._turns.slow_down(sent, error.answers)
                raise
            except NotFoundError as error:
                if attempt == ATTEMPTS_MAX or not error.detail.startswith(_TEMPLATE_CODES):
                    raise
            else:
                is_throttled = has_throttled(answer)
                self._turns.slow_down(sent, retries_of(answer) + is_throttled)
                if not is_throttled and not _is_silent(answer):
                    self._turns.not_launched(count - len(_launched_ids(answer)))
                if attempt == ATTEMPTS_MAX or not _lacks_template(answer):
                    return answer
                request = {**request, "ClientToken": f"{request['ClientToken']}-{attempt + 1}"}
            self._templates.forget(rendered.templates)
        raise TransientError(CALL, "not attempted")

    def _adopted(self, order: LaunchOrder, error: ConflictError) -> Launched:
        """Adopt the instance of an earlier request with the same token but other offerings, whose response was lost.

        Without the response, instances of a shared launch cannot be assigned to claims; each claim looks for a free one.
        """
        instances = self._instances.of_claim(order.claim) if order.count == 1 else ()
        if instances:
            return Launched(instances=instances[:1])
        if may_be_unlisted(order.unclear_at, self._clock.now()):
            raise SilentError(CALL, f"{error.detail}; an instance of it may not be listed yet") from error
        raise ConflictError(CALL, f"{error.detail}; no instance of it: order again with a new token") from error

    def _after_silence(self, order: LaunchOrder, rendered: RenderedLaunch) -> Launched:
        """Find out what an answer with neither instances nor errors means, before offerings are blamed or more is launched.

        EC2 does not say what it answers to a repeated token (docs/engineering/aws-facts.md#repeated-token): perhaps nothing,
        while instances of the first request run. They have the tag of this order, but may not be in EC2's lists yet. Any
        request may be a repetition: a sandbox that ends after its request stores no attempt. So silence is unclear until
        instances would be listed, and then the order gets another token. The offerings are without capacity only if EC2 is
        as silent to that.
        """
        instances = self._instances.of_claim(order.claim)
        if instances:
            return Launched(instances=instances[: order.count])
        detail = "EC2 launched nothing and returned no error; an earlier request may have launched"
        if may_be_unlisted(order.unclear_at, self._clock.now()):
            raise SilentError(CALL, detail)
        if not order.is_renewed:
            raise UnfulfilledError(CALL, detail, is_silent=True)
        return self._read({}, rendered)

    def _read(self, answer: JsonObject, rendered: RenderedLaunch) -> Launched:
        errors: Sequence[Mapping[str, Any]] = answer.get("Errors") or ()
        zone_of_subnet = {subnet: zone for zone, subnet in rendered.subnets.items()}
        tried = [offering.key for offering in rendered.offerings]
        refused = refused_offerings(errors, tried, zone_of_subnet)
        instances = tuple(
            self._instance(instance_id, launched, rendered, zone_of_subnet)
            for launched in answer.get("Instances") or ()
            for instance_id in launched.get("InstanceIds") or ()
        )
        if instances:
            return Launched(instances=self._placed(instances, rendered), refused=refused)
        raise failure(CALL, errors, refused, tried)

    def _placed(self, instances: tuple[Instance, ...], rendered: RenderedLaunch) -> tuple[Instance, ...]:
        """Return the instances with their zones: a node is found by its zone, and an answer may lack it.

        Raises:
            LostReplyError: If EC2 does not list them yet.
        """
        if all(instance.zone for instance in instances):
            return instances
        zones = {offering.zone for offering in rendered.offerings}
        if len(zones) == 1:
            return tuple(msgspec.structs.replace(instance, zone=min(zones)) for instance in instances)
        listed = {i.instance_id: i for i in self._instances.some([i.instance_id for i in instances])}
        if any(instance.instance_id not in listed for instance in instances):
            raise LostReplyError(CALL, "EC2 names no zone of what it launched, and does not list it yet")
        return tuple(
            msgspec.structs.replace(
                instance,
                zone=listed[instance.instance_id].zone,
                subnet_id=listed[instance.instance_id].subnet_id,
                **_reservation_of(instance.instance_type, listed[instance.instance_id].zone, rendered.offerings),
            )
            for instance in instances
        )

    def _instance(
        self,
        instance_id: str,
        launched: Mapping[str, Any],
        rendered: RenderedLaunch,
        zone_of_subnet: Mapping[str, str],
    ) -> Instance:
        """Build the instance from the answer alone: DescribeInstances may not list it yet."""
        choice = launched.get("LaunchTemplateAndOverrides") or {}
        override = choice.get("Overrides") or {}
        zone = override.get("AvailabilityZone") or zone_of_subnet.get(override.get("SubnetId", ""), "")
        instance_type = str(launched.get("InstanceType") or override.get("InstanceType", ""))
        interfaces = _interfaces_of(instance_type, rendered)
        return Instance(
            instance_id=instance_id,
            instance_type=instance_type,
            zone=zone,
            capacity_type=rendered.offerings[0].capacity_type,
            **_reservation_of(instance_type, zone, rendered.offerings),
            state="pending",
            launched_at=self._clock.now(),
            image_id=override.get("ImageId") or _image_of(choice, rendered),
            efa_interfaces=efa_interfaces(interfaces),
            subnet_id=override.get("SubnetId", ""),
            security_groups=tuple(sorted({group for interface in interfaces for group in interface.get("Groups", ())})),
            tags=rendered.tags,
        )


def not_rendered(order: LaunchOrder, error: InvalidInputError) -> LaunchDeniedError:
    """Return the denial of an order that cannot be rendered; EC2 is not called."""
    return _not_requested(order, NOT_RENDERED, str(error))


def _not_requested(order: LaunchOrder, code: str, message: str) -> LaunchDeniedError:
    """Return a denial of our own, in the form of EC2's: code and message."""
    return LaunchDeniedError(CALL, f"{code}: {message}", _all_refused(order, code, message))


def _all_refused(launch: LaunchOrder | RenderedLaunch, code: str, message: str) -> tuple[RefusedOffering, ...]:
    subnets = launch.subnets if isinstance(launch, RenderedLaunch) else {}
    return tuple(RefusedOffering(o.key, code, message, subnets.get(o.zone, "")) for o in launch.offerings)


def _is_silent(answer: JsonObject) -> bool:
    """Whether EC2 says neither that it launched nor why it did not."""
    return not _launched_ids(answer) and not answer.get("Errors")


def _launched_ids(answer: JsonObject) -> list[str]:
    return [identity for launched in answer.get("Instances") or () for identity in launched.get("InstanceIds") or ()]


def _lacks_template(answer: JsonObject) -> bool:
    """Whether nothing was launched because a template is missing."""
    errors = answer.get("Errors") or ()
    return not answer.get("Instances") and any(
        str(error.get("ErrorCode", "")).startswith(_TEMPLATE_CODES) for error in errors
    )


def _interfaces_of(instance_type: str, rendered: RenderedLaunch) -> Sequence[Mapping[str, Any]]:
    """Return the interfaces in the template that the type is launched from; each type has one."""
    interfaces = {template.name: template.data["NetworkInterfaces"] for template in rendered.templates}
    for config in rendered.request["LaunchTemplateConfigs"]:
        if any(override["InstanceType"] == instance_type for override in config["Overrides"]):
            by_template: Sequence[Mapping[str, Any]] = interfaces[
                config["LaunchTemplateSpecification"]["LaunchTemplateName"]
            ]
            return by_template
    return ()


def _reservation_of(instance_type: str, zone: str, offerings: Sequence[Offering]) -> JsonObject:
    """Return the reservation of the offering that was launched: a request has one for each type and zone."""
    for offering in offerings:
        if offering.reservation_id and (offering.instance_type, offering.zone) == (instance_type, zone):
            return {
                "reservation_id": offering.reservation_id,
                "reservation_type": offering.reservation_type,
                "interruptible": offering.interruptible,
            }
    return {}


def _image_of(choice: Mapping[str, Any], rendered: RenderedLaunch) -> str:
    name = str((choice.get("LaunchTemplateSpecification") or {}).get("LaunchTemplateName"))
    by_name = {template.name: str(template.data["ImageId"]) for template in rendered.templates}
    return by_name.get(name, next(iter(by_name.values())) if len(by_name) == 1 else "")


# Reads EC2's status checks: which instances fail them, and since when.


_CHECKS: Final = (
    ("instance", "instance-status.status", "InstanceStatus"),
    ("system", "system-status.status", "SystemStatus"),
)
"""Our name of a check, the filter on its result, and the field of the answer.

EC2 combines filters with AND, so each needs a separate call.
"""

_PAGE: Final = 1000


class InstanceStatuses:
    """Requests only impaired instances: one page per check in a healthy region."""

    def __init__(self, ec2: AwsService) -> None:
        self._ec2 = ec2

    def impaired(self) -> tuple[Impairment, ...]:
        """Return every failed check with the time since which it fails, by instance. Raises PortError.

        EC2 offers no filter by tag here, so instances of other owners are included. The check of attached volumes says nothing
        about the machine and is not read (Karpenter).
        """
        return tuple(sorted(self._failed()))

    def _failed(self) -> Iterator[Impairment]:
        for check, name, field in _CHECKS:
            wanted = [{"Name": name, "Values": ["impaired"]}]
            for status in self._ec2.items(
                "DescribeInstanceStatus", "InstanceStatuses", Filters=wanted, MaxResults=_PAGE
            ):
                yield from _impairments(status, check, field)


def _impairments(status: Mapping[str, Any], check: str, field: str) -> Iterator[Impairment]:
    details = (status.get(field) or {}).get("Details") or ()
    since = [d["ImpairedSince"] for d in details if d.get("Status") == "failed" and d.get("ImpairedSince")]
    if since:
        yield Impairment(status["InstanceId"], check, min(since))


# Implements `adapters.ports.CloudProvider` over EC2.


class AwsServices(msgspec.Struct, frozen=True):
    """Clients of the services that launching needs, all of one region.

    Attributes:
        launching: EC2 for CreateFleet, which may take long; None to ask `ec2`.
    """

    ec2: AwsService
    ssm: AwsService
    iam: AwsService
    eks: AwsService
    region: str
    launching: AwsService | None = None


class Ec2Cloud:
    """Launches, describes and terminates one cluster's instances, and resolves its EC2NodeClasses."""

    def __init__(
        self,
        services: AwsServices,
        *,
        cluster: str,
        clock: Clock,
        uses_reservations: bool = True,
        turns: EC2Turns = UNPACED,
        template_names: TemplateNames | None = None,
        types_for: TypesFor = unread,
        validates_launches: bool = True,
    ) -> None:
        """Create the clients' parts.

        Args:
            services: The clients.
            cluster: Name of the EKS cluster.
            clock: The time.
            uses_reservations: Whether the feature gate ReservedCapacity is on.
            turns: Assigns the turns of launches and terminations.
            template_names: Knows the existing launch templates across sandboxes.
            types_for: Returns the types as sized for a class.
            validates_launches: Whether EC2 is asked about each class with DryRun.
        """
        self._clock = clock
        self._cluster = EksCluster(services.eks, cluster, clock)
        self._statuses = InstanceStatuses(services.ec2)
        self._instances = Instances(services.ec2, cluster=cluster, before_terminating=turns.terminate)
        self._described = CoalescedCalls(self._instances.some)
        self._terminated = CoalescedCalls(self._instances.terminate)
        self._templates = LaunchTemplates(services.ec2, cluster=cluster, names=template_names)
        launching = services.launching or services.ec2
        self._launcher = FleetLauncher(launching, self._templates, self._instances, clock, turns)
        profiles = InstanceProfiles(services.iam, cluster=cluster, region=services.region, clock=clock)
        owned = OwnedProfiles(services.iam, cluster=cluster, region=services.region)
        self._unused_profiles = UnusedProfiles(services.ec2, profiles, owned, clock)
        validator = LaunchValidator(
            services.ec2, self._templates, clock, types_for, turns=turns, uses_reservations=uses_reservations
        )
        self._resolver = self._resolver_of(
            services,
            profiles,
            CapacityReservations(services.ec2, self._instances.in_reservations) if uses_reservations else None,
            validator.validate if validates_launches else None,
        )

    def _resolver_of(
        self,
        services: AwsServices,
        profiles: InstanceProfiles,
        reservations: CapacityReservations | None,
        validate: Validate | None,
    ) -> NodeClassResolver:
        """Return what resolves EC2NodeClasses; without `reservations` and `validate` it does neither."""
        return NodeClassResolver(
            self._cluster,
            NetworkSelection(services.ec2),
            Images(services.ec2, services.ssm),
            profiles,
            PlacementGroups(services.ec2),
            reservations,
            validate,
            self._clock,
        )

    def launch(self, order: LaunchOrder) -> Launched:
        """Launch the ordered instances, or some of them.

        Raises InsufficientCapacityError, LaunchDeniedError, TransientError, ConflictError.
        """
        return self._launcher.launch(order, self._resolved(order), self._cluster.describe().cluster)

    def instances(self, ids: Sequence[str] = ()) -> tuple[Instance, ...]:
        """Return all instances of this cluster that are not terminated, by id; with `ids` only those of them."""
        if not ids:
            return self._instances.all()
        return tuple(instance for instance in self._described(ids) if instance.instance_id in ids)

    def end_of(self, instance_id: str) -> InstanceEnd | None:
        """Return why an instance ended, None where EC2 does not know it any more. Raises ConflictError where it runs."""
        return self._instances.end_of(instance_id)

    def impaired(self) -> tuple[Impairment, ...]:
        """Return the instances of the region that fail a status check now, whoever owns them; by id."""
        return self._statuses.impaired()

    def terminate(self, instance_ids: Sequence[str]) -> None:
        """Terminate the instances; no error for those already gone."""
        self._terminated(instance_ids)

    def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of an instance. Raises NotFoundError."""
        self._instances.tag(instance_id, tags)

    def resolve(self, node_class: JsonObject, node_pools: Sequence[NodePool] = ()) -> JsonObject:
        """Return the status that the EC2NodeClass resolves to: subnets, securityGroups, amis, instanceProfile, conditions.

        The result also has EC2's answer about launches from it as `launchValidation`. `node_pools` are those of the class.
        """
        return self._resolver.resolve(node_class, node_pools)

    def user_data_problem(self, node_class: JsonObject, node_pool: NodePool) -> str:
        """Return why EC2 would not accept the user data of the NodePool's nodes, empty if it would. Raises PortError."""
        try:
            read = read_node_class(node_class)
            if not may_exceed(read, node_pool):
                return ""
            return user_data_problem(read, self._cluster.describe().cluster, node_pool)
        except InvalidInputError:
            return ""  # the condition of the class reports it, or the launch does

    def prune_templates(self) -> int:
        """Delete old launch templates and return how many: an account may have 5,000."""
        return self._templates.prune(self._clock.now())

    def prune_profiles(self, node_classes: Sequence[JsonObject]) -> int:
        """Delete instance profiles that no instance and none of these classes, which are all, needs; return how many."""
        return self._unused_profiles.prune(node_classes)

    def _resolved(self, order: LaunchOrder) -> EC2NodeClass:
        """Return the class with a status, resolved here if none was written yet for its current spec."""
        manifest = order.node_class
        try:
            node_class = read_node_class(manifest)
            status = node_class.status
            if status.subnets and status.amis and status.security_groups and not is_stale(manifest):
                return node_class
            return read_node_class({**manifest, "status": self._resolver.resolve(manifest, is_validated=False)})
        except InvalidInputError as error:
            raise not_rendered(order, error) from error
