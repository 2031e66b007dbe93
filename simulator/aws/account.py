"""Assembles the embedded AWS account with its small services, and routes each call to the part that answers it."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.document import Shape
from core.model.values import quantity
from installation import wiring
from simulator.aws.dynamodb.table import Schema, Table
from simulator.aws.ec2.fleet import Fleets, LaunchChecks, Network, PlacementGroups, VcpuQuotas, subnets_in
from simulator.aws.ec2.instances import DEFAULT, Bus, Instance, Instances, Reservation, Reservations
from simulator.aws.ec2.requests import EC2Writes, InstanceCalls, Rate, RequestRates
from simulator.aws.ec2.templates import Images, Templates, page, paged
from simulator.aws.installation import (
    ACCOUNT_ID,
    BUCKET,
    GROUP,
    NODE_ROLE,
    TABLE,
    TOPIC,
    Exchange,
    OperatorBrakes,
    Pool,
    Region,
    describe_cluster,
    settings_in,
)
from simulator.aws.queues import DENIED_CODE, AwsError, Queues
from simulator.aws.session import Responder, Schedules, Session, Wire
from simulator.aws.states import Executions
from simulator.clock import VirtualClock, stream
from simulator.invocation import faults
from simulator.invocation.faults import Faults, MessageFaults, latency
from simulator.record import Recorder
from simulator.step_forms import Silences, Tokens

# The S3 bucket: whole objects, conditional reads, and lists.


KEYS_A_PAGE: Final = 1000


class _Object(msgspec.Struct, frozen=True):
    body: bytes
    etag: str
    content_type: str
    written_at: datetime


class Bucket:
    """Answers S3's calls for one bucket."""

    def __init__(self, clock: VirtualClock, name: str) -> None:
        self._clock = clock
        self._name = name
        self._objects: dict[str, _Object] = {}

    def get(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer s3:GetObject.

        Raises:
            AwsError: If the object does not exist, or the caller already has it (ETag).
        """
        self._check(request)
        content = self._objects.get(request["Key"])
        if content is None:
            raise AwsError("NoSuchKey", "The specified key does not exist.", 404)
        if request.get("IfNoneMatch") == content.etag:
            raise AwsError("304", "Not Modified", 304)
        return {
            "Body": io.BytesIO(content.body),
            "ContentLength": len(content.body),
            "ContentType": content.content_type,
            "ETag": content.etag,
            "LastModified": content.written_at,
        }

    def put(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer s3:PutObject."""
        self._check(request)
        body = bytes(request["Body"])
        etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        content_type = request.get("ContentType", "binary/octet-stream")
        self._objects[request["Key"]] = _Object(body, etag, content_type, self._clock.now())
        return {"ETag": etag}

    def list(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer s3:ListObjectsV2: a page of the names in the order of their bytes, behind StartAfter."""
        self._check(request)
        prefix, after = request.get("Prefix", ""), request.get("StartAfter", "")
        names = sorted((name for name in self._objects if name.startswith(prefix) and name > after), key=str.encode)
        page = names[:KEYS_A_PAGE]
        contents = [{"Key": name, "Size": len(self._objects[name].body)} for name in page]
        return {"Contents": contents, "KeyCount": len(page), "IsTruncated": len(names) > len(page)}

    def _check(self, request: dict[str, Any]) -> None:
        if request["Bucket"] != self._name:
            raise AwsError("NoSuchBucket", "The specified bucket does not exist", 404)


# IAM's instance profiles, each with at most one role.


class _Profile(msgspec.Struct):
    described: dict[str, Any]
    roles: list[str] = []


class InstanceProfiles:
    """Answers IAM's calls about instance profiles. `roles` are the account's roles, by name."""

    def __init__(self, clock: VirtualClock, account: str, roles: Iterable[str]) -> None:
        self._clock = clock
        self._account = account
        self._roles = frozenset(roles)
        self._profiles: dict[str, _Profile] = {}

    def arn_of(self, name: str) -> str:
        """Return the ARN of the profile with this name or ARN; empty for none."""
        arns = {key: str(profile.described["Arn"]) for key, profile in self._profiles.items()}
        return arns.get(name) or next((arn for arn in arns.values() if arn == name), "")

    def get(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:GetInstanceProfile. Raises AwsError if there is none."""
        profile = self._find(request["InstanceProfileName"])
        roles = [
            {
                "Path": "/",
                "RoleName": role,
                "RoleId": f"AROA{role.upper():0<17.17}",
                "Arn": f"arn:aws:iam::{self._account}:role/{role}",
                "CreateDate": profile.described["CreateDate"],
            }
            for role in profile.roles
        ]
        return {"InstanceProfile": {**profile.described, "Roles": roles}}

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:CreateInstanceProfile. Raises AwsError if it exists."""
        name, path = request["InstanceProfileName"], request.get("Path", "/")
        if name in self._profiles:
            raise AwsError("EntityAlreadyExists", f"Instance Profile {name} already exists.", 409)
        described = {
            "Path": path,
            "InstanceProfileName": name,
            "InstanceProfileId": f"AIPA{len(self._profiles):017d}",
            "Arn": f"arn:aws:iam::{self._account}:instance-profile{path}{name}",
            "CreateDate": self._clock.now(),
            "Tags": [dict(tag) for tag in request.get("Tags") or ()],
        }
        self._profiles[name] = _Profile(described)
        return self.get(request)

    def add_role(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:AddRoleToInstanceProfile.

        Raises:
            AwsError: If there is no such profile or role, or the profile has a role already.
        """
        profile, role = self._find(request["InstanceProfileName"]), request["RoleName"]
        if role not in self._roles:
            raise AwsError("NoSuchEntity", f"The role with name {role} cannot be found.", 404)
        if profile.roles:
            raise AwsError("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1", 409)
        profile.roles.append(role)
        return {}

    def remove_role(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:RemoveRoleFromInstanceProfile. Raises AwsError if there is no such profile, or it has not the role."""
        profile, role = self._find(request["InstanceProfileName"]), request["RoleName"]
        if role not in profile.roles:
            raise AwsError("NoSuchEntity", f"The role with name {role} cannot be found.", 404)
        profile.roles.remove(role)
        return {}

    def delete(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:DeleteInstanceProfile. Raises AwsError if there is none, or it has a role."""
        name = request["InstanceProfileName"]
        if self._find(name).roles:
            raise AwsError(
                "DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.", 409
            )
        del self._profiles[name]
        return {}

    def list_all(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:ListInstanceProfiles, on one page."""
        prefix = request.get("PathPrefix", "/")
        names = [name for name, profile in self._profiles.items() if profile.described["Path"].startswith(prefix)]
        profiles = [self.get({"InstanceProfileName": name})["InstanceProfile"] for name in sorted(names)]
        return {"InstanceProfiles": profiles, "IsTruncated": False}

    def _find(self, name: str) -> _Profile:
        profile = self._profiles.get(name)
        if profile is None:
            raise AwsError("NoSuchEntity", f"Instance Profile {name} cannot be found.", 404)
        return profile


# Describes what the embedded account sells: types, zones, prices.


_PAGE: Final = 1000
_TYPES_PAGE: Final = 100
_PRODUCTS_PAGE: Final = 100
LINUX: Final = "Linux/UNIX"


class PriceListCalls:
    """Answers DescribeInstanceTypes, DescribeInstanceTypeOfferings, DescribeSpotPriceHistory and Pricing's GetProducts."""

    def __init__(self, clock: VirtualClock, exchange: Exchange, shapes: Iterable[Shape], region: str) -> None:
        self._clock = clock
        self._exchange = exchange
        self._region = region
        self._shapes = {shape.instance_type: shape for shape in shapes}
        self._described: tuple[dict[str, Any], ...] = ()
        self._by_filter: dict[str, list[dict[str, Any]]] = {}
        self._products: tuple[int, list[dict[str, Any]]] = (-1, [])

    def describe_types(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeInstanceTypes.

        Raises:
            AwsError: If a type is unknown or a filter is none that we have.
        """
        if not self._described:
            self._described = tuple(msgspec.to_builtins(self._shapes[name]) for name in sorted(self._shapes))
        names = request.get("InstanceTypes") or []
        unknown = sorted(set(names) - set(self._shapes))
        if unknown:
            raise AwsError("InvalidInstanceType", f"The following supplied instance types do not exist: {unknown}")
        rows = [d for d in self._filtered(request.get("Filters") or []) if not names or d["InstanceType"] in names]
        return paged("InstanceTypes", rows, request, _TYPES_PAGE)

    def describe_offerings(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeInstanceTypeOfferings by zone or region."""
        by_zone = request.get("LocationType", "region") == "availability-zone"
        places = {(p.instance_type, p.zone if by_zone else self._region) for p in self._exchange.pools}
        kind = "availability-zone" if by_zone else "region"
        rows = [{"InstanceType": t, "LocationType": kind, "Location": place} for t, place in sorted(places)]
        for wanted in request.get("Filters") or []:
            key = {"instance-type": "InstanceType", "location": "Location"}[wanted["Name"]]
            rows = [offer for offer in rows if offer[key] in wanted["Values"]]
        return paged("InstanceTypeOfferings", rows, request, _PAGE)

    def spot_price_history(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeSpotPriceHistory: the present price of each pool."""
        names = set(request.get("InstanceTypes") or [])
        pools = [
            pool
            for pool in self._exchange.pools
            if pool.capacity_type == labels.SPOT and (not names or pool.instance_type in names)
        ]
        answer = paged("SpotPriceHistory", pools, request, _PAGE)
        return {**answer, "SpotPriceHistory": [self._spot(pool) for pool in answer["SpotPriceHistory"]]}

    def get_products(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer pricing:GetProducts: on-demand list prices for shared Linux machines."""
        priced = self._priced()
        for wanted in request.get("Filters") or []:
            field, value = wanted["Field"], wanted["Value"]
            priced = [p for p in priced if p["product"]["attributes"].get(field, value) == value]
        products, token = page(priced, request, _PRODUCTS_PAGE)
        answer: dict[str, Any] = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(p) for p in products]}
        return answer if token is None else {**answer, "NextToken": token}

    def _filtered(self, filters: list[dict[str, Any]]) -> list[dict[str, Any]]:
        key = json.dumps(filters, sort_keys=True)
        if key not in self._by_filter:
            rows = list(self._described)
            for wanted in filters:
                read = _type_filter(wanted["Name"])
                rows = [d for d in rows if set(read(d)) & set(wanted["Values"])]
            self._by_filter[key] = rows
        return self._by_filter[key]

    def _spot(self, pool: Pool) -> dict[str, Any]:
        return {
            "InstanceType": pool.instance_type,
            "AvailabilityZone": pool.zone,
            "ProductDescription": LINUX,
            "SpotPrice": _decimal(self._exchange.price(pool) or 0),
            "Timestamp": self._clock.now(),
        }

    def _priced(self) -> list[dict[str, Any]]:
        changes = self._exchange.price_changes
        if self._products[0] != changes:
            prices = {
                pool.instance_type: self._exchange.price(pool) or 0
                for pool in self._exchange.pools
                if pool.capacity_type == labels.ON_DEMAND
            }
            self._products = (changes, [_product(name, prices[name], self._region) for name in sorted(prices)])
        return self._products[1]


def _type_filter(name: str) -> Callable[[dict[str, Any]], Iterable[str]]:
    readers: dict[str, Callable[[dict[str, Any]], Iterable[str]]] = {
        "processor-info.supported-architecture": lambda d: d["ProcessorInfo"].get("SupportedArchitectures", ()),
        "supported-virtualization-type": lambda d: d.get("SupportedVirtualizationTypes", ()),
        "supported-usage-class": lambda d: d.get("SupportedUsageClasses", ()),
        "instance-type": lambda d: (d["InstanceType"],),
        "bare-metal": lambda d: (str(d.get("BareMetal", False)).lower(),),
        "hypervisor": lambda d: (d.get("Hypervisor", ""),),
    }
    if name not in readers:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return readers[name]


def _product(name: str, price: int, region: str) -> dict[str, Any]:
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": _decimal(price)}}
    return {
        "product": {
            "productFamily": "Compute Instance (bare metal)" if ".metal" in name else "Compute Instance",
            "attributes": {
                "instanceType": name,
                "regionCode": region,
                "operatingSystem": "Linux",
                "preInstalledSw": "NA",
                "tenancy": "Shared",
                "capacitystatus": "Used",
                "licenseModel": "No License required",
                "marketoption": "OnDemand",
                "operation": "RunInstances",
            },
        },
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {f"{name}.term": {"priceDimensions": {f"{name}.rate": dimension}}}},
    }


def _decimal(amount: int) -> str:
    dollars, rest = divmod(amount, quantity.NANODOLLARS)
    return f"{dollars}.{rest:09d}"


# SNS: topics, and what was published to them.


SUBJECT_MAX = 100
"""Characters of a subject: ASCII, on one line (SNS)."""


class PublishedMessage(msgspec.Struct, frozen=True):
    """One message."""

    topic: str
    subject: str
    text: str


class Topics:
    """Answers SNS's calls for one topic. Subscribers are people and are not simulated."""

    def __init__(self, account: str, region: str, name: str) -> None:
        self.arn = f"arn:aws:sns:{region}:{account}:{name}"
        self.published: list[PublishedMessage] = []

    def publish(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer sns:Publish.

        Raises:
            AwsError: If the topic does not exist, or SNS does not accept the subject.
        """
        if request["TopicArn"] != self.arn:
            raise AwsError("NotFound", "Topic does not exist", 404)
        subject = request.get("Subject", "")
        if len(subject) > SUBJECT_MAX or not subject.isascii() or "\n" in subject:
            raise AwsError("InvalidParameter", "Invalid parameter: Subject", 400)
        self.published.append(PublishedMessage(self.arn, subject, request["Message"]))
        return {"MessageId": f"message-{len(self.published)}"}


_SCHEMA: Final = Schema(
    table=TABLE,
    partition_key=wiring.TABLE.partition_key,
    sort_key=wiring.TABLE.sort_key,
    expiry=wiring.TABLE.expiry,
)


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the simulated world that the account depends on.

    Attributes:
        bus: Takes EC2's events: source, detail type, detail.
        spend: Advances the virtual time of the function that makes a call.
        silences: What AWS does not promise.
    """

    clock: VirtualClock
    recorder: Recorder
    faults: Faults
    message_faults: MessageFaults
    bus: Bus
    spend: Callable[[timedelta], None]
    seed: int
    silences: Silences = Silences()


class Account:
    """The account's parts.

    Args:
        validates: Whether clients check parameters against the services' descriptions, as boto3 does.

    Attributes:
        session: The SDK's session, for functions.
        wire: The carrier of its calls.
        settings: The functions' settings for this account.
    """

    def __init__(self, around: Surroundings, region: Region, *, validates: bool = True) -> None:
        clock, recorder, seed = around.clock, around.recorder, around.seed
        self._silences = silences = around.silences
        self._late, self._unseen = stream(seed, "describe lag"), stream(seed, "partial lists")
        self._rates = RequestRates(
            clock,
            _rate(silences.request_tokens),
            _rate(silences.instance_tokens),
            _rate(silences.termination_tokens),
        )
        self.clock = clock
        self.exchange = Exchange(recorder, region.types)
        self.instances = Instances(clock, recorder, stream(seed, "instances"), around.bus)
        self.instances.updates_health = silences.health_updates
        self.network = Network(subnets_in(region.zones), zone_ids=_zone_ids(region))
        self.images = Images(clock)
        self.brakes = OperatorBrakes(clock, self.images.get_parameter, region.zone_ids)
        self.queues = Queues(clock, stream(seed, "messages"), around.message_faults.carry, ACCOUNT_ID, region.name)
        self.queues.order = stream(seed, "order of messages") if silences.unordered else None
        self.schedules = Schedules(clock, GROUP)
        self.executions = Executions(clock, recorder, region.name, ACCOUNT_ID)
        self.table = Table(clock, _SCHEMA, around.spend, stream(seed, "table"))
        self._profiles = InstanceProfiles(clock, ACCOUNT_ID, (NODE_ROLE,))
        self._templates = Templates(clock, stream(seed, "templates"))
        self.wire = Wire(around.faults, around.spend, latency, self._rates.take)
        self._quotas = VcpuQuotas(region.vcpu_quotas, self.exchange, self.instances)
        self._placement_groups = PlacementGroups()
        self.reservations = Reservations(clock, self.exchange, self.instances)
        for reservation in _reservations_of(region):
            self.reservations.make(reservation)
        self._fleets = self._made_fleets(around)
        self._prices = PriceListCalls(clock, self.exchange, region.shapes, region.name)
        self._calls = InstanceCalls(
            self.instances, self.exchange, self.network.vpc_id, self._view, self._rates.take_terminations
        )
        self._bucket = Bucket(clock, BUCKET)
        self.topics = Topics(ACCOUNT_ID, region.name, TOPIC)
        urls = {queue.name: self.queues.create(queue.name, queue.max_receives) for queue in wiring.QUEUES}
        self.wire.answer_with(self._answers())
        self.wire.listen(EC2Writes(recorder).see)
        self.session = Session(self.wire, region.name, stream(seed, "tokens"), validates=validates)
        self.settings = settings_in(region, urls, self.topics.arn, self.executions.arn)

    def _made_fleets(self, around: Surroundings) -> Fleets:
        checks = LaunchChecks(
            self.exchange,
            self.images,
            self.network,
            self._profiles.arn_of,
            self._denies,
            self._quotas,
            self._placement_groups,
            self._rates.takes_instance,
        )
        fleets = Fleets(
            around.clock,
            around.recorder,
            self.exchange,
            self.instances,
            self.network,
            self._templates.find,
            checks,
            self.reservations,
        )
        fleets.repeats_launches = around.silences.repeated_launch == "whole"
        return fleets

    def _denies(self, pool: Pool) -> str:
        """Return the error code with which the current call's fault denies this pool, empty for none."""
        fault = self.wire.fault
        if fault is None or fault.kind != faults.DENIED or fault.form != faults.FLEET_ERROR:
            return ""
        concerned = fault.concerns(pool.instance_type, pool.zone, pool.capacity_type)
        return (fault.code or DENIED_CODE) if concerned else ""

    def _view(self) -> Mapping[str, Instance]:
        """Return the instances as the current call's list has them."""
        fault, silences = self.wire.fault, self._silences
        stale = fault.delay if fault is not None and fault.kind == faults.STALE else timedelta(0)
        age = max(stale, silences.describe_lag.draw(self._late))
        share = silences.partial_lists
        return self.instances.seen(
            age, silences.tag_lag.draw(self._late), lambda: share > 0 and self._unseen.random() < share
        )

    def _ec2_answers(self) -> dict[str, Responder]:
        return {
            "ec2:CreateFleet": self._fleets.create,
            "ec2:RunInstances": self._fleets.try_one,
            "ec2:DescribeCapacityReservations": self.reservations.describe,
            "ec2:DescribeInstances": self._calls.describe,
            "ec2:DescribeInstanceStatus": self._calls.describe_status,
            "ec2:TerminateInstances": self._calls.terminate,
            "ec2:CreateTags": self._calls.create_tags,
            "ec2:DeleteTags": self._calls.delete_tags,
            "ec2:DescribeInstanceTypes": self._prices.describe_types,
            "ec2:DescribeInstanceTypeOfferings": self._prices.describe_offerings,
            "ec2:DescribeSpotPriceHistory": self._prices.spot_price_history,
            "ec2:DescribeSubnets": self.network.describe_subnets,
            "ec2:DescribePlacementGroups": self._placement_groups.describe,
            "ec2:DescribeSecurityGroups": self.network.describe_security_groups,
            "ec2:DescribeImages": self.images.describe,
            "ec2:CreateLaunchTemplate": self._templates.create,
            "ec2:DescribeLaunchTemplates": self._templates.describe,
            "ec2:DeleteLaunchTemplate": self._templates.delete,
        }

    def _answers(self) -> dict[str, Responder]:
        return {
            **self.table.answers(),
            **self._ec2_answers(),
            "pricing:GetProducts": self._prices.get_products,
            "ssm:GetParameter": self.brakes.get_parameter,
            "ssm:GetParameters": self.images.get_parameters,
            "iam:GetInstanceProfile": self._profiles.get,
            "iam:CreateInstanceProfile": self._profiles.create,
            "iam:AddRoleToInstanceProfile": self._profiles.add_role,
            "iam:RemoveRoleFromInstanceProfile": self._profiles.remove_role,
            "iam:DeleteInstanceProfile": self._profiles.delete,
            "iam:ListInstanceProfiles": self._profiles.list_all,
            "eks:DescribeCluster": describe_cluster,
            "cloudwatch:DescribeAlarms": self.brakes.describe_alarms,
            "arc-zonal-shift:GetManagedResource": self.brakes.get_managed_resource,
            "s3:GetObject": self._bucket.get,
            "s3:PutObject": self._bucket.put,
            "s3:ListObjectsV2": self._bucket.list,
            "scheduler:ListSchedules": self.schedules.list,
            "scheduler:GetSchedule": self.schedules.get,
            "scheduler:CreateSchedule": self.schedules.create,
            "scheduler:UpdateSchedule": self.schedules.update,
            "scheduler:DeleteSchedule": self.schedules.delete,
            "service-quotas:ListServiceQuotas": self._quotas.list_quotas,
            "sns:Publish": self.topics.publish,
            "stepfunctions:DescribeExecution": self.executions.describe,
            "stepfunctions:StartExecution": self.executions.start,
            "sqs:SendMessage": self.queues.send,
            "sqs:SendMessageBatch": self.queues.send_batch,
            "sqs:GetQueueUrl": self.queues.get_url,
            "sqs:GetQueueAttributes": self.queues.attributes,
        }


def _rate(tokens: Tokens | None) -> Rate | None:
    return None if tokens is None else Rate(tokens.burst, tokens.per_second)


def _reservations_of(region: Region) -> Iterator[Reservation]:
    """Yield the reservations that the scenario's own catalogue contains."""
    for instance_type in region.types:
        for offering in instance_type.offerings:
            if offering.reservation_id:
                yield Reservation(
                    id=offering.reservation_id,
                    instance_type=instance_type.name,
                    zone=offering.zone,
                    total=offering.reservation_capacity,
                    owner=ACCOUNT_ID,
                    kind=offering.reservation_type or DEFAULT,
                    interruptible=offering.interruptible,
                )


def _zone_ids(region: Region) -> dict[str, str]:
    prefix = region.name.replace("-", "")[:4]
    return {
        zone: region.zone_ids.get(zone) or f"{prefix}-az{number}" for number, zone in enumerate(region.zones, start=1)
    }
