"""Pages show what the doctor prints of an account in which much is missing, of one that is ready, and of a new cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
from moto import mock_aws

from cli.__main__ import main
from installation.cluster_roles import RULES_OF, group_of
from tests.fakes.api_server import ApiServer
from tests.unit.cli.commands.test_doctor import answer, deployed
from tests.unit.cli.doctor.test_cluster_api import install
from tests.unit.cli.doctor.test_roles import a_role, roles_may_be_passed

PAGE: Final = Path(__file__).parents[4] / "docs" / "how-to" / "deploy.md"
TUTORIAL: Final = PAGE.parents[1] / "tutorials" / "first-cluster.md"
REGION: Final = "eu-west-1"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.Session]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        made = boto3.Session(region_name=REGION)
        monkeypatch.setattr(boto3, "Session", lambda **_: made)
        answer(made, "eks.ListAccessEntries", {"accessEntries": ["arn:aws:iam::123456789012:role/Nodes"]})
        # One answer for every entry: that of nodes, and those of functions.
        entry = {"type": "EC2_LINUX", "kubernetesGroups": [group_of(function) for function in RULES_OF]}
        answer(made, "eks.DescribeAccessEntry", {"accessEntry": entry})
        answer(made, "logs.DescribeSubscriptionFilters", {"subscriptionFilters": []})
        yield made


def a_cluster(session: boto3.Session, **described: Any) -> None:
    access = {"endpointPublicAccess": True, "publicAccessCidrs": ["0.0.0.0/0"]}
    cluster = {"status": "ACTIVE", "version": "1.33", "resourcesVpcConfig": access, **described}
    answer(session, "eks.DescribeCluster", {"cluster": cluster})


def concurrency(session: boto3.Session, limit: int, free: int) -> None:
    limits = {"ConcurrentExecutions": limit, "UnreservedConcurrentExecutions": free}
    answer(session, "lambda.GetAccountSettings", {"AccountLimit": limits})


def output_on_the_page(number: int, page: Path = PAGE) -> str:
    """An output of the doctor on the page."""
    return re.findall(r"```\n(CHECK .*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[number]


def test_an_account_in_which_much_is_missing(
    session: boto3.Session, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = {"Error": {"Code": "ValidationError", "Message": "Stack with id fleetwright-prod does not exist"}}
    answer(session, "cloudformation.DescribeStacks", missing, 400)
    a_cluster(session, endpoint=url, accessConfig={"authenticationMode": "CONFIG_MAP"})
    concurrency(session, 10, 10)
    assert main(["doctor", "--cluster", "prod", "--region", REGION]) == 1
    assert capsys.readouterr().out == output_on_the_page(0)


def test_an_account_that_is_ready(
    session: boto3.Session, server: ApiServer, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    install(server)
    deployed(session, Environment={"Variables": {"SHARED_BUCKET_NAME": "market"}})
    audit = {"clusterLogging": [{"types": ["audit"], "enabled": True}]}
    a_cluster(session, endpoint=url, accessConfig={"authenticationMode": "API"}, logging=audit)
    concurrency(session, 1000, 981)
    answer(session, "lambda.GetFunctionRecursionConfig", {"RecursiveLoop": "Allow"})
    a_role(session, "AWSServiceRoleForEC2Spot")
    a_role(session, "Nodes")
    roles_may_be_passed(session, "Nodes")
    session.client("logs").create_log_group(logGroupName="/aws/eks/prod/cluster")
    s3 = session.client("s3")
    s3.create_bucket(Bucket="market", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="market", Key="catalogue/eu-west-1.json", Body=b"{}")
    assert main(["doctor", "--cluster", "prod", "--region", REGION]) == 0
    told = capsys.readouterr().out
    assert datetime.now(UTC).strftime("%Y-") in told
    assert re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-11-27 09:45", told) == output_on_the_page(1)


def test_a_new_cluster_of_the_tutorial(session: boto3.Session, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader compares line by line, and a check that the page lacks looks like a fault."""
    missing = {"Error": {"Code": "ValidationError", "Message": "Stack with id fleetwright-demo does not exist"}}
    answer(session, "cloudformation.DescribeStacks", missing, 400)
    answer(session, "eks.ListAccessEntries", {"accessEntries": []})
    a_cluster(session, endpoint=url, accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"})
    concurrency(session, 1000, 1000)
    a_role(session, "AWSServiceRoleForEC2Spot")
    assert main(["doctor", "--cluster", "demo", "--region", REGION]) == 1
    assert capsys.readouterr().out == output_on_the_page(0, TUTORIAL)
