"""The AWS account of the suite with real parts, over HTTP: what functions see of it, and which faults its calls have."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.request import Request, urlopen

import boto3
import botocore.session
import msgspec
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError
from botocore.loaders import Loader

from adapters.composition.functions import Adapters
from adapters.kube import EksToken, presigner
from adapters.run_report import RunReport
from adapters.runtime import SystemClock
from installation import wiring
from installation.array_threads import ARRAY_THREADS
from installation.settings import Settings
from installation.wiring import BY_NAME
from lambdas.application.controllers import Application
from simulator.aws.installation import NO_CAPACITY, Selection, builtin_region
from simulator.invocation.faults import LOST_REPLY, THROTTLE, Fault
from tests.e2e.cloud import http_endpoint
from tests.e2e.cloud.authenticator import Authenticator
from tests.e2e.cloud.aws_protocol import SignedRequest
from tests.e2e.cloud.raw_errors import RawResponse
from tests.e2e.cloud.server import BUCKET, Cloud, HostedCluster, in_zones
from tests.e2e.cloud.wall_clock import WallClock

PROVISION = BY_NAME["provision"]
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
LOADER = Loader()
"""The services' descriptions, read once: making a client without them is slow."""

ONE_ATTEMPT = Config(retries={"total_max_attempts": 1})


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with Cloud(region=in_zones(builtin_region(), 3, families=("m5",))) as opened:
        opened.host_cluster(HostedCluster(endpoint="https://127.0.0.1:6443", ca=b"PEM"))
        yield opened


def as_provision(cloud: Cloud, service: str, *, once: bool = False) -> Any:
    """A client with the function's own credentials and endpoints; with `once`, it does not retry."""
    return _client(tuple(cloud.environment(PROVISION).items()), service, once)


@cache
def _client(environment: tuple[tuple[str, str], ...], service: str, once: bool) -> Any:
    given = dict(environment)
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION")
    session = boto3.Session(*(given[name] for name in names), botocore_session=_core())
    return session.client(service, endpoint_url=given["AWS_ENDPOINT_URL"], config=ONE_ATTEMPT if once else None)


def _core() -> botocore.session.Session:
    core = botocore.session.get_session()
    core.register_component("data_loader", LOADER)
    return core


def launch(cloud: Cloud, token: str, *, once: bool = False) -> dict[str, Any]:
    """Ask for one m5.large in the first zone."""
    ec2 = as_provision(cloud, "ec2", once=once)
    name = f"template-{token}"
    if not ec2.describe_launch_templates(Filters=[{"Name": "launch-template-name", "Values": [name]}])[
        "LaunchTemplates"
    ]:
        path = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id"
        image = as_provision(cloud, "ssm").get_parameter(Name=path)["Parameter"]["Value"]
        data = {"ImageId": image, "UserData": base64.b64encode(b"data").decode()}
        ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
    overrides = [{"InstanceType": "m5.large", "SubnetId": cloud.network.subnets[0].id}]
    template = {"LaunchTemplateName": name, "Version": "$Latest"}
    answer: dict[str, Any] = ec2.create_fleet(
        Type="instant",
        ClientToken=token,
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": template, "Overrides": overrides}],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "claim", "Value": token}]}],
    )
    return answer


def instances_of(cloud: Cloud, token: str) -> list[dict[str, Any]]:
    found = as_provision(cloud, "ec2").describe_instances(Filters=[{"Name": "tag:claim", "Values": [token]}])
    return [instance for reservation in found["Reservations"] for instance in reservation["Instances"]]


def test_functions_compute_on_one_thread_as_deployed_ones(cloud: Cloud) -> None:
    """On two threads, the last bits of a product differ: once, a plan for a burst was another one when it was repeated."""
    for spec in wiring.FUNCTIONS:
        assert cloud.environment(spec).items() >= ARRAY_THREADS.items()


def test_an_instance_lives_and_dies_over_http(cloud: Cloud) -> None:
    """Otherwise, the suite tests moto's EC2, not ours."""
    events: list[tuple[str, str, dict[str, Any]]] = []
    cloud.on_event(lambda *event: events.append(event))
    (launched,) = launch(cloud, "lives")["Instances"]
    (instance_id,) = launched["InstanceIds"]
    (found,) = instances_of(cloud, "lives")
    assert (found["InstanceId"], found["Placement"]["AvailabilityZone"]) == (instance_id, ZONES[0])
    subnets = as_provision(cloud, "ec2").describe_subnets(SubnetIds=[cloud.network.subnets[0].id])["Subnets"]
    assert subnets[0]["AvailableIpAddressCount"] == cloud.network.subnets[0].free
    as_provision(cloud, "ec2").terminate_instances(InstanceIds=[instance_id])
    (found,) = instances_of(cloud, "lives")
    assert found["State"]["Name"] == "shutting-down"
    states = [detail["state"] for _, _, detail in events if detail.get("instance-id") == instance_id]
    assert states == ["pending", "shutting-down"]


def test_an_offering_without_capacity_is_refused_and_named(cloud: Cloud) -> None:
    """Otherwise, no scenario with a shortage can be played on real parts."""
    cloud.exchange.state_capacity(Selection(zone=ZONES[0]), 0)
    answer = launch(cloud, "shortage")
    cloud.exchange.state_capacity(Selection(zone=ZONES[0]), None)
    (error,) = answer["Errors"]
    assert (error["ErrorCode"], answer["Instances"]) == (NO_CAPACITY, [])
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"] == "m5.large"


def test_a_lost_reply_leaves_the_instance_behind(cloud: Cloud) -> None:
    """Otherwise, a launch whose reply is lost is never tested."""
    cloud.faults.arm("ec2:CreateFleet", Fault(kind=LOST_REPLY), count=1)
    with pytest.raises(ConnectionClosedError):
        launch(cloud, "lost", once=True)
    assert len(instances_of(cloud, "lost")) == 1
    launch(cloud, "lost")
    assert len(instances_of(cloud, "lost")) == 1, "the token makes the second request the first one"


def test_the_sdk_retries_a_throttled_call(cloud: Cloud) -> None:
    """Otherwise, botocore does not recognise our faults as EC2's."""
    cloud.faults.arm("ec2:DescribeInstances", Fault(kind=THROTTLE), count=1)
    instances_of(cloud, "nobody")
    cloud.faults.arm("ec2:DescribeInstances", Fault(kind=THROTTLE), count=1)
    with pytest.raises(ClientError, match="RequestLimitExceeded"):
        as_provision(cloud, "ec2", once=True).describe_instances()


def test_a_listener_is_notified_of_a_call_before_its_reply(cloud: Cloud) -> None:
    """Otherwise, a function cannot be killed in the middle of its launch."""
    heard: list[tuple[str, int]] = []
    cloud.http.after("ec2:CreateFleet", lambda call: heard.append((call.access_key, len(cloud.instances.all()))))
    before = len(cloud.instances.all())
    launch(cloud, "heard")
    cloud.http.after("ec2:CreateFleet", lambda _: None)
    assert heard == [(cloud.identities.of_function(PROVISION).access_key, before + 1)]


def test_an_unknown_caller_is_refused(cloud: Cloud) -> None:
    """Otherwise, a function that runs without its role's credentials goes unnoticed."""
    session = boto3.Session("ASIANOBODY", "secret", region_name="us-east-1", botocore_session=_core())
    for service, call in (("ec2", "describe_instances"), ("sqs", "list_queues"), ("s3", "list_buckets")):
        client = session.client(service, endpoint_url=cloud.http.url, config=ONE_ATTEMPT)
        with pytest.raises(ClientError, match="UnrecognizedClientException"):
            getattr(client, call)()


def test_errors_have_their_codes(cloud: Cloud) -> None:
    """Otherwise, functions mistake a missing object for a denied call."""
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        as_provision(cloud, "ec2").terminate_instances(InstanceIds=["i-00000000000000000"])
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        as_provision(cloud, "eks").describe_cluster(name="other")
    with pytest.raises(ClientError, match="ParameterNotFound"):
        as_provision(cloud, "ssm").get_parameter(Name="/aws/service/nothing")


def test_messages_wait_for_their_delay_in_real_time(cloud: Cloud) -> None:
    """Otherwise, `execute` runs before there is anything to see."""
    sqs, url = as_provision(cloud, "sqs"), cloud.queue_urls[wiring.WORK.name]
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "0", "MessageBody": "{}", "DelaySeconds": 2}])
    sent = time.monotonic()
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=8)["Messages"]
    assert time.monotonic() - sent >= 1.9
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_calls_that_moto_answers_come_one_after_another(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message received while another was deleted has ended a scene: moto walked through a set that another call changed."""
    inside: list[str] = []
    most = 0
    asked = http_endpoint._ask_moto

    def counted(request: SignedRequest) -> RawResponse:
        nonlocal most
        inside.append(request.name)
        most = max(most, len(inside))
        time.sleep(0.01)
        try:
            return asked(request)
        finally:
            inside.remove(request.name)

    monkeypatch.setattr(http_endpoint, "_ask_moto", counted)
    sqs = as_provision(cloud, "sqs")
    url = cloud.queue_urls[wiring.WORK.name]
    with ThreadPoolExecutor(4) as pool:
        for receiving in [pool.submit(sqs.receive_message, QueueUrl=url) for _ in range(8)]:
            receiving.result()
    assert most == 1


def test_the_catalogue_is_read_and_stored_as_the_function_does_it(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, pages, prices or S3 over HTTP differ from what the functions read."""
    for name, value in cloud.environment(BY_NAME["refresh_catalogue"]).items():
        monkeypatch.setenv(name, value)
    application = Application(Adapters(cloud.settings, boto3.Session(botocore_session=_core()), SystemClock()))
    application.catalogue_refresh.refresh(RunReport())
    found = {t.name: t for t in application.adapters.catalogues.catalogue([]).default}
    assert set(found) == {t.name for t in cloud.region.types}
    sold = {(o.zone, o.capacity_type): o.price for o in found["m5.large"].offerings}
    assert {zone for zone, _ in sold} == set(ZONES)
    assert all(price > 0 for price in sold.values())
    assert as_provision(cloud, "s3").list_objects_v2(Bucket=BUCKET)["KeyCount"] >= 1


def test_functions_read_their_settings_from_the_environment(cloud: Cloud) -> None:
    assert Settings.from_environment(cloud.environment(PROVISION)) == cloud.settings


def review(authenticator: Authenticator, token: str) -> dict[str, Any]:
    """The status that the API server returns."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    with urlopen(Request(authenticator.url, msgspec.json.encode(asked))) as answer:  # noqa: S310 - our own address
        found = msgspec.json.decode(answer.read())
    assert found["apiVersion"] == asked["apiVersion"]
    status: dict[str, Any] = found["status"]
    return status


def test_the_authenticator_knows_functions_by_their_roles(cloud: Cloud) -> None:
    """Otherwise, RBAC is tested with another identity than the one that EKS gives."""
    caller = cloud.identities.of_function(PROVISION)
    session = boto3.Session(caller.access_key, caller.secret_key, caller.session_token, "us-east-1")
    token = EksToken(presigner(session, cluster=cloud.settings.cluster_name), SystemClock())()
    with Authenticator(cloud.identities, cloud.settings.cluster_name) as authenticator:
        status = review(authenticator, token)
        assert status["authenticated"] is True
        assert status["user"]["groups"] == ["fleetwright:provision"]
        assert status["user"]["username"].endswith("assumed-role/fleetwright-provision/provision")
        assert review(authenticator, token[:-8])["authenticated"] is False
        authenticator.entries.clear()
        assert review(authenticator, token)["authenticated"] is False
        assert "no access entry" in authenticator.refused[-1]


def test_a_revoked_key_belongs_to_nobody(cloud: Cloud) -> None:
    """Otherwise, credentials taken from a function still open the cluster."""
    caller = cloud.identities.of_function(BY_NAME["interrupt"])
    assert cloud.identities.of_key(caller.access_key) == caller
    cloud.identities.revoke(BY_NAME["interrupt"])
    assert cloud.identities.of_key(caller.access_key) is None


def test_a_stopped_clock_does_what_is_due_and_drops_the_rest() -> None:
    """Otherwise, instances of one test change in the next one."""
    clock, happened = WallClock(), []
    clock.start()
    clock.after(timedelta(seconds=60), lambda: happened.append("late"))
    clock.after(timedelta(milliseconds=20), lambda: happened.append("soon"))
    end = time.monotonic() + 10
    while not happened and time.monotonic() < end:
        time.sleep(0.005)
    clock.stop()
    assert happened == ["soon"]
    assert not clock._thread.is_alive()
