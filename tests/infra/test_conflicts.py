"""Values of the context that do not go together: each is allowed, and the deployment would fail or two clusters would mix."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.aws.dynamodb import launch_memory
from infra.conflicts import ENVIRONMENT_MAX
from infra.constructs.grants import state
from infra.context import ContextError, clusters
from installation.wiring import BY_NAME
from tests.access import page
from tests.access.iam import Policy, Request
from tests.access.template import ACCOUNT, REGION, Deployment
from tests.infra.conftest import synthesize

VPC = {"id": "vpc-0a1b2c3d", "subnets": ["subnet-0a1b2c3d"]}
TOPIC = "arn:aws:sns:eu-west-1:123456789012:on-call"
TWO = [{"cluster": "a"}, {"cluster": "b"}]
APART = [{"cluster": "a", "region": "eu-west-1"}, {"cluster": "b", "region": "us-east-1"}]


def problems(context: Mapping[str, Any]) -> str:
    try:
        clusters(context, account=None, region="eu-west-1")
    except ContextError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("context", "says"),
    [
        ({"clusters": [{"cluster": "a"}, {"cluster": "a"}]}, "clusters: a in eu-west-1 is listed twice"),
        (
            {"clusters": [{"cluster": "prod"}, {"cluster": "Prod"}]},
            "clusters: Prod in eu-west-1 has the name of another in other case, which IAM ignores in names of roles",
        ),
        ({"clusters": TWO, "tableName": "restored"}, "clusters: b in eu-west-1 has the tableName of another"),
        (
            {"clusters": TWO, "auditLogGroup": "/aws/eks/a/cluster"},
            "clusters: b in eu-west-1 has the auditLogGroup of another",
        ),
        (
            {"clusters": [{"cluster": "a"}, {"cluster": "b", "auditLogGroup": "/aws/eks/a/cluster"}]},
            "clusters: b in eu-west-1 has the auditLogGroup of another",
        ),
        (
            {"clusters": TWO, "vpc": {**VPC, "endpoints": ["ec2"]}},
            "clusters: b in eu-west-1 has the vpc.endpoints of another: a VPC takes one of each",
        ),
        ({"clusters": APART, "vpc": VPC}, "clusters: b in us-east-1 has vpc.id = vpc-0a1b2c3d of eu-west-1"),
        (
            {"clusters": APART, "alarmTopicArn": TOPIC},
            f'alarmTopicArn = "{TOPIC}" is not allowed: expected a topic in us-east-1, the cluster\'s region',
        ),
        (
            {"clusters": [{"region": "cn-north-1"}], "snapStart": True},
            "snapStart = true is not allowed: Lambda has no SnapStart in cn-north-1; expected false",
        ),
        ({"alarmTopicArn": "on-call"}, 'alarmTopicArn = "on-call" is not allowed: expected the ARN of an SNS topic'),
        ({"approvalTopicArn": 5}, 'approvalTopicArn = "5" is not allowed: expected the ARN of an SNS topic'),
        (
            {"alarmTopicArn": TOPIC + ".fifo", "alarmEmail": "on-call@example.com"},
            'alarmEmail = "on-call@example.com" is not allowed: a FIFO topic sends no email',
        ),
        (
            {"approveAboveDollars": "2", "approveNamespaces": ["payments"]},
            "approveAboveDollars and approveNamespaces without mode: no command waits for approval; set mode to approve",
        ),
        (
            {
                "mode": "approve",
                "clusters": [
                    {"cluster": "a", "vpc": {**VPC, "endpoints": "all", "routeTables": "rtb-0a1b2c3d"}},
                    {"cluster": "b", "vpc": {**VPC, "endpoints": ["sns"]}},
                ],
            },
            "clusters: b in eu-west-1 has the vpc.endpoints of another",
        ),
        (
            {"commandTopicArn": "on-call"},
            'commandTopicArn = "on-call" is not allowed: expected the ARN of an SNS topic',
        ),
        ({"commandTopicArn": TOPIC, "mode": "shadow"}, "commandTopicArn with mode shadow: no command is carried out"),
        (
            {"approvalTopicArn": TOPIC.replace("eu-west-1", "eu-west-2")},
            "expected a topic in eu-west-1, the cluster's region",
        ),
    ],
)
def test_values_that_do_not_go_together_stop_the_synthesis(context: Mapping[str, Any], says: str) -> None:
    (line,) = problems(context).splitlines()
    assert says in line


@pytest.mark.parametrize(
    "context",
    [
        {"clusters": TWO, "vpc": VPC, "alarmTopicArn": TOPIC, "auditLogGroup": ""},
        {"clusters": [{"cluster": "a", "account": "1" * 12}, {"cluster": "a", "account": "2" * 12}]},
        {"clusters": [{"cluster": "a", "region": "eu-west-1"}, {"cluster": "a", "region": "us-east-1"}]},
        {"approvalTopicArn": TOPIC + ".fifo", "mode": "approve"},
        {"approveAboveNodes": 3, "clusters": [{"cluster": "a", "mode": "approve"}, {"cluster": "b", "mode": "shadow"}]},
    ],
)
def test_clusters_may_share_what_is_made_for_it(context: Mapping[str, Any]) -> None:
    assert problems(context) == ""


def test_settings_that_lambda_would_not_take_stop_the_synthesis() -> None:
    """Lambda refuses them in the middle of the deployment, and CloudFormation rolls back all of it."""
    namespaces = ",".join(f"team-{n:03}" for n in range(400))
    said = problems(
        {"cluster": "shop", "mode": "approve", "approveNamespaces": namespaces, "featureGates": "NodeOverlay=true"}
    )
    assert said.endswith(f"shorten approveNamespaces, the longest with {len(namespaces)}")


@pytest.mark.parametrize("cluster", ["shop", "x" * 100])
def test_the_longest_settings_that_pass_fit_into_the_environment(cluster: str, tmp_path: Path) -> None:
    given = [
        {"cluster": cluster, "mode": "approve", "approveNamespaces": "n" * n} for n in range(0, ENVIRONMENT_MAX, 20)
    ]
    longest = [context for context in given if not problems(context)][-1]
    templates = synthesize(tmp_path, {"region": "us-east-1", **longest})
    (stack,) = [name for name in templates if name != "fleetwright" and not name.endswith("-state")]
    deployment = Deployment(templates)
    written = max(len(json.dumps(deployment.environment(name), separators=(",", ":"))) for name in BY_NAME)
    # CloudFormation makes names of the stack's, the logical id and a suffix: three queues, table, bucket, and one function.
    size = written + 6 * (len(stack) + len("--1A2B3C4D5E6F"))
    assert ENVIRONMENT_MAX * 9 // 10 < size < ENVIRONMENT_MAX


# `cdk deploy` of a new release over an old one: nothing that is kept, named or imported gets another logical id.
#
# CloudFormation creates what has a new id before it deletes the old one. A table would be empty, a queue would lose its
# messages, a fixed name would exist already, and an export that vanishes is still imported: the update fails, or succeeds with
# a loss. `logical_ids.json` has what releases have deployed: add what is new, and change nothing.


DEPLOYED: Final[dict[str, dict[str, dict[str, str]]]] = json.loads(
    (Path(__file__).parent / "logical_ids.json").read_text(encoding="utf-8")
)
"""Stack → `kept`, `named` and `exported` → logical id (or name of an export) → kind, fixed name, or value."""

KEPT: Final = ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::Logs::LogGroup", "AWS::SNS::Topic")
"""Kinds whose contents would be lost: rows, objects, messages, logs, confirmed subscriptions."""

NAMES: Final = {
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::CodeDeploy::DeploymentGroup": "DeploymentGroupName",
    "AWS::IAM::Role": "RoleName",
    "AWS::Lambda::Alias": "Name",
    "AWS::Scheduler::ScheduleGroup": "Name",
    "AWS::SSM::Parameter": "Name",
}
"""Kind → the property with its fixed name."""

Templates = dict[str, dict[str, Any]]


def kept(template: dict[str, Any]) -> dict[str, str]:
    return {i: found["Type"] for i, found in template["Resources"].items() if found["Type"] in KEPT}


def named(template: dict[str, Any]) -> dict[str, str]:
    return {
        i: f"{found['Type']} {found['Properties'][NAMES[found['Type']]]}"
        for i, found in template["Resources"].items()
        if NAMES.get(found["Type"], "") in found.get("Properties", {})
    }


def exported(template: dict[str, Any]) -> dict[str, str]:
    outputs = template.get("Outputs", {}).values()
    return {
        str(told["Export"]["Name"]): json.dumps(told["Value"], sort_keys=True) for told in outputs if "Export" in told
    }


READ: Final = {"kept": kept, "named": named, "exported": exported}


@pytest.mark.parametrize("stack", DEPLOYED)
@pytest.mark.parametrize("what", READ)
def test_what_a_release_has_deployed_keeps_its_logical_id(templates: Templates, stack: str, what: str) -> None:
    now = READ[what](templates[stack])
    gone = {i: told for i, told in DEPLOYED[stack][what].items() if now.get(i) != told}
    assert gone == {}, "an update would replace or refuse it"


@pytest.mark.parametrize("stack", DEPLOYED)
@pytest.mark.parametrize("what", READ)
def test_what_is_new_is_written_down(templates: Templates, stack: str, what: str) -> None:
    """Otherwise, the next release could change it, and no test would notice."""
    assert set(READ[what](templates[stack])) <= set(DEPLOYED[stack][what])


def test_every_stack_is_written_down(templates: Templates) -> None:
    assert set(templates) == set(DEPLOYED)


@pytest.mark.parametrize("stack", DEPLOYED)
def test_no_logical_id_contains_the_stacks_name(templates: Templates, stack: str) -> None:
    """A release has one template for every cluster: with such ids, it would replace what `cdk deploy` made."""
    written = stack.replace("-", "")
    assert "-" not in stack or [i for i in templates[stack]["Resources"] if written in i] == []


def test_no_resource_takes_a_logical_id_of_another_kind(templates: Templates) -> None:
    """CloudFormation refuses an update that changes the type of a resource."""
    for stack, found in DEPLOYED.items():
        was = {i: told.partition(" ")[0] for i, told in {**found["kept"], **found["named"]}.items()}
        now = templates[stack]["Resources"]
        assert {i for i, kind in was.items() if i in now and now[i]["Type"] != kind} == set()


# Clusters that share a table or a bucket reach only their own rows and objects, and the few that all of them share.


ITEM_ACTIONS = ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem", "Query")


@pytest.fixture(scope="module", params=[True, False], ids=["shares", "alone"])
def deployment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Templates of a cluster that shares capacity with others, or does not."""
    context = {**page.CONTEXT, "shareCapacity": request.param}
    return Deployment(synthesize(tmp_path_factory.mktemp("neighbours"), context))


def test_the_names_of_shared_partitions_are_those_that_functions_use() -> None:
    assert (state.REFUSALS, state.REQUEST_RATES) == (launch_memory.PARTITION, launch_memory.PACE_PARTITION)


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_a_function_reaches_no_rows_of_another_cluster(deployment: Deployment, function: str) -> None:
    """Even where both use one table: a name that begins like another cluster's is another cluster's too."""
    policy, settings = deployment.policy(function), deployment.settings(function)
    own = settings.cluster_name
    for table in {settings.table_name, settings.shared_table_name} - {""}:
        for action in ITEM_ACTIONS:
            for partition in ("neighbour#claims#0", f"{own}-2#claims#0", f"x{own}#claims#0", own, "anything"):
                assert not policy.allows(row(action, table, partition)), (action, partition)
            if table != settings.table_name:
                assert not policy.allows(row(action, table, f"{own}#claims#0"))


def test_a_function_that_keeps_state_reaches_its_own_rows(deployment: Deployment) -> None:
    policy, settings = deployment.policy("execute"), deployment.settings("execute")
    for action in ITEM_ACTIONS:
        assert policy.allows(row(action, settings.table_name, f"{settings.cluster_name}#claims#0")), action


def test_clusters_share_refusals_and_counts_of_launches(deployment: Deployment) -> None:
    """The rates of requests are read and counted up: nobody replaces or deletes them."""
    policy, settings = deployment.policy("provision"), deployment.settings("provision")
    table = settings.shared_table_name or settings.table_name
    allowed = {p: may(policy, table, p) for p in (state.REFUSALS, state.REQUEST_RATES)}
    assert allowed == {
        state.REFUSALS: {"Query", "GetItem", "PutItem", "UpdateItem", "DeleteItem"},
        state.REQUEST_RATES: {"GetItem", "UpdateItem"},
    }


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_only_the_reader_of_the_market_writes_to_the_shared_bucket_and_only_the_market(
    deployment: Deployment, function: str
) -> None:
    policy, settings = deployment.policy(function), deployment.settings(function)
    bucket = settings.shared_bucket_name or settings.bucket_name
    keys = ("catalogue/market.json.gz", "elsewhere/market.json.gz")
    writes = [policy.allows(Request("s3:PutObject", f"arn:aws:s3:::{bucket}/{key}")) for key in keys]
    assert writes == [function == "refresh_catalogue", False]


def may(policy: Policy, table: str, partition: str) -> set[str]:
    return {action for action in ITEM_ACTIONS if policy.allows(row(action, table, partition))}


def row(action: str, table: str, partition: str) -> Request:
    arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}"
    return Request(f"dynamodb:{action}", arn, {"dynamodb:LeadingKeys": (partition,)})
