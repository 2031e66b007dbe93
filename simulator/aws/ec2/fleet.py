"""CreateFleet of type instant as EC2 does it: capacity by pool, choice by price, tokens, errors, partial fulfilment.

EC2 does not publish how `price-capacity-optimized` weighs price against depth; here it is the cheapest pool that has
capacity. Ties go by the order of the overrides, so a request has one outcome.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from ipaddress import IPv4Network
from itertools import count, islice
from typing import Any, Final

import msgspec

from core import labels
from core.model.values import quantity
from core.model.values.quotas import quota_of
from simulator.aws.ec2.instances import BLOCK, INTERRUPTIBLE, Instance, Instances, Reservations, Subnet
from simulator.aws.ec2.templates import Images, Template, filtered, of_fields, of_tags, paged, tag_list, tags_of
from simulator.aws.installation import NO_CAPACITY, Exchange, Pool
from simulator.aws.queues import AwsError, UnansweredError
from simulator.clock import VirtualClock
from simulator.record import Recorder

# The embedded account's VPC: subnets and one security group, all discoverable by tag.


DISCOVERY: Final = {"karpenter.sh/discovery": "fleetwright"}
NETWORK: Final = IPv4Network("10.0.0.0/16")
_FURTHER_NETWORK: Final = IPv4Network("10.128.0.0/9")
_FURTHER_PREFIX: Final = 16
"""Subnets besides the first of each zone are of this network and size."""

GROUP_NAME: Final = "fleetwright-nodes"
_FEWEST_SUBNETS: Final = 8
_RESERVED: Final = 4
"""EC2 keeps the first four addresses (and the last) of each subnet for itself."""

_PAGE: Final = 1000


class Network:
    """Subnets and one security group.

    Args:
        zone_ids: Zone ids by zone name, as far as known.
    """

    def __init__(
        self,
        subnets: Iterable[Subnet],
        *,
        vpc_id: str = "",
        group_id: str = "",
        zone_ids: Mapping[str, str] | None = None,
    ) -> None:
        self._subnets = {subnet.id: subnet for subnet in subnets}
        self._zone_ids = dict(zone_ids or {})
        self._created_count = 0
        self.vpc_id = vpc_id or _id("vpc", GROUP_NAME)
        self.group_id = group_id or _id("sg", GROUP_NAME)

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """All subnets: the first of each zone in the order of zones, then those created later."""
        return tuple(self._subnets.values())

    def subnet(self, subnet_id: str) -> Subnet | None:
        """The subnet of this id."""
        return self._subnets.get(subnet_id)

    def set_free(self, zone: str, number: int, free: int) -> bool:
        """Set the free addresses of a zone's subnet, counted from 1. One that does not exist is created.

        Returns:
            False if there is no such zone.
        """
        zone_subnets = [subnet for subnet in self._subnets.values() if subnet.zone == zone]
        if not zone_subnets:
            return False
        if number > len(zone_subnets):
            zone_subnets += [self._created(zone, position + 1) for position in range(len(zone_subnets), number)]
        zone_subnets[number - 1].free = free
        return True

    def _created(self, zone: str, number: int) -> Subnet:
        block = next(islice(_FURTHER_NETWORK.subnets(new_prefix=_FURTHER_PREFIX), self._created_count, None))
        self._created_count += 1
        created = Subnet(_id("subnet", f"{zone}/{number}"), zone, str(block), block.num_addresses - _RESERVED - 1)
        self._subnets[created.id] = created
        return created

    def take_address(self, subnet: Subnet) -> str:
        """Return the next free address of the subnet. The caller checks first that there is one."""
        block = IPv4Network(subnet.network)
        size = block.num_addresses - _RESERVED - 1
        while True:
            address = str(block[_RESERVED + subnet.handed_out % size])
            subnet.handed_out += 1
            if address not in subnet.taken:
                break
        subnet.free -= 1
        subnet.taken.add(address)
        return address

    def describe_subnets(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeSubnets. Raises AwsError for an unknown id."""
        ids = request.get("SubnetIds") or list(self._subnets)
        for unknown in [subnet_id for subnet_id in ids if subnet_id not in self._subnets]:
            raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{unknown}' does not exist")
        matching = filtered((self._subnets[i] for i in ids), request.get("Filters"), self._subnet_values)
        return paged("Subnets", [self._described(subnet) for subnet in matching], request, _PAGE)

    def describe_security_groups(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeSecurityGroups. Raises AwsError for an unknown id."""
        for unknown in [group for group in request.get("GroupIds") or () if group != self.group_id]:
            raise AwsError("InvalidGroup.NotFound", f"The security group '{unknown}' does not exist")
        groups = filtered((self.group_id,), request.get("Filters"), self._group_values)
        described = [
            {"GroupId": group, "GroupName": GROUP_NAME, "VpcId": self.vpc_id, "Tags": tag_list(DISCOVERY)}
            for group in groups
        ]
        return paged("SecurityGroups", described, request, _PAGE)

    def _described(self, subnet: Subnet) -> dict[str, Any]:
        return {
            "SubnetId": subnet.id,
            "VpcId": self.vpc_id,
            "State": "available",
            "CidrBlock": subnet.network,
            "AvailabilityZone": subnet.zone,
            "AvailabilityZoneId": self._zone_ids.get(subnet.zone, ""),
            "AvailableIpAddressCount": subnet.free,
            "Tags": tag_list(DISCOVERY),
        }

    def _subnet_values(self, subnet: Subnet, name: str) -> tuple[str, ...]:
        by_tag = of_tags(DISCOVERY, name)
        if by_tag is not None:
            return by_tag
        fields = {"subnet-id": subnet.id, "vpc-id": self.vpc_id, "availability-zone": subnet.zone, "state": "available"}
        return of_fields(fields, name)

    def _group_values(self, group: str, name: str) -> tuple[str, ...]:
        by_tag = of_tags(DISCOVERY, name)
        if by_tag is not None:
            return by_tag
        return of_fields({"group-id": group, "group-name": GROUP_NAME, "vpc-id": self.vpc_id}, name)


def subnets_in(zones: Iterable[str]) -> tuple[Subnet, ...]:
    """A subnet for each zone, of the same size."""
    names = tuple(zones)
    blocks = NETWORK.subnets(prefixlen_diff=(max(len(names), _FEWEST_SUBNETS) - 1).bit_length())
    return tuple(
        Subnet(_id("subnet", zone), zone, str(block), block.num_addresses - _RESERVED - 1)
        for zone, block in zip(names, blocks, strict=False)
    )


def _id(prefix: str, name: str) -> str:
    return f"{prefix}-0{hashlib.sha256(name.encode()).hexdigest()[:16]}"


# The embedded account's placement groups: one of each strategy, named after it.


PARTITIONS: Final = 3


class PlacementGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One group; `partitions` is 0 for every strategy but `partition`."""

    id: str
    name: str
    strategy: str
    partitions: int = 0
    state: str = "available"


GROUPS: Final = (
    PlacementGroup(id="pg-0cluster", name="cluster", strategy="cluster"),
    PlacementGroup(id="pg-0partition", name="partition", strategy="partition", partitions=PARTITIONS),
    PlacementGroup(id="pg-0spread", name="spread", strategy="spread"),
    PlacementGroup(id="pg-0gone", name="gone", strategy="spread", state="deleting"),
)


class PlacementGroups:
    """Describes the groups, and places instances in them."""

    def __init__(self) -> None:
        self._launched = count()

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribePlacementGroups."""
        ids = request.get("GroupIds") or [group.id for group in GROUPS]
        unknown = sorted(set(ids) - {group.id for group in GROUPS})
        if unknown:
            raise AwsError("InvalidPlacementGroup.Unknown", f"The Placement Group '{unknown[0]}' is unknown.")
        groups = [group for group in GROUPS if group.id in ids]
        matching = filtered(groups, request.get("Filters"), _values)
        return {"PlacementGroups": [_described(group) for group in matching]}

    def problem(self, placement: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the error code and message with which EC2 refuses a launch into a missing group; None for an existing one."""
        wanted = placement.get("GroupId") or placement.get("GroupName")
        if not wanted or self._find(wanted) is not None:
            return None
        return "InvalidPlacementGroup.Unknown", f"The Placement Group '{wanted}' is unknown."

    def place(self, placement: Mapping[str, Any]) -> tuple[str, int]:
        """Return the group and the partition of one more instance: EC2 fills partitions evenly if none is requested."""
        group = self._find(placement.get("GroupId") or placement.get("GroupName") or "")
        if group is None:
            return "", 0
        chosen = next(self._launched) % group.partitions + 1 if group.partitions else 0
        return group.id, int(placement.get("PartitionNumber") or chosen)

    def _find(self, wanted: str) -> PlacementGroup | None:
        return next(
            (group for group in GROUPS if wanted in (group.id, group.name) and group.state == "available"), None
        )


def _described(group: PlacementGroup) -> dict[str, Any]:
    described = {"GroupId": group.id, "GroupName": group.name, "Strategy": group.strategy, "State": group.state}
    return {**described, "PartitionCount": group.partitions} if group.partitions else described


def _values(group: PlacementGroup, name: str) -> tuple[str, ...]:
    fields = {"group-name": group.name, "strategy": group.strategy, "state": group.state}
    return of_fields(fields, name)


# The embedded account's vCPU quotas: refuses launches beyond them, and answers Service Quotas.


SHORT: Final = "VcpuLimitExceeded"
_QUOTA_PAGE: Final = 100


class VcpuQuotas:
    """Quotas by code; a quota without a limit is not listed and refuses nothing."""

    def __init__(self, limits: Mapping[str, int], exchange: Exchange, instances: Instances) -> None:
        self._limits = dict(sorted(limits.items()))
        self._exchange = exchange
        self._instances = instances

    def refuses(self, pool: Pool) -> tuple[str, str] | None:
        """The error code and message with which one more instance of a pool is refused; None where it is not."""
        code = _code(pool)
        limit = self._limits.get(code)
        if limit is None or self._used(code) + self._vcpus(pool) <= limit:
            return None
        return SHORT, f"Quota {code} allows {limit} vCPUs, and {self._used(code)} run"

    def list_quotas(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer service-quotas:ListServiceQuotas."""
        listed = [{"ServiceCode": "ec2", "QuotaCode": code, "Value": float(n)} for code, n in self._limits.items()]
        return paged("Quotas", listed, request, _QUOTA_PAGE)

    def _used(self, code: str) -> int:
        alive = (running for running in self._instances.all() if running.is_alive and not running.reservation)
        return sum(self._vcpus(running.pool) for running in alive if _code(running.pool) == code)

    def _vcpus(self, pool: Pool) -> int:
        instance_type = self._exchange.instance_type(pool.instance_type)
        return 0 if instance_type is None else instance_type.capacity.get(quantity.CPU, 0) // 1000


def _code(pool: Pool) -> str:
    return quota_of(pool.instance_type).code(labels.SPOT if pool.capacity_type == labels.SPOT else labels.ON_DEMAND)


# Checks a launch as EC2 does before it looks for capacity.


USER_DATA_MAX: Final = 16384
"""EC2's limit on user data, in bytes before encoding."""

TAGS_MAX: Final = 50
"""EC2's limit on a resource's tags."""

_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}


def check_tags(request: Mapping[str, Any]) -> None:
    """Raise AwsError if the request gives a resource more tags than EC2 accepts."""
    for specification in request.get("TagSpecifications") or ():
        if len(specification["Tags"]) > TAGS_MAX:
            raise AwsError("TagLimitExceeded", f"A {specification['ResourceType']} may have {TAGS_MAX} tags at most")


class LaunchChecks:
    """Checks a launch and the resources that it refers to.

    Args:
        profile_arn: Returns the ARN of an instance profile by its name or ARN; empty for none.
        denies: Returns the error code with which a fault denies a pool, empty for none.
        placement_groups: The existing groups; None: one of each strategy.
        quotas: The account's vCPU quotas; None: no limits.
        takes_instance: Takes a token for an instance; returns whether there was one.
    """

    def __init__(
        self,
        exchange: Exchange,
        images: Images,
        network: Network,
        profile_arn: Callable[[str], str],
        denies: Callable[[Pool], str] = lambda _: "",
        quotas: VcpuQuotas | None = None,
        placement_groups: PlacementGroups | None = None,
        takes_instance: Callable[[], bool] = lambda: True,
    ) -> None:
        self.takes_instance = takes_instance
        self.placement_groups = placement_groups or PlacementGroups()
        self._exchange = exchange
        self._images = images
        self._network = network
        self.profile_arn = profile_arn
        self._denies = denies
        self._quotas = quotas

    def beyond_quota(self, pool: Pool) -> tuple[str, str] | None:
        """The error code and message with which one more instance of a pool exceeds a quota; None where it does not."""
        return None if self._quotas is None else self._quotas.refuses(pool)

    def problem(self, template: Template, override: Mapping[str, Any], pool: Pool) -> tuple[str, str] | None:
        """The error code and message with which EC2 would refuse to launch this here; None where it would not."""
        denied = self._denies(pool)
        if denied:
            return denied, "embedded in a scenario"
        image_id = override.get("ImageId") or template.image_id
        image = self._images.find(image_id)
        if image is None:
            return "InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist"
        wanted = self._exchange.architecture(pool.instance_type)
        if wanted and _ARCHITECTURES.get(image.architecture) != wanted:
            message = f"The architecture of {pool.instance_type} does not match that of {image_id}"
            return "InvalidParameterValue", message
        for group in template.security_groups:
            if group != self._network.group_id:
                return "InvalidGroup.NotFound", f"The security group '{group}' does not exist"
        if unknown := self.placement_groups.problem(template.placement):
            return unknown
        if len(template.user_data) * 3 // 4 > USER_DATA_MAX:
            return "InvalidUserData.Malformed", f"User data is limited to {USER_DATA_MAX} bytes"
        if template.instance_profile and not self.profile_arn(template.instance_profile):
            return "InvalidParameterValue", f"Invalid IAM Instance Profile name '{template.instance_profile}'"
        return None


THROTTLED: Final = "RequestLimitExceeded"
NO_ADDRESSES: Final = "InsufficientFreeAddressesInSubnet"
TOO_CHEAP: Final = "SpotMaxPriceTooLow"
_WOULD_SUCCEED: Final = AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set", 412)
OVERRIDES_MAX: Final = 300
"""EC2's quota of launch specifications in one request."""

FindTemplate = Callable[[Mapping[str, Any]], Template]
"""Finds the template that a fleet names; raises AwsError."""

_MARKETS: Final = {"capacity-block": BLOCK, "reserved-capacity": INTERRUPTIBLE}
"""Target capacity type of a fleet → market type of its templates."""

_BY_PRIORITY: Final = ("prioritized", "capacity-optimized-prioritized")


class _Choice(msgspec.Struct, kw_only=True):
    """One override with its template, and the result."""

    index: int
    pool: Pool
    subnet: Subnet | None
    template: Template
    override: dict[str, Any]
    max_price: int | None
    refusal: tuple[str, str] | None = None
    launched: list[str] = []


class Fleets:
    """Answers CreateFleet.

    Attributes:
        repeats_launches: Whether the whole answer is repeated to a token that is known; otherwise only the fleet's id.
    """

    def __init__(
        self,
        clock: VirtualClock,
        recorder: Recorder,
        exchange: Exchange,
        instances: Instances,
        network: Network,
        find_template: FindTemplate,
        checks: LaunchChecks,
        reservations: Reservations,
    ) -> None:
        self.repeats_launches = True
        self._clock = clock
        self._recorder = recorder
        self._exchange = exchange
        self._instances = instances
        self._network = network
        self._find_template = find_template
        self._checks = checks
        self._reservations = reservations
        self._by_token: dict[str, tuple[str, dict[str, Any]]] = {}

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """Launch as many of the requested instances as capacity allows.

        Raises:
            AwsError: For a malformed request, or a token that another request has used.
        """
        token, content = request.get("ClientToken", ""), _content(request)
        if token in self._by_token:
            earlier, answer = self._by_token[token]
            if earlier != content:
                raise AwsError("IdempotentParameterMismatch", "The client token was used with other parameters")
            return copy.deepcopy(answer) if self.repeats_launches else {"FleetId": answer["FleetId"]}
        check_tags(request)
        if request.get("DryRun"):
            self._choices(
                request, labels.ON_DEMAND, request["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
            )
            raise _WOULD_SUCCEED
        answer = self._launch(request)
        if token:
            self._by_token[token] = (content, copy.deepcopy(answer))
        return answer

    def try_one(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer RunInstances with DryRun: EC2's checks before it looks for capacity.

        Raises:
            AwsError: Always: the request's error, or DryRunOperation if it would have succeeded.
            UnansweredError: If an instance is to be launched: the functions launch with CreateFleet.
        """
        if not request.get("DryRun"):
            raise UnansweredError("ec2:RunInstances without DryRun")
        template, interfaces = self._find_template(request["LaunchTemplate"]), request.get("NetworkInterfaces") or ()
        override = {"SubnetId": next((interface["SubnetId"] for interface in interfaces), ""), **request}
        choice = self._choice(0, template, override, labels.ON_DEMAND)
        broken = self._checks.problem(template, override, choice.pool)
        if broken is not None:
            raise AwsError(*broken)
        if choice.subnet is None:
            raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{override['SubnetId']}' does not exist")
        raise _WOULD_SUCCEED

    def _launch(self, request: dict[str, Any]) -> dict[str, Any]:
        target = request["TargetCapacitySpecification"]
        kind = target.get("DefaultTargetCapacityType", labels.ON_DEMAND)
        spot = kind == labels.SPOT
        options = request.get("SpotOptions" if spot else "OnDemandOptions", {})
        choices = self._choices(request, labels.SPOT if spot else labels.ON_DEMAND, kind)
        choices.sort(key=self._order(options.get("AllocationStrategy", "lowest-price")))
        fleet = self._instances.new_id("fleet")
        self._refuse_parts(choices, options)
        self._fill(choices, int(target["TotalTargetCapacity"]), request, fleet)
        return {
            "FleetId": fleet,
            "Errors": [self._error(choice) for choice in choices if choice.refusal is not None],
            "Instances": [self._launched(choice) for choice in choices if choice.launched],
        }

    def _choices(self, request: dict[str, Any], capacity_type: str, kind: str) -> list[_Choice]:
        choices: list[_Choice] = []
        for config in request["LaunchTemplateConfigs"]:
            template = self._find_template(config["LaunchTemplateSpecification"])
            if _MARKETS.get(kind, "") != template.market:
                raise AwsError("InvalidFleetConfiguration", f"{kind} does not go with market type '{template.market}'")
            for override in config.get("Overrides") or [{}]:
                choices.append(self._choice(len(choices), template, override, capacity_type))
        if len(choices) > OVERRIDES_MAX:
            raise AwsError("InvalidParameterValue", f"{len(choices)} launch specifications, at most {OVERRIDES_MAX}")
        if not choices:
            raise AwsError("MissingParameter", "The request must contain LaunchTemplateConfigs with overrides")
        return choices

    def _choice(self, index: int, template: Template, override: Mapping[str, Any], capacity_type: str) -> _Choice:
        subnet = self._network.subnet(override.get("SubnetId") or template.subnet_id)
        zone = subnet.zone if subnet is not None else override.get("AvailabilityZone", "")
        ceiling = override.get("MaxPrice")
        name = override.get("InstanceType") or template.instance_type
        return _Choice(
            index=index,
            pool=self._reservations.pool_for(template, Pool(name, zone, capacity_type)),
            subnet=subnet,
            template=template,
            override=dict(override),
            max_price=None if ceiling is None else round(Fraction(str(ceiling)) * 10**9),
        )

    def _order(self, strategy: str) -> Callable[[_Choice], Any]:
        if strategy in _BY_PRIORITY:
            return lambda choice: (float(choice.override.get("Priority", 0)), choice.index)
        return lambda choice: (self._exchange.price(choice.pool) or 0, choice.index)

    def _fill(self, choices: list[_Choice], wanted: int, request: dict[str, Any], fleet: str) -> None:
        for number in range(wanted):
            token = _token_of(request, number, wanted)
            for choice in choices:
                if choice.refusal is not None:
                    continue
                choice.refusal = self._refusal(choice)
                if choice.refusal is None and not self._checks.takes_instance():
                    choice.refusal = (THROTTLED, "Request limit exceeded.")
                    return
                if choice.refusal is None:
                    self._launch_one(choice, request, fleet, token)
                    break
                self._record_refusal(choice)

    def _refuse_parts(self, choices: list[_Choice], options: Mapping[str, Any]) -> None:
        """Refuse everything if the fleet's pools together hold fewer instances than its minimum target capacity."""
        minimum = int(options.get("MinTargetCapacity", 0))
        if minimum < 1:
            return
        if not (options.get("SingleAvailabilityZone") or options.get("SingleInstanceType")):
            text = "MinTargetCapacity requires SingleInstanceType or SingleAvailabilityZone"
            raise AwsError("InvalidParameterValue", text)
        if options.get("SingleAvailabilityZone") and len({choice.pool.zone for choice in choices}) > 1:
            raise AwsError("InvalidParameterValue", "the fleet's overrides are in several zones")
        places = [self._exchange.left(choice.pool) for choice in choices if self._refusal(choice) is None]
        if None in places or sum(filter(None, places)) >= minimum:
            return
        for choice in choices:
            text = f"There is no {choice.pool.instance_type} capacity for {minimum} instances in {choice.pool.zone}"
            choice.refusal = self._refusal(choice) or (NO_CAPACITY, text)
            self._record_refusal(choice)

    def _refusal(self, choice: _Choice) -> tuple[str, str] | None:
        """The error code and message with which this pool is refused now."""
        broken = self._checks.problem(choice.template, choice.override, choice.pool)
        if broken is not None:
            return broken
        subnet = choice.subnet
        if subnet is None:
            return "InvalidSubnetID.NotFound", f"The subnet ID '{choice.override.get('SubnetId')}' does not exist"
        if choice.template.reservation:
            full = self._reservations.refuses(choice.template, choice.pool)
            if full is not None:
                return full
        elif short := self._checks.beyond_quota(choice.pool):
            return short
        elif code := self._exchange.refuses(choice.pool):
            return code, f"There is no {choice.pool.instance_type} capacity in {choice.pool.zone}"
        if subnet.free <= 0:
            return NO_ADDRESSES, f"There are not enough free addresses in subnet '{subnet.id}'"
        price = self._exchange.price(choice.pool)
        if choice.max_price is not None and price is not None and price > choice.max_price:
            return (
                TOO_CHEAP,
                "Your Spot request price is lower than the minimum required Spot request fulfillment price",
            )
        return None

    def _launch_one(self, choice: _Choice, request: dict[str, Any], fleet: str, token: str) -> None:
        subnet, template = choice.subnet, choice.template
        if subnet is None:
            return
        self._exchange.take(choice.pool)
        group, partition = self._checks.placement_groups.place(template.placement)
        instance = Instance(
            id=self._instances.new_id(),
            pool=choice.pool,
            image_id=choice.override.get("ImageId") or template.image_id,
            subnet=subnet,
            private_ip=self._network.take_address(subnet),
            launched_at=self._clock.now(),
            price=self._exchange.price(choice.pool) or 0,
            token=token,
            tags={**template.tags, **tags_of(request, "instance"), "aws:ec2:fleet-id": fleet},
            user_data=template.user_data,
            security_groups=template.security_groups,
            instance_profile=self._checks.profile_arn(template.instance_profile),
            placement_group=group,
            partition=partition,
        )
        self._reservations.take(instance, template)
        choice.launched.append(instance.id)
        self._instances.launch(instance)

    def _record_refusal(self, choice: _Choice) -> None:
        code = choice.refusal[0] if choice.refusal is not None else ""
        self._recorder.emit(
            "launchRefused",
            instanceType=choice.pool.instance_type,
            zone=choice.pool.zone,
            capacityType=choice.pool.capacity_type,
            code=code,
        )

    def _error(self, choice: _Choice) -> dict[str, Any]:
        code, message = choice.refusal or ("", "")
        return {**self._described(choice), "ErrorCode": code, "ErrorMessage": message}

    def _launched(self, choice: _Choice) -> dict[str, Any]:
        return {
            **self._described(choice),
            "InstanceIds": list(choice.launched),
            "InstanceType": choice.pool.instance_type,
        }

    def _described(self, choice: _Choice) -> dict[str, Any]:
        overrides = {**choice.override, "InstanceType": choice.pool.instance_type, "AvailabilityZone": choice.pool.zone}
        return {
            "LaunchTemplateAndOverrides": {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateId": choice.template.id,
                    "LaunchTemplateName": choice.template.name,
                    "Version": str(choice.template.version),
                },
                "Overrides": overrides,
            },
            "Lifecycle": choice.pool.capacity_type,
        }


def _token_of(request: Mapping[str, Any], number: int, wanted: int) -> str:
    """Return the token recorded with an instance; requests for several get a token per instance, so that each is unique."""
    token = request.get("ClientToken", "")
    return f"{token}#{number}" if token and wanted > 1 else token


def _content(request: Mapping[str, Any]) -> str:
    return json.dumps({k: v for k, v in request.items() if k != "ClientToken"}, sort_keys=True, default=str)
