"""CreateFleet of type instant as EC2 does it: capacity by pool, choice by price, tokens, errors, partial fulfilment.

EC2 does not publish how `price-capacity-optimized` weighs price against depth; here it is the cheapest pool that has
capacity. Ties go by the order of the overrides, so a request has one outcome.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from core import labels
from simulator.aws.ec2.filters import tags_of
from simulator.aws.ec2.instance import Instance, Subnet
from simulator.aws.ec2.instances import Instances
from simulator.aws.ec2.launch_checks import LaunchChecks, check_tags
from simulator.aws.ec2.network import Network
from simulator.aws.ec2.reservations import BLOCK, INTERRUPTIBLE, Reservations
from simulator.aws.ec2.templates import Template
from simulator.aws.errors import AwsError, UnansweredError
from simulator.aws.exchange import Exchange, Pool
from simulator.clock import VirtualClock
from simulator.record import Recorder

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
    """Answers CreateFleet."""

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
            known, answer = self._by_token[token]
            if known != content:
                raise AwsError("IdempotentParameterMismatch", "The client token was used with other parameters")
            return copy.deepcopy(answer)
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
        override = {"SubnetId": next((found["SubnetId"] for found in interfaces), ""), **request}
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
                if choice.refusal is None:
                    self._launch_one(choice, request, fleet, token)
                    break
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
