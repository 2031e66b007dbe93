"""Values of the context that do not go together: each is allowed, and the deployment would fail or two clusters would mix."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.conflicts import ENVIRONMENT_MAX
from infra.context import ContextError, clusters
from installation.wiring import BY_NAME
from tests.access.template import Deployment
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
