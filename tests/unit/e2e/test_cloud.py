"""The AWS account of the suite with real parts, over HTTP: what functions see of it, and which faults its calls have."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.request import Request, urlopen

import boto3
import botocore.session
import msgspec
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.loaders import Loader

from adapters.kube import PREFIX, EksToken, presigner
from adapters.ports import ConflictError, DeniedError, JsonObject, PortError
from adapters.runtime import SystemClock
from core import labels
from core.ami_families.al2023 import AL2023
from installation import wiring
from installation.array_threads import ARRAY_THREADS
from installation.wiring import BY_NAME
from simulator.aws.ec2.instances import RUNNING, Instance, Instances, Subnet
from simulator.aws.installation import Exchange, Pool, Region, builtin_region
from simulator.clock import stream
from simulator.record import Recorder
from tests.builders import a_type
from tests.e2e.cloud import http_endpoint
from tests.e2e.cloud.authenticator import Authenticator
from tests.e2e.cloud.aws_protocol import RawResponse, SignedRequest
from tests.e2e.cloud.identities import Caller, TokenError, caller_of
from tests.e2e.cloud.kubelets import Kubelets, Pace
from tests.e2e.cloud.server import Cloud, HostedCluster, in_zones
from tests.e2e.cloud.wall_clock import WallClock
from tests.e2e.functions.runtime_api import lineage_in, trace_header
from tests.unit.simulator.aws.ec2.test_boot import rendered

PROVISION = BY_NAME["provision"]
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


def test_functions_compute_on_one_thread_as_deployed_ones(cloud: Cloud) -> None:
    """On two threads, the last bits of a product differ: once, a plan for a burst was another one when it was repeated."""
    for spec in wiring.FUNCTIONS:
        assert cloud.environment(spec).items() >= ARRAY_THREADS.items()


def test_an_unknown_caller_is_refused(cloud: Cloud) -> None:
    """Otherwise, a function that runs without its role's credentials goes unnoticed."""
    session = boto3.Session("ASIANOBODY", "secret", region_name="us-east-1", botocore_session=_core())
    for service, call in (("ec2", "describe_instances"), ("sqs", "list_queues"), ("s3", "list_buckets")):
        client = session.client(service, endpoint_url=cloud.http.url, config=ONE_ATTEMPT)
        with pytest.raises(ClientError, match="UnrecognizedClientException"):
            getattr(client, call)()


def test_messages_wait_for_their_delay_in_real_time(cloud: Cloud) -> None:
    """Otherwise, `execute` runs before there is anything to see."""
    sqs, url = as_provision(cloud, "sqs"), cloud.queue_urls[wiring.WORK.name]
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "0", "MessageBody": "{}", "DelaySeconds": 2}])
    sent = time.monotonic()
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=8)["Messages"]
    assert time.monotonic() - sent >= 1.9
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_a_message_keeps_the_chain_that_led_to_it(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK sends the trace header of its invocation along, and SQS hands it to the next one: so Lambda counts a chain."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "execute")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", trace_header({"execute": 3, "provision": 1}))
    sqs, url = as_provision(cloud, "sqs"), cloud.queue_urls["looks"]
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "0", "MessageBody": "{}"}])
    (message,) = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["All"])["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert lineage_in(message["Attributes"]["AWSTraceHeader"]) == {"execute": 3, "provision": 1}
    assert lineage_in(trace_header({})) == {}, "a first invocation has no chain"


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


# Whom the authenticator of the suite with real parts accepts: it must refuse what EKS refuses.


CALLER = Caller(
    account="123456789012",
    role_arn="arn:aws:iam::123456789012:role/provision",
    session_name="provision",
    access_key="ASIAEXAMPLE",
    secret_key="secret/with+signs",
    session_token="session//token+==",
    role_id="AROAEXAMPLE",
)


class Clock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def a_token(cluster: str = "shop", **changes: str) -> str:
    """The token that a function with the caller's credentials makes."""
    given = {
        "aws_access_key_id": CALLER.access_key,
        "aws_secret_access_key": CALLER.secret_key,
        "aws_session_token": CALLER.session_token,
        **changes,
    }
    session = boto3.Session(region_name="us-east-1", **given)
    return EksToken(presigner(session, cluster=cluster), Clock())()


def known(access_key: str) -> Caller | None:
    return CALLER if access_key == CALLER.access_key else None


def check(token: str, *, later: timedelta = timedelta(0)) -> Caller:
    return caller_of(token, "shop", datetime.now(UTC) + later, known)


def rewritten(token: str, before: str, after: str) -> str:
    """The token with something else in its address."""
    encoded = token.removeprefix(PREFIX)
    url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    assert before in url
    return PREFIX + base64.urlsafe_b64encode(url.replace(before, after).encode()).decode().rstrip("=")


def test_the_token_that_functions_make_is_accepted_for_fourteen_minutes() -> None:
    """Otherwise, no function can talk to a cluster; they keep a token for that long."""
    token = a_token()
    assert check(token) == CALLER
    assert check(token, later=timedelta(minutes=14)) == CALLER


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cluster": "other"}, "another cluster"),
        ({"aws_secret_access_key": "guessed"}, "SignatureDoesNotMatch"),
        ({"aws_access_key_id": "ASIAREVOKED"}, "InvalidClientTokenId"),
        ({"aws_session_token": "an older session"}, "InvalidClientTokenId"),
    ],
)
def test_credentials_of_another_caller_are_refused(changes: dict[str, str], reason: str) -> None:
    """Otherwise, the suite accepts what EKS refuses, and proves nothing about access."""
    with pytest.raises(TokenError, match=reason):
        check(a_token(**changes))


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("https://sts.us-east-1.amazonaws.com/", "https://sts.example.com/", "not STS"),
        ("https:", "http:", "not STS"),
        ("GetCallerIdentity", "AssumeRole", "AssumeRole"),
        ("&Version=", "&Extra=1&Version=", "not allowed"),
        ("&Version=", "&Action=GetCallerIdentity&Version=", "doubled"),
        ("x-k8s-aws-id", "x-other", "not signed"),
        ("X-Amz-Expires=60", "X-Amz-Expires=9000", "Expires"),
    ],
)
def test_an_address_that_eks_does_not_expect_is_refused(before: str, after: str, reason: str) -> None:
    """Otherwise, a change to how tokens are made passes here and fails on EKS."""
    with pytest.raises(TokenError, match=reason):
        check(rewritten(a_token(), before, after))


def test_an_old_token_is_refused() -> None:
    """Otherwise, a function that never renews its token goes unnoticed."""
    with pytest.raises(TokenError, match="ago"):
        check(a_token(), later=timedelta(minutes=15, seconds=1))


@pytest.mark.parametrize("token", ["", "secret", PREFIX, PREFIX + "%%%", PREFIX + "a" * 5000])
def test_text_that_is_no_token_is_refused(token: str) -> None:
    """The API server sends the authenticator every bearer token that it does not know itself."""
    with pytest.raises(TokenError):
        check(token)


# From an instance to a Node, with a small API server in memory in place of the real one.


SOON = 5.0
NAME = "ip-10-0-0-7.ec2.internal"
GPU = "nvidia.com/gpu"


class Api:
    """Objects by kind and name. With `away` set, every call raises this error."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], JsonObject] = {}
        self.away: PortError | None = None
        self.first_seen: list[JsonObject] = []
        self._number = 0

    def create(self, one: JsonObject) -> JsonObject:
        self._answer()
        key = ("nodes" if one["kind"] == "Node" else "csinodes", one["metadata"]["name"])
        if key in self.objects:
            raise ConflictError("create", "there already")
        self._number += 1
        made = {**one, "metadata": {**one["metadata"], "uid": f"uid-{self._number}", "resourceVersion": "1"}}
        self.objects[key] = made
        self.first_seen.append(made)
        return made

    def get(self, resource: str, name: str) -> JsonObject | None:
        self._answer()
        return self.objects.get((resource, name))

    def patch(self, resource: str, name: str, body: JsonObject, *, subresource: str = "") -> JsonObject:
        self._answer()
        merged = _merged(self.objects[resource, name], body)
        self.objects[resource, name] = merged
        return merged

    def delete(self, resource: str, name: str) -> None:
        self._answer()
        self.objects.pop((resource, name), None)

    def _answer(self) -> None:
        if self.away is not None:
            raise self.away


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {key: _merged(old.get(key), new.get(key, old.get(key))) for key in old | new}


@dataclass
class Account:
    """Instances of one type with a GPU."""

    clock: WallClock
    exchange: Exchange
    instances: Instances
    region: Region

    def launch(self, number: int = 1, *, data: str | None = None, address: int = 7) -> Instance:
        instance = Instance(
            id=f"i-{number}",
            pool=Pool("m5.large", "us-east-1a", "spot"),
            image_id="ami-1",
            subnet=Subnet("subnet-1", "us-east-1a", "10.0.0.0/19", 100),
            private_ip=f"10.0.0.{address}",
            launched_at=self.clock.now(),
            price=1,
            token="t",
            tags={},
            user_data=rendered(AL2023) if data is None else data,
            state=RUNNING,
        )
        with self.clock.lock:
            self.instances.launch(instance)
        return instance

    def end(self, instance: Instance) -> None:
        with self.clock.lock:
            self.instances.terminate([instance.id], "test")


@pytest.fixture
def account() -> Iterator[Account]:
    clock = WallClock()
    recorder = Recorder(clock)
    types = (a_type("m5.large", extra={GPU: "1"}),)
    region = Region(types=types, zone_ids={"us-east-1a": "use1-az6"})
    instances = Instances(clock, recorder, stream(0, "t"), lambda *_: None)
    clock.start()
    yield Account(clock, Exchange(recorder, types), instances, region)
    clock.stop()


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def kubelets(account: Account, api: Api) -> Iterator[Kubelets]:
    short = timedelta(milliseconds=20)
    with Kubelets(account, api, Pace(boot=short, cloud=short, devices=short, removal=short)) as running:
        yield running


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.005)


def node(api: Api) -> JsonObject:
    return api.objects.get(("nodes", NAME), {})


def is_complete(api: Api) -> bool:
    found = node(api)
    return bool(found) and labels.ZONE in found["metadata"]["labels"] and GPU in found["status"]["allocatable"]


def test_a_reused_address_waits_for_the_old_node_to_go(account: Account, api: Api, kubelets: Kubelets) -> None:
    """Otherwise, a dead machine's Node represents a living one."""
    old = account.launch(1)
    until(lambda: is_complete(api))
    new = account.launch(2)
    account.end(old)
    until(lambda: node(api).get("spec", {}).get("providerID") == new.provider_id)


def test_a_final_refusal_of_the_api_server_is_reported(account: Account, api: Api, kubelets: Kubelets) -> None:
    """Otherwise, an invalid Node looks like one that boots slowly."""
    api.away = DeniedError("kube", "metadata.labels: Invalid value")
    account.launch()
    until(lambda: kubelets.failures)
    assert f"register {NAME}" in kubelets.failures[0]


def test_user_data_that_does_not_join_and_failed_boots_give_no_node(
    account: Account, api: Api, kubelets: Kubelets
) -> None:
    """Otherwise, liveness is never tested."""
    kubelets.boot.disturb(1, None)
    account.launch(1)
    account.launch(2, data="")
    time.sleep(0.2)
    assert api.objects == {}


def test_nothing_is_written_after_stop(account: Account, api: Api) -> None:
    """Otherwise, one test's nodes appear in the next one."""
    with Kubelets(account, api, Pace(boot=timedelta(0))):
        pass
    account.launch()
    time.sleep(0.1)
    assert api.objects == {}
