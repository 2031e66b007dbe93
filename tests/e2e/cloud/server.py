"""One AWS account over HTTP on 127.0.0.1, in real time: moto with the simulator's own EC2; the table is on DynamoDB Local."""

from __future__ import annotations

import base64
import os
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import Any, Final, Self
from unittest.mock import patch

import boto3
import msgspec
from moto.core.base_backend import BackendDict
from moto.ec2.models import EC2Backend, ec2_backends
from moto.iam.models import iam_backends
from moto.sqs.models import SQSBackend

from installation import wiring
from installation.array_threads import ARRAY_THREADS
from installation.settings import Settings
from installation.wiring import FunctionSpec
from simulator.aws.account import PriceListCalls
from simulator.aws.ec2.fleet import Fleets, LaunchChecks, VcpuQuotas
from simulator.aws.ec2.instances import Instances, Reservations
from simulator.aws.ec2.requests import InstanceCalls
from simulator.aws.ec2.templates import Images
from simulator.aws.installation import ACCOUNT_ID, CLUSTER, NODE_ROLE, Exchange, Region, builtin_region
from simulator.aws.queues import AwsError
from simulator.clock import stream
from simulator.invocation.faults import Faults
from simulator.record import Recorder
from tests.e2e.cloud.http_endpoint import HttpEndpoint
from tests.e2e.cloud.identities import ADMIN_KEY, Identities
from tests.e2e.cloud.moto_ec2 import find_template, known_zones, network_in, publish
from tests.e2e.cloud.wall_clock import WallClock
from tests.fakes.account import create_table

ZONES: Final = 3
ENDS_AFTER: Final = timedelta(seconds=5)
"""From TerminateInstances to the end of an instance; EC2 takes half a minute or more, and `settle` waits for it."""

BUCKET: Final = "fleetwright"
GROUP: Final = "fleetwright"
SERVICE_ADDRESSES: Final = "10.100.0.0/16"

BusListener = Callable[[str, str, dict[str, Any]], object]


class HostedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as EKS describes it. `version` is Kubernetes' minor version, `ca` is PEM."""

    endpoint: str
    ca: bytes
    version: str = "1.35"


class Cloud:
    """The account. Between `start` and `stop` the whole process has one: moto keeps its state in globals.

    Args:
        dynamodb_endpoint: The endpoint of the table; empty if moto keeps the table.
        region: The market's region; by default the built-in us-east-1 in three zones.

    Attributes:
        clock: The wall clock; hold its `lock` while reading or changing the parts below.
        exchange: Prices and capacity: `exchange.state_capacity(Selection(zone="us-east-1a"), 0)` empties a zone.
        instances: EC2's instances; `on_launch` and `on_end` register listeners.
        faults: The faults of calls over HTTP (`simulator.invocation.faults.Faults.arm`).
        http: The endpoint; `before` and `after` hook into calls.
        identities: The functions' roles and credentials.
        settings: The account's part of the functions' settings.
        queue_urls: Queue name → URL.
    """

    def __init__(self, dynamodb_endpoint: str = "", *, region: Region | None = None) -> None:
        self.region = region or in_zones(builtin_region(), ZONES)
        self.clock = WallClock()
        self.recorder = Recorder(self.clock)
        self.faults = Faults(self.clock, self.recorder)
        self.exchange = Exchange(self.recorder, self.region.types)
        self.instances = Instances(
            self.clock, self.recorder, stream(0, "instances"), self._tell_bus, ends_after=ENDS_AFTER
        )
        self.http = HttpEndpoint(self.faults, self.clock.lock, self._knows)
        self._dynamodb = dynamodb_endpoint or self.http.url
        self.queue_urls: dict[str, str] = {}
        self._bus: list[BusListener] = []
        self._cluster: HostedCluster | None = None
        self._table = f"fleetwright-{secrets.token_hex(4)}"
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Open the account and create its resources."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Close the account and remove everything that it created."""
        self._open.close()

    def host_cluster(self, cluster: HostedCluster) -> None:
        """Set the cluster that EKS describes from now on."""
        self._cluster = cluster

    @property
    def certificate_authority(self) -> str:
        """The cluster's certificate authority as in EKS: base64 of PEM; empty before a cluster is hosted."""
        return base64.b64encode(self._cluster.ca).decode() if self._cluster else ""

    def on_event(self, listener: BusListener) -> None:
        """Call `listener(source, detail type, detail)` with each event that EC2 and Health put on the account's bus."""
        self._bus.append(listener)

    def environment(self, function: FunctionSpec | None = None) -> dict[str, str]:
        """The variables of a function: settings, endpoints, and its own role's credentials (an administrator's without)."""
        admin = {"AWS_ACCESS_KEY_ID": ADMIN_KEY, "AWS_SECRET_ACCESS_KEY": "secret"}
        credentials = admin if function is None else self.identities.of_function(function).environment()
        return {
            **self.settings.to_environment(),
            **credentials,
            **ARRAY_THREADS,
            "AWS_REGION": self.region.name,
            "AWS_DEFAULT_REGION": self.region.name,
            "AWS_ENDPOINT_URL": self.http.url,
            "AWS_ENDPOINT_URL_DYNAMODB": self._dynamodb,
            "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str) -> Any:
        """An administrator's boto3 client."""
        session = boto3.Session(ADMIN_KEY, "secret", region_name=self.region.name)
        endpoint = self._dynamodb if service == "dynamodb" else self.http.url
        return session.client(service, endpoint_url=endpoint)

    def _start(self) -> None:
        region = self.region
        self._open.enter_context(patch.dict(os.environ, {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}))
        # moto reads a slow clock to check the age of the whole queue for each message; no test lasts as long as SQS's
        # retention.
        self._open.enter_context(patch("moto.sqs.models.unix_time_millis", lambda: time.time() * 1000))
        self._open.enter_context(
            patch.object(SQSBackend, "is_message_valid_based_on_retention_period", lambda *_: True)
        )
        self._open.enter_context(known_zones(region.name, region.zones, region.zone_ids))
        BackendDict.reset()
        self._open.callback(BackendDict.reset)
        ec2 = ec2_backends[ACCOUNT_ID][region.name]
        self.network = network_in(ec2, region.zones)
        ec2.amis.clear()
        self.images = Images(self.clock, lambda image: publish(ec2, image))
        self.identities = Identities(region.name)
        self._connect(ec2)
        self.clock.start()
        self._open.callback(self.clock.stop)
        self.http.start()
        self._open.callback(self.http.stop)
        self.settings = self._furnish()

    def _connect(self, ec2: EC2Backend) -> None:
        """Answer the calls that moto answers unlike AWS."""
        checks = LaunchChecks(self.exchange, self.images, self.network, _has_profile)
        reservations = Reservations(self.clock, self.exchange, self.instances)
        fleets = Fleets(
            self.clock,
            self.recorder,
            self.exchange,
            self.instances,
            self.network,
            partial(find_template, ec2),
            checks,
            reservations,
        )
        prices = PriceListCalls(self.clock, self.exchange, self.region.shapes, self.region.name)
        calls = InstanceCalls(self.instances, self.exchange, self.network.vpc_id)
        for name, responder in {
            "ec2:CreateFleet": fleets.create,
            "ec2:DescribeInstances": calls.describe,
            "ec2:DescribeInstanceStatus": calls.describe_status,
            "ec2:DescribeCapacityReservations": reservations.describe,
            "ec2:TerminateInstances": calls.terminate,
            "ec2:CreateTags": calls.create_tags,
            "ec2:DeleteTags": calls.delete_tags,
            "ec2:DescribeInstanceTypes": prices.describe_types,
            "ec2:DescribeInstanceTypeOfferings": prices.describe_offerings,
            "ec2:DescribeSpotPriceHistory": prices.spot_price_history,
            "pricing:GetProducts": prices.get_products,
            "servicequotas:ListServiceQuotas": VcpuQuotas({}, self.exchange, self.instances).list_quotas,
            "ssm:GetParameter": self.images.get_parameter,
            "ssm:GetParameters": self.images.get_parameters,
            "eks:DescribeCluster": self._describe_cluster,
        }.items():
            self.http.answer_with(name, responder)
        self.http.before("ec2:DescribeSubnets", lambda _: self._count_addresses(ec2))

    def _furnish(self) -> Settings:
        queues = self.client("sqs")
        for queue in wiring.QUEUES:
            self.queue_urls[queue.name] = queues.create_queue(
                QueueName=queue.name,
                Attributes={"VisibilityTimeout": str(round(queue.visibility.total_seconds()))},
            )["QueueUrl"]
        create_table(self.client("dynamodb"), self._table)
        self.client("s3").create_bucket(Bucket=BUCKET)
        self.client("scheduler").create_schedule_group(Name=GROUP)
        self.client("iam").create_role(RoleName=NODE_ROLE, AssumeRolePolicyDocument="{}")
        return Settings(
            cluster_name=CLUSTER,
            table_name=self._table,
            bucket_name=BUCKET,
            wake_up_queue_url=self.queue_urls[wiring.WAKE_UPS.name],
            work_queue_url=self.queue_urls[wiring.WORK.name],
            look_queue_url=self.queue_urls[wiring.RUN_REQUESTS.name],
            schedule_group=GROUP,
            schedule_role_arn=f"arn:aws:iam::{ACCOUNT_ID}:role/fleetwright-schedules",
            bind_pods=True,
            disrupt_function_arn=f"arn:aws:lambda:{self.region.name}:{ACCOUNT_ID}:function:disrupt",
        )

    def _count_addresses(self, ec2: EC2Backend) -> None:
        """Tell moto how many addresses the instances use, because moto does not know them."""
        with self.clock.lock:
            for subnet in self.network.subnets:
                ec2.get_subnet(subnet.id)._available_ip_addresses = subnet.free

    def _describe_cluster(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["name"] != CLUSTER or self._cluster is None:
            raise AwsError("ResourceNotFoundException", f"No cluster found for name: {request['name']}.", 404)
        return {
            "cluster": {
                "name": CLUSTER,
                "arn": f"arn:aws:eks:{self.region.name}:{ACCOUNT_ID}:cluster/{CLUSTER}",
                "version": self._cluster.version,
                "endpoint": self._cluster.endpoint,
                "certificateAuthority": {"data": self.certificate_authority},
                "kubernetesNetworkConfig": {"serviceIpv4Cidr": SERVICE_ADDRESSES, "ipFamily": "ipv4"},
                "status": "ACTIVE",
            }
        }

    def _knows(self, access_key: str) -> bool:
        return self.identities.knows(access_key)

    def _tell_bus(self, source: str, detail_type: str, detail: dict[str, Any]) -> None:
        for listener in self._bus:
            listener(source, detail_type, detail)


def _has_profile(name: str) -> bool:
    profiles = iam_backends[ACCOUNT_ID]["aws"].instance_profiles.values()
    return any(name in (profile.name, profile.arn) for profile in profiles)


def in_zones(region: Region, count: int, families: Iterable[str] = ()) -> Region:
    """Return the region with only its first zones and, if families are given (`m5`), only their types."""
    zones = region.zones[:count]
    kept = frozenset(families)
    types = tuple(
        msgspec.structs.replace(t, offerings=offerings)
        for t in region.types
        if (offerings := tuple(o for o in t.offerings if o.zone in zones))
        and (not kept or t.name.partition(".")[0] in kept)
    )
    names = {t.name for t in types}
    return Region(
        types=types,
        zone_ids={zone: found for zone, found in region.zone_ids.items() if zone in zones},
        shapes=tuple(shape for shape in region.shapes if shape.instance_type in names),
        name=region.name,
        is_recorded=region.is_recorded,
    )
