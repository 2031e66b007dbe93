"""Assembles the embedded AWS account, and routes each call to the part that answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

import msgspec

from installation import wiring
from simulator.aws.brakes import OperatorBrakes
from simulator.aws.bucket import Bucket
from simulator.aws.dynamodb.requests import Schema
from simulator.aws.dynamodb.table import Table
from simulator.aws.ec2.describe import InstanceCalls
from simulator.aws.ec2.fleet import Fleets
from simulator.aws.ec2.images import Images
from simulator.aws.ec2.instances import Bus, Instances
from simulator.aws.ec2.launch_checks import LaunchChecks
from simulator.aws.ec2.network import Network, subnets_in
from simulator.aws.ec2.placement_groups import PlacementGroups
from simulator.aws.ec2.request_rates import RequestRates
from simulator.aws.ec2.reservations import DEFAULT, Reservation, Reservations
from simulator.aws.ec2.templates import Templates
from simulator.aws.ec2.vcpu_quotas import VcpuQuotas
from simulator.aws.ec2.writes import EC2Writes
from simulator.aws.exchange import Exchange, Pool
from simulator.aws.fault_answers import DENIED_CODE
from simulator.aws.installation import ACCOUNT_ID, BUCKET, GROUP, NODE_ROLE, TABLE, TOPIC, describe_cluster, settings_in
from simulator.aws.instance_profiles import InstanceProfiles
from simulator.aws.price_list import PriceListCalls
from simulator.aws.queues import Queues
from simulator.aws.region import Region
from simulator.aws.schedules import Schedules
from simulator.aws.session import Session
from simulator.aws.topics import Topics
from simulator.aws.wire import Responder, Wire
from simulator.clock import VirtualClock
from simulator.draws import stream
from simulator.invocation import calls
from simulator.invocation.faults import Faults, MessageFaults
from simulator.invocation.latency import latency
from simulator.record import Recorder

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
    """

    clock: VirtualClock
    recorder: Recorder
    faults: Faults
    message_faults: MessageFaults
    bus: Bus
    spend: Callable[[timedelta], None]
    seed: int


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
        self.clock = clock
        self.exchange = Exchange(recorder, region.types)
        self.instances = Instances(clock, recorder, stream(seed, "instances"), around.bus)
        self.network = Network(subnets_in(region.zones), zone_ids=_zone_ids(region))
        self.images = Images(clock)
        self.brakes = OperatorBrakes(clock, self.images.get_parameter, region.zone_ids)
        self.queues = Queues(clock, stream(seed, "messages"), around.message_faults.carry, ACCOUNT_ID, region.name)
        self.schedules = Schedules(clock, GROUP)
        self.table = Table(clock, _SCHEMA, around.spend, stream(seed, "table"))
        self._profiles = InstanceProfiles(clock, ACCOUNT_ID, (NODE_ROLE,))
        self._templates = Templates(clock, stream(seed, "templates"))
        self.wire = Wire(around.faults, around.spend, latency, RequestRates(clock).take)
        self._quotas = VcpuQuotas(region.vcpu_quotas, self.exchange, self.instances)
        self._placement_groups = PlacementGroups()
        self.reservations = Reservations(clock, self.exchange, self.instances)
        for reservation in _reservations_of(region):
            self.reservations.make(reservation)
        self._fleets = self._made_fleets(around)
        self._prices = PriceListCalls(clock, self.exchange, region.shapes, region.name)
        self._calls = InstanceCalls(self.instances, self.exchange, self.network.vpc_id, self._age)
        self._bucket = Bucket(clock, BUCKET)
        self.topics = Topics(ACCOUNT_ID, region.name, TOPIC)
        urls = {queue.name: self.queues.create(queue.name, queue.max_receives) for queue in wiring.QUEUES}
        self.wire.answer_with(self._answers())
        self.wire.listen(EC2Writes(recorder).see)
        self.session = Session(self.wire, region.name, stream(seed, "tokens"), validates=validates)
        self.settings = settings_in(region, urls, self.topics.arn)

    def _made_fleets(self, around: Surroundings) -> Fleets:
        checks = LaunchChecks(
            self.exchange,
            self.images,
            self.network,
            self._profiles.arn_of,
            self._denies,
            self._quotas,
            self._placement_groups,
        )
        return Fleets(
            around.clock,
            around.recorder,
            self.exchange,
            self.instances,
            self.network,
            self._templates.find,
            checks,
            self.reservations,
        )

    def _denies(self, pool: Pool) -> str:
        """Return the error code with which the current call's fault denies this pool, empty for none."""
        fault = self.wire.fault
        if fault is None or fault.kind != calls.DENIED or fault.form != calls.FLEET_ERROR:
            return ""
        concerned = fault.concerns(pool.instance_type, pool.zone, pool.capacity_type)
        return (fault.code or DENIED_CODE) if concerned else ""

    def _age(self) -> timedelta:
        """Return how old the list is with which the current call is answered."""
        fault = self.wire.fault
        return fault.delay if fault is not None and fault.kind == calls.STALE else timedelta(0)

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
            "scheduler:ListSchedules": self.schedules.list,
            "scheduler:GetSchedule": self.schedules.get,
            "scheduler:CreateSchedule": self.schedules.create,
            "scheduler:UpdateSchedule": self.schedules.update,
            "scheduler:DeleteSchedule": self.schedules.delete,
            "service-quotas:ListServiceQuotas": self._quotas.list_quotas,
            "sns:Publish": self.topics.publish,
            "sqs:SendMessage": self.queues.send,
            "sqs:SendMessageBatch": self.queues.send_batch,
            "sqs:GetQueueUrl": self.queues.get_url,
            "sqs:GetQueueAttributes": self.queues.attributes,
        }


def _reservations_of(region: Region) -> Iterator[Reservation]:
    """Yield the reservations that the scenario's own catalogue contains."""
    for found in region.types:
        for offering in found.offerings:
            if offering.reservation_id:
                yield Reservation(
                    id=offering.reservation_id,
                    instance_type=found.name,
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
