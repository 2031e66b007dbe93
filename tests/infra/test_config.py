"""The context of an installation: each key is known, each value is checked, one entry a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from infra.config import ClusterConfig
from infra.context import ContextError, clusters
from installation.stack_names import ROLE_NAME_MAX, SLUG_MAX
from tests.template_checks.acknowledged import ACKNOWLEDGED, Acknowledgement, Finding, idle, unexplained

VPC = "vpc-0a1b2c3d"
SUBNETS = ["subnet-0a1b2c3d", "subnet-0a1b2c3e"]


def one(**context: Any) -> ClusterConfig:
    (config,) = clusters(context, account=None, region=None)
    return config


@pytest.mark.parametrize(("given", "text"), [(True, "true"), ("true", "true"), (False, "false"), ("false", "false")])
def test_a_setting_reads_alike_in_the_file_and_on_the_command_line(given: object, text: str) -> None:
    """Otherwise, users who remove the rule for pods' status from the ClusterRole get a refused call for every pod."""
    assert one(nominatePods=given).settings["nominate_pods"] == text


@pytest.mark.parametrize(
    ("context", "says"),
    [
        ({"nominatePods": "flase"}, "nominatePods = flase is not allowed: expected true or false"),
        ({"clutser": "x"}, "clutser is not a key of the context, did you mean cluster?"),
        ({"featureGates": "NodeOverlay=maybe"}, "featureGates = NodeOverlay=maybe is not allowed"),
        ({"batchIdleSeconds": -1}, "batchIdleSeconds = -1 is not allowed: expected a whole number, 0 or more"),
        ({"minValuesPolicy": "strict"}, "expected Strict or BestEffort"),
        ({"logRetentionDays": "31"}, 'logRetentionDays = "31" is not allowed: expected one of 1, 3, 5'),
        ({"region": "us"}, 'region = "us" is not allowed: expected a region such as us-east-1'),
        (
            {"nodeRole": "arn:aws:iam::1:role/x"},
            "expected names of IAM roles, with their path (team/Nodes) if they have one; not ARNs",
        ),
        ({"account": 123456789012}, "account = 123456789012 is not allowed: expected twelve digits, as text"),
        ({"priceTerms": {"discount": []}}, "discount"),
        ({"schedulerConfig": "{"}, "schedulerConfig = { is not allowed"),
        ({"vmMemoryOverheadPercent": "7.5%"}, "vmMemoryOverheadPercent = 7.5% is not allowed"),
        ({"followZonalShift": "no"}, 'followZonalShift = "no" is not allowed: expected true or false'),
        ({"tableName": "x"}, "expected the name of a DynamoDB table"),
        ({"vpc": "vpc-1"}, 'vpc = "vpc-1" is not allowed: expected an object with id and subnets'),
        ({"vpc": {"id": "vpc-1", "subnets": SUBNETS}}, 'vpc.id = "vpc-1" is not allowed: expected the id of a VPC'),
        ({"vpc": {"id": VPC}}, "vpc.subnets = null is not allowed: expected ids of subnets, one to 16"),
        ({"vpc": {"id": VPC, "subnets": [*SUBNETS, "x"]}}, '"x"] is not allowed: expected ids of subnets'),
        (
            {"vpc": {"id": VPC, "subnet": SUBNETS, "subnets": SUBNETS}},
            "vpc.subnet is not a key of vpc. Known: id, subnets",
        ),
        (
            {"vpc": {"id": VPC, "subnets": SUBNETS, "endpoints": ["ecs"]}},
            'vpc.endpoints = ["ecs"] is not allowed: expected all',
        ),
        (
            {"vpc": {"id": VPC, "subnets": SUBNETS, "endpoints": "all"}},
            "vpc.routeTables: the gateway endpoints of dynamodb and s3",
        ),
        (
            {
                "vpc": {
                    "id": VPC,
                    "subnets": SUBNETS,
                    "securityGroups": ["sg-0a1b2c3d"],
                    "clusterSecurityGroup": "sg-0a1b2c3d",
                }
            },
            "vpc.clusterSecurityGroup: is for a group of the stack's own",
        ),
        (
            {"vpc": {"id": VPC, "subnets": [f"subnet-0a1b2c{n:02}" for n in range(17)]}},
            "is not allowed: expected ids of subnets, one to 16",
        ),
        ({"clusters": "a"}, "expected a list with an object per cluster"),
        ({"clusters": [{"cluster": "a"}, {"cluster": "b", "pollSeconds": 0}]}, "clusters[1].pollSeconds = 0"),
        ({"canaryMinutes": True}, "canaryMinutes = true is not allowed: expected a whole number of minutes"),
        ({"logRetentionDays": True}, "logRetentionDays = true is not allowed: expected one of 1, 3, 5"),
        (
            {"vpc": {"id": VPC, "subnets": SUBNETS, "endpoints": [["s3"]]}},
            'vpc.endpoints = [["s3"]] is not allowed: expected all',
        ),
        ({"pausingAlarms": [f"alarm-{n}" for n in range(101)]}, "expected names of alarms, 100 at most"),
    ],
)
def test_a_wrong_value_stops_the_synthesis_with_key_value_and_what_is_allowed(
    context: Mapping[str, Any], says: str
) -> None:
    with pytest.raises(ContextError) as caught:
        clusters(context, account=None, region=None)
    assert says in str(caught.value)


def test_every_wrong_key_is_told_at_once() -> None:
    with pytest.raises(ContextError) as caught:
        clusters({"clutser": "x", "region": "us", "pollSeconds": "often"}, account=None, region=None)
    assert len(str(caught.value).splitlines()) == 3


def test_keys_of_the_toolkit_are_passed_over() -> None:
    given = {"@aws-cdk/aws-iam:minimizePolicies": True, "aws:cdk:bundling-stacks": [], "vpc-provider:account=1": {}}
    assert clusters(given, account=None, region=None) == (one(),)


@pytest.mark.parametrize(
    ("field", "key", "given"),
    [
        ("approve_namespaces", "approveNamespaces", ["payments", "core-*"]),
        ("feature_gates", "featureGates", ["NodeOverlay=true", "StaticCapacity=false"]),
    ],
)
def test_a_setting_with_commas_may_be_a_list(field: str, key: str, given: list[str]) -> None:
    """As JSON, the namespaces would match no pod, so no command would wait for approval because of them."""
    assert one(mode="approve", **{key: given}).settings[field] == ",".join(given)


def test_a_name_that_is_given_twice_counts_once() -> None:
    """Otherwise, two access entries for one role end the synthesis with an error of the CDK."""
    assert one(nodeRoles=["Nodes", "GpuNodes", "Nodes"]).node_roles == ("Nodes", "GpuNodes")
    assert one(nodeRoles="Nodes, Nodes").node_roles == ("Nodes",)


def test_a_role_may_have_a_path() -> None:
    """Its ARN includes the path, so a role without it can neither be passed nor get an access entry."""
    assert one(nodeRoles=["/team/eks/Nodes", "team/eks/Nodes", "Others"]).node_roles == ("team/eks/Nodes", "Others")


@pytest.mark.parametrize("name", ["team/", "team//Nodes", "//Nodes", "a" * 65, "team/" + "a" * 65, "p" * 600 + "/a"])
def test_a_path_leads_to_a_name(name: str) -> None:
    with pytest.raises(ContextError, match="nodeRoles"):
        one(nodeRoles=[name])


def test_an_entry_takes_what_stands_beside_the_list_unless_it_says_otherwise() -> None:
    given = {
        "pollSeconds": 7,
        "clusters": [{"cluster": "a"}, {"cluster": "b", "pollSeconds": 3, "region": "eu-west-1"}],
    }
    found = clusters(given, account="123456789012", region="us-west-2")
    assert [(c.cluster, c.region, c.account, c.settings["poll_seconds"]) for c in found] == [
        ("a", "us-west-2", "123456789012", "7"),
        ("b", "eu-west-1", "123456789012", "3"),
    ]


@pytest.mark.parametrize("name", ["my_cluster", "x" * 100])
def test_every_name_that_eks_allows_makes_a_stack_of_its_own(name: str) -> None:
    """CloudFormation takes no underscore, and a schedule group no more than 64 characters."""
    stack = one(cluster=name).stack_name
    assert stack.replace("-", "").isalnum()
    assert len(stack) <= len("fleetwright-") + SLUG_MAX
    assert stack != one(cluster=name.replace("_", "-")[:99]).stack_name


def test_an_ordinary_name_is_kept() -> None:
    """An installation finds its stacks again after an update."""
    assert one(cluster="payments-eu").stack_name == "fleetwright-payments-eu"


def test_the_audit_log_is_read_where_eks_writes_it_unless_told_otherwise() -> None:
    assert one(cluster="a").log_group_of_audit_log == "/aws/eks/a/cluster"
    assert one(cluster="a", auditLogGroup="").log_group_of_audit_log == ""


def test_a_vpc_reads_alike_in_the_file_and_on_the_command_line() -> None:
    text = '{"id": "vpc-0a1b2c3d", "subnets": "subnet-0a1b2c3d, subnet-0a1b2c3e"}'
    assert one(vpc=text) == one(vpc={"id": VPC, "subnets": SUBNETS})


def test_a_list_of_clusters_reads_alike_in_the_file_and_on_the_command_line() -> None:
    text = '[{"cluster": "a"}, {"cluster": "b"}]'
    assert [c.cluster for c in clusters({"clusters": text}, account=None, region=None)] == ["a", "b"]


def test_roles_of_long_named_clusters_are_told_apart() -> None:
    """IAM takes 64 characters, and the name of a role is the account's in all regions."""
    names = {
        one(cluster=f"{'x' * 45}-{n}", region=region).role_name(function)
        for n in "ab"
        for region in ("us-east-1", "eu-west-1")
        for function in ("provision", "refresh_catalogue")
    }
    assert len(names) == 8
    assert max(map(len, names)) <= ROLE_NAME_MAX


# A finding without a reason, and a reason without a finding, are both reported.


ROWS = (Acknowledgement(r"AwsSolutions-L1", r"stack/.*", "a reason"), Acknowledgement("S1", "bucket", "another"))


def test_a_finding_is_explained_only_by_a_row_that_matches_all_of_it() -> None:
    explained, elsewhere = Finding("AwsSolutions-L1", "stack/f"), Finding("AwsSolutions-L1", "other/f")
    longer = Finding("AwsSolutions-L12", "stack/f")
    assert unexplained([explained, elsewhere, longer], ROWS) == [elsewhere, longer]


def test_a_row_that_nothing_needs_is_told() -> None:
    assert idle([Finding("AwsSolutions-L1", "stack/f")], ROWS) == [ROWS[1]]


def test_every_row_has_a_reason() -> None:
    assert all(row.reason.endswith(".") for row in ACKNOWLEDGED)
