"""The embedded AWS account: everything in it, and the context in which boto3 talks to it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final
from unittest.mock import patch

import msgspec
import time_machine
from moto import mock_aws
from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends
from moto.moto_api._internal import mock_random

from lambdas import wiring
from lambdas.settings import Settings
from simulator.aws.brakes import KILL_SWITCH, PAUSING_ALARM, OperatorBrakes
from simulator.aws.describe import InstanceCalls
from simulator.aws.exchange import Exchange
from simulator.aws.fleet import Fleets
from simulator.aws.images import Images
from simulator.aws.instances import Bus, Instances
from simulator.aws.network import Network, known_zones
from simulator.aws.price_list import PriceListCalls
from simulator.aws.queues import Queues
from simulator.aws.region import Region
from simulator.aws.session import SharedSession
from simulator.aws.table_limits import check_transaction
from simulator.aws.templates import Templates
from simulator.aws.wire import AwsError, Wire
from simulator.clock import VirtualClock
from simulator.draws import stream
from simulator.faults import Faults, MessageFaults
from simulator.latency import latency
from simulator.record import Recorder

ACCOUNT_ID: Final = "123456789012"
CLUSTER: Final = "fleetwright"
NODE_ROLE: Final = "FleetwrightNodeRole"
KUBERNETES_VERSION: Final = "1.32"

_TABLE: Final = "fleetwright"
_BUCKET: Final = "fleetwright"
_GROUP: Final = "fleetwright"
_ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "simulated",
    "AWS_SECRET_ACCESS_KEY": "simulated",
    "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
    "AWS_EC2_METADATA_DISABLED": "true",
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
    "POWERTOOLS_TRACE_DISABLED": "true",
}


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What of the world outside the account has to do with.

    Attributes:
        bus: Takes EC2's events: source, detail type, detail.
        spend: Lets time pass in the function that makes a call.
    """

    clock: VirtualClock
    recorder: Recorder
    faults: Faults
    message_faults: MessageFaults
    bus: Bus
    spend: Callable[[timedelta], None]
    seed: int


class Account:
    """The account's parts. Made by `open_account`, which also closes it.

    Attributes:
        settings: What the functions are told of this account.
    """

    def __init__(self, around: Surroundings, region: Region, wire: Wire) -> None:
        clock, recorder = around.clock, around.recorder
        exchange = Exchange(recorder, region.types)
        ec2 = ec2_backends[ACCOUNT_ID][region.name]
        self.exchange = exchange
        self.wire = wire
        self.instances = Instances(clock, recorder, stream(around.seed, "instances"), around.bus)
        self.network = Network(ec2, region.zones)
        self.images = Images(clock, ec2)
        self.brakes = OperatorBrakes(self.images.get_parameter, region.zone_ids)
        messages = stream(around.seed, "messages")
        self.queues = Queues(clock, messages, around.message_faults.carry, ACCOUNT_ID, region.name)
        templates = Templates(ec2, iam_backends[ACCOUNT_ID]["aws"])
        self._fleets = Fleets(clock, recorder, exchange, self.instances, self.network, templates)
        self._prices = PriceListCalls(clock, exchange, region.shapes, region.name)
        self._calls = InstanceCalls(self.instances, self.network.vpc_id)
        urls = {queue.name: self.queues.create(queue.name, queue.max_receives) for queue in wiring.QUEUES}
        _create_stores()
        self.settings = Settings(
            cluster_name=CLUSTER,
            table_name=_TABLE,
            bucket_name=_BUCKET,
            wake_up_queue_url=urls[wiring.WAKE_UPS.name],
            work_queue_url=urls[wiring.WORK.name],
            schedule_group=_GROUP,
            schedule_role_arn=f"arn:aws:iam::{ACCOUNT_ID}:role/fleetwright-schedules",
            kill_switch_parameter=KILL_SWITCH,
            pausing_alarms=PAUSING_ALARM,
            zonal_shift_cluster_arn=f"arn:aws:eks:{region.name}:{ACCOUNT_ID}:cluster/{CLUSTER}",
            disrupt_function_arn=f"arn:aws:lambda:{region.name}:{ACCOUNT_ID}:function:disrupt",
        )

    def connect(self) -> None:
        """Answer calls that moto does not answer as EC2, SQS and the others do."""
        answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "ec2:CreateFleet": self._fleets.create,
            "ec2:DescribeInstances": self._calls.describe,
            "ec2:DescribeInstanceStatus": self._calls.describe_status,
            "ec2:TerminateInstances": self._calls.terminate,
            "ec2:CreateTags": self._calls.create_tags,
            "ec2:DeleteTags": self._calls.delete_tags,
            "ec2:DescribeInstanceTypes": self._prices.describe_types,
            "ec2:DescribeInstanceTypeOfferings": self._prices.describe_offerings,
            "ec2:DescribeSpotPriceHistory": self._prices.spot_price_history,
            "pricing:GetProducts": self._prices.get_products,
            "ssm:GetParameter": self.brakes.get_parameter,
            "ssm:GetParameters": self.images.get_parameters,
            "sqs:SendMessage": self.queues.send,
            "sqs:SendMessageBatch": self.queues.send_batch,
            "sqs:GetQueueUrl": self.queues.get_url,
            "sqs:GetQueueAttributes": self.queues.attributes,
            "eks:DescribeCluster": _describe_cluster,
            "cloudwatch:DescribeAlarms": self.brakes.describe_alarms,
            "arc-zonal-shift:GetManagedResource": self.brakes.get_managed_resource,
        }
        for name, responder in answers.items():
            self.wire.answer_with(name, responder)
        self.wire.check_with("dynamodb:TransactWriteItems", check_transaction)
        self.wire.observe("ec2:DescribeSubnets", lambda _, answer: self.network.correct(answer))


@contextmanager
def open_account(around: Surroundings, region: Region) -> Iterator[Account]:
    """The account, for as long as boto3 shall talk to it; its clock is the virtual one and its ids follow the seed."""
    identifiers = stream(around.seed, "identifiers")
    with (
        patch.dict(os.environ, {**_ENVIRONMENT, "AWS_DEFAULT_REGION": region.name, "AWS_REGION": region.name}),
        mock_aws(),
        known_zones(region.name, region.zones, region.zone_ids),
        time_machine.travel(around.clock.now(), tick=False) as traveller,
        patch.object(uuid, "uuid4", lambda: uuid.UUID(int=identifiers.getrandbits(128), version=4)),
    ):
        mock_random.seed(around.seed)
        around.clock.on_move(traveller.move_to)
        wire = Wire(around.faults, around.spend, latency)
        account = Account(around, region, wire)
        account.connect()
        with wire.connected():
            yield account


def _create_stores() -> None:
    """What moto keeps: table, bucket, schedule group, node role."""
    session = SharedSession()
    session.client("dynamodb").create_table(
        TableName=_TABLE,
        KeySchema=[
            {"AttributeName": wiring.TABLE.partition_key, "KeyType": "HASH"},
            {"AttributeName": wiring.TABLE.sort_key, "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"}
            for name in (wiring.TABLE.partition_key, wiring.TABLE.sort_key)
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    session.client("s3").create_bucket(Bucket=_BUCKET)
    session.client("scheduler").create_schedule_group(Name=_GROUP)
    session.client("iam").create_role(RoleName=NODE_ROLE, AssumeRolePolicyDocument="{}")


def _describe_cluster(request: dict[str, Any]) -> dict[str, Any]:
    if request["name"] != CLUSTER:
        raise AwsError("ResourceNotFoundException", f"No cluster found for name: {request['name']}.", 404)
    return {
        "cluster": {
            "name": CLUSTER,
            "arn": f"arn:aws:eks:us-east-1:{ACCOUNT_ID}:cluster/{CLUSTER}",
            "version": KUBERNETES_VERSION,
            "endpoint": "https://cluster.simulated.invalid",
            "certificateAuthority": {"data": "c2ltdWxhdGVk"},
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
            "status": "ACTIVE",
        }
    }
