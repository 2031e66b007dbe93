"""Reasons why a deployment would fail, or not work, that can be found in advance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT_ID
from moto.eks.models import eks_backends

from cli.__main__ import main
from cli.commands.doctor import diagnosis_table
from cli.doctor import cluster
from cli.doctor.cluster import OPERATIONS, diagnose, finding_of
from cli.doctor.network import OK, PROBLEM, UNKNOWN, Account, AccountFinding
from infra.context import clusters
from installation.wiring import FUNCTIONS
from tests.fakes.api_server import ApiServer, serving
from tests.unit.cli.doctor.test_cluster_api import install

REGION = "us-east-1"


class Answered:
    """The HTTP metadata of a response."""

    def __init__(self, status_code: int = 200) -> None:
        self.status_code = status_code


def answer(session: boto3.Session, call: str, body: dict[str, Any], status: int = 200) -> None:
    """Calls that moto does not implement."""
    known = vars(session).setdefault("answers", {})
    if call not in known:
        session.events.register(f"before-call.{call}", lambda **_: known[call])
    known[call] = (Answered(status), body)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.Session]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        made = boto3.Session(region_name=REGION)
        gone = {"Error": {"Code": "ValidationError", "Message": "Stack with id fleetwright-prod does not exist"}}
        answer(made, "cloudformation.DescribeStacks", gone, 400)
        yield made


@pytest.fixture
def api_server() -> Iterator[str]:
    """The address of an API server in which everything is installed."""
    server = ApiServer()
    install(server)
    with serving(server) as url:
        yield url


def concurrency(session: boto3.Session, free: int) -> None:
    answer(session, "lambda.GetAccountSettings", {"AccountLimit": {"UnreservedConcurrentExecutions": free}})


def nodes_may_join(session: boto3.Session) -> None:
    answer(session, "eks.ListAccessEntries", {"accessEntries": ["arn:aws:iam::123456789012:role/nodes"]})
    answer(session, "eks.DescribeAccessEntry", {"accessEntry": {"type": "EC2_LINUX"}})


def deployed(session: boto3.Session, **configuration: Any) -> None:
    """A stack of more resources than one answer holds, with its function on the second page."""
    answer(session, "cloudformation.DescribeStacks", {"Stacks": [{"StackStatus": "UPDATE_COMPLETE"}]})
    kind, logical = "AWS::Lambda::Function", "provisionFunction1"
    pages = {
        "": {"StackResourceSummaries": [], "NextToken": "second"},
        "second": {
            "StackResourceSummaries": [{"ResourceType": kind, "LogicalResourceId": logical, "PhysicalResourceId": "p"}]
        },
    }
    session.events.register(
        "before-call.cloudformation.ListStackResources",
        lambda params, **_: (Answered(), pages[params["body"].get("NextToken", "")]),
    )
    answer(session, "lambda.GetFunctionConfiguration", configuration)


def a_cluster(session: boto3.Session, **more: Any) -> None:
    """A cluster whose API server has no address yet; moto's has one that nobody answers."""
    session.client("eks").create_cluster(
        name="prod", roleArn="arn:aws:iam::123456789012:role/eks", version="1.33", **more
    )
    eks_backends[ACCOUNT_ID][REGION].clusters["prod"].endpoint = ""


def found(session: boto3.Session) -> dict[str, AccountFinding]:
    account = Account(session, "prod", "fleetwright-prod")
    return {finding.check: finding for finding in diagnose(account, datetime.now(UTC))}


def checked(session: boto3.Session, check: str) -> AccountFinding:
    """The result of one check: all of them take a second."""
    return finding_of(check, Account(session, "prod", "fleetwright-prod"), datetime.now(UTC))


def test_a_broken_account_gets_a_complete_list_of_problems_and_fixes(session: boto3.Session) -> None:
    a_cluster(
        session,
        resourcesVpcConfig={
            "subnetIds": ["subnet-1"],
            "publicAccessCidrs": ["10.0.0.0/8"],
            "endpointPublicAccess": True,
        },
    )
    taken = {"subscriptionFilters": [{"filterName": "security"}, {"filterName": "search"}]}
    answer(session, "logs.DescribeSubscriptionFilters", taken)
    session.client("ec2").enable_ebs_encryption_by_default()
    key = session.client("kms").create_key()["KeyMetadata"]["Arn"]
    answer(session, "ec2.GetEbsDefaultKmsKeyId", {"KmsKeyId": key})
    concurrency(session, 10)
    problems = {name: finding for name, finding in found(session).items() if finding.state == PROBLEM}
    assert set(problems) >= {"audit-log", "subscription", "concurrency", "spot-role", "volume-key"}
    assert all(finding.mends.startswith(("aws ", "npx ")) for finding in problems.values())
    regional = [finding.mends for name, finding in problems.items() if name != "spot-role"]
    assert all(f"--region {REGION}" in mends for mends in regional if mends.startswith("aws ")), "IAM has no regions"
    assert problems["concurrency"].says == "10 concurrent executions are unreserved, 119 are needed"
    assert "security, search" in problems["subscription"].says


@pytest.mark.parametrize(
    ("limit", "free", "wanted"), [(10, 10, 1000), (1000, 101, 1018), (3000, 100, 3019)], ids=["new", "usual", "raised"]
)
def test_a_quota_is_raised_by_what_is_missing(session: boto3.Session, limit: int, free: int, wanted: int) -> None:
    """Service Quotas refuses a request for no more than the present value."""
    limits = {"ConcurrentExecutions": limit, "UnreservedConcurrentExecutions": free}
    answer(session, "lambda.GetAccountSettings", {"AccountLimit": limits})
    assert checked(session, "concurrency").mends.endswith(f"--desired-value {wanted}")


@pytest.mark.parametrize(("free", "is_enough"), [(118, False), (119, True)])
def test_so_many_concurrent_executions_are_needed(session: boto3.Session, free: int, is_enough: bool) -> None:
    """A hundred stay unreserved, and the functions, which are not deployed yet, reserve nineteen."""
    concurrency(session, free)
    assert (checked(session, "concurrency").state == OK) == is_enough


def test_a_correct_account_has_no_problem(session: boto3.Session, api_server: str) -> None:
    described = {
        "endpoint": api_server,
        "resourcesVpcConfig": {"endpointPublicAccess": True, "publicAccessCidrs": ["0.0.0.0/0"]},
        "accessConfig": {"authenticationMode": "API"},
        "logging": {"clusterLogging": [{"types": ["audit"], "enabled": True}]},
    }
    answer(session, "eks.DescribeCluster", {"cluster": described})
    nodes_may_join(session)
    answer(session, "iam.GetRole", {"Role": {"RoleName": "AWSServiceRoleForEC2Spot"}})
    session.client("logs").create_log_group(logGroupName="/aws/eks/prod/cluster")
    concurrency(session, 1000)
    assert {name: finding for name, finding in found(session).items() if finding.state != OK} == {}


@pytest.mark.parametrize(
    ("network", "says"),
    [
        ({"endpointPublicAccess": False}, "is private"),
        ({"endpointPublicAccess": True, "publicAccessCidrs": ["10.0.0.0/8"]}, "open to 10.0.0.0/8 only"),
    ],
)
def test_an_api_server_that_functions_cannot_reach_is_a_problem(
    session: boto3.Session, network: dict[str, Any], says: str
) -> None:
    described = {"cluster": {"resourcesVpcConfig": network, "accessConfig": {"authenticationMode": "CONFIG_MAP"}}}
    answer(session, "eks.DescribeCluster", described)
    concurrency(session, 1000)
    assert says in checked(session, "endpoint").says
    assert checked(session, "endpoint").state == PROBLEM
    assert checked(session, "cluster").state == PROBLEM


def test_a_private_api_server_is_reached_by_functions_in_its_vpc(session: boto3.Session) -> None:
    """Before the deployment, the check prints the context key for it, with the cluster's own subnets."""
    network = {
        "endpointPublicAccess": False,
        "vpcId": "vpc-0a1b2c3d",
        "subnetIds": ["subnet-0a1b2c3d"],
        "clusterSecurityGroupId": "sg-0a1b2c3d",
    }
    answer(session, "eks.DescribeCluster", {"cluster": {"resourcesVpcConfig": network}})
    concurrency(session, 1000)
    key = checked(session, "endpoint").mends.partition("-c vpc=")[2].strip("'")
    (config,) = clusters({"vpc": key}, account=None, region=None)
    assert config.vpc is not None
    assert config.vpc.cluster_security_group == "sg-0a1b2c3d"
    deployed(session, VpcConfig={"SubnetIds": ["subnet-0a1b2c3d"]})
    assert checked(session, "endpoint").state == OK


def test_nodes_need_an_access_entry(session: boto3.Session) -> None:
    """Otherwise, they boot, are billed, and never join."""
    answer(session, "eks.DescribeCluster", {"cluster": {}})
    concurrency(session, 1000)
    answer(session, "eks.ListAccessEntries", {"accessEntries": []})
    assert checked(session, "node-entries").state == PROBLEM
    nodes_may_join(session)
    assert checked(session, "node-entries").says == "nodes of arn:aws:iam::123456789012:role/nodes may join"


@pytest.mark.parametrize(("shared", "bucket"), [({}, "own"), ({"SHARED_BUCKET_NAME": "shared"}, "shared")])
def test_old_prices_are_a_problem_after_deployment(session: boto3.Session, shared: dict[str, str], bucket: str) -> None:
    deployed(session, Environment={"Variables": {"BUCKET_NAME": "own", **shared}})
    concurrency(session, 100)
    s3 = session.client("s3")
    s3.create_bucket(Bucket=bucket)
    assert checked(session, "market").says.startswith("prices were never read")
    s3.put_object(Bucket=bucket, Key="catalogue/us-east-1.json", Body=b"{}")
    assert checked(session, "market").state == OK
    assert checked(session, "concurrency").state == OK


def test_an_audit_log_that_the_deployment_does_not_read_is_no_problem(session: boto3.Session) -> None:
    """The advice was to deploy with an empty `auditLogGroup`, and the problem stayed for people who did so."""
    a_cluster(session, resourcesVpcConfig={"subnetIds": ["subnet-1"]})
    concurrency(session, 1000)
    assert checked(session, "audit-log").state == PROBLEM
    deployed(session)
    assert checked(session, "audit-log").state == OK


@pytest.mark.parametrize(
    ("status", "command"),
    [
        ("ROLLBACK_COMPLETE", "delete-stack"),
        ("DELETE_FAILED", "delete-stack"),
        ("UPDATE_ROLLBACK_FAILED", "continue-update-rollback"),
    ],
)
def test_a_stack_that_cannot_be_updated_is_named_with_what_to_do(
    session: boto3.Session, status: str, command: str
) -> None:
    concurrency(session, 1000)
    answer(session, "cloudformation.DescribeStacks", {"Stacks": [{"StackStatus": status}]})
    told = checked(session, "stack")
    assert told.state == PROBLEM
    assert f"fleetwright-prod is {status}" in told.says
    assert told.mends == f"aws cloudformation {command} --stack-name fleetwright-prod --region {REGION}"


def test_prices_are_not_missed_where_the_first_deployment_was_rolled_back(session: boto3.Session) -> None:
    """Nothing of such a stack is left."""
    concurrency(session, 1000)
    answer(session, "cloudformation.DescribeStacks", {"Stacks": [{"StackStatus": "ROLLBACK_COMPLETE"}]})
    assert checked(session, "market").state == OK


ROLES = [
    f"arn:aws:iam::123456789012:role/fleetwright-prod-us-east-1-{name}"
    for name in ("execute", "provision", "reconcile")
]
"""Roles that launch, in moto's account."""


def a_key_of_volumes(session: boto3.Session, *statements: dict[str, Any]) -> str:
    """The key with which the account encrypts volumes."""
    policy = {"Version": "2012-10-17", "Statement": [{"Resource": "*", "Effect": "Allow", **one} for one in statements]}
    key = str(session.client("kms").create_key(Policy=json.dumps(policy))["KeyMetadata"]["Arn"])
    session.client("ec2").enable_ebs_encryption_by_default()
    answer(session, "ec2.GetEbsDefaultKmsKeyId", {"KmsKeyId": key})
    concurrency(session, 1000)
    return key


FOR_ALL = {"Principal": {"AWS": ROLES}, "Action": "kms:*"}
ACCOUNT_ALONE = {"Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "kms:*"}
FOR_EC2 = {"StringEquals": {"kms:ViaService": f"ec2.{REGION}.amazonaws.com", "kms:CallerAccount": "123456789012"}}
OF_AN_ORGANIZATION = {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}
BY_OTHERS = {"StringNotLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/admin"}}


@pytest.mark.parametrize(
    ("statements", "state"),
    [
        ([FOR_ALL], OK),
        ([{"Principal": "*", "Action": "kms:*"}], OK),
        ([{"Principal": "*", "Action": "kms:*", "Condition": FOR_EC2}], OK),
        ([{**FOR_ALL, "Principal": {"AWS": ROLES[:2]}}], PROBLEM),
        ([{**FOR_ALL, "Action": "kms:CreateGrant"}], PROBLEM),
        ([ACCOUNT_ALONE], PROBLEM),
        ([{**FOR_ALL, "Condition": OF_AN_ORGANIZATION}], UNKNOWN),
        ([FOR_ALL, {"Effect": "Deny", "Principal": "*", "Action": "kms:*", "Condition": OF_AN_ORGANIZATION}], UNKNOWN),
        ([FOR_ALL, {"Effect": "Deny", "Principal": "*", "Action": "kms:Decrypt", "Condition": BY_OTHERS}], PROBLEM),
    ],
    ids=[
        "roles",
        "everybody",
        "everybody, through EC2",
        "not reconcile",
        "grants, and no data keys",
        "by IAM policies, of which the roles have none",
        "an organization",
        "denied to what may be another organization",
        "denied to all but an administrator",
    ],
)
def test_a_key_of_volumes_admits_the_roles_that_launch(
    session: boto3.Session, statements: list[dict[str, Any]], state: str
) -> None:
    a_key_of_volumes(session, *statements)
    assert checked(session, "volume-key").state == state


def test_the_grants_that_mend_a_key_are_seen(session: boto3.Session) -> None:
    key = a_key_of_volumes(session, ACCOUNT_ALONE)
    deployed(session)
    for command in checked(session, "volume-key").mends.split(" && "):
        words = command.split()
        assert words[:3] == ["aws", "kms", "create-grant"]
        operations = words[words.index("--operations") + 1 : words.index("--grantee-principal")]
        session.client("kms").create_grant(KeyId=key, GranteePrincipal=words[-1], Operations=operations)
    assert checked(session, "volume-key").state == OK


def test_grants_are_asked_for_the_roles_that_launch_and_nobody_else(session: boto3.Session) -> None:
    """The key of an account with many volumes has tens of thousands of grants: ten pages did not reach ours."""
    key = a_key_of_volumes(session, ACCOUNT_ALONE)
    deployed(session)
    asked: list[str] = []

    def note(params: dict[str, Any], **_: Any) -> None:
        asked.append(json.loads(params["body"])["GranteePrincipal"])

    session.events.register("before-call.kms.ListGrants", note)
    assert checked(session, "volume-key").state == PROBLEM
    assert asked == ROLES
    constrained = {"EncryptionContextSubset": {"team": "shop"}}
    for role in ROLES:
        session.client("kms").create_grant(
            KeyId=key, GranteePrincipal=role, Operations=list(OPERATIONS), Constraints=constrained
        )
    assert checked(session, "volume-key").state == UNKNOWN


def test_a_grant_is_not_advised_where_the_policy_denies(session: boto3.Session) -> None:
    """No grant overrides a Deny."""
    a_key_of_volumes(session, FOR_ALL, {"Effect": "Deny", "Principal": {"AWS": ROLES[0]}, "Action": "kms:Decrypt"})
    told = checked(session, "volume-key")
    assert told.says.endswith(f"denies its use to {ROLES[0]}: launches fail")
    assert told.mends.startswith("aws kms get-key-policy ")


@pytest.mark.parametrize(
    ("unusable", "command"),
    [("disable_key", "enable-key"), ("schedule_key_deletion", "cancel-key-deletion")],
)
def test_a_key_that_is_off_is_named(session: boto3.Session, unusable: str, command: str) -> None:
    key = a_key_of_volumes(session, FOR_ALL)
    getattr(session.client("kms"), unusable)(KeyId=key.rpartition("/")[2])
    told = checked(session, "volume-key")
    assert (told.state, told.mends) == (PROBLEM, f"aws kms {command} --region {REGION} --key-id {key}")


def test_a_default_key_may_be_given_by_its_alias(session: boto3.Session) -> None:
    """KMS answers questions about policies and grants only for a key's own id."""
    key = a_key_of_volumes(session, FOR_ALL)
    session.client("kms").create_alias(AliasName="alias/volumes", TargetKeyId=key)
    answer(session, "ec2.GetEbsDefaultKmsKeyId", {"KmsKeyId": "alias/volumes"})
    assert checked(session, "volume-key") == (
        "volume-key",
        OK,
        f"the key {key} of volumes admits the functions' roles",
        "",
    )


def test_an_access_entry_of_nodes_is_found_on_every_page(session: boto3.Session) -> None:
    answer(session, "eks.DescribeCluster", {"cluster": {}})
    concurrency(session, 1000)
    pages = {"": {"accessEntries": ["arn:people"], "nextToken": "2"}, "2": {"accessEntries": ["arn:nodes"]}}
    session.events.register(
        "before-call.eks.ListAccessEntries",
        lambda params, **_: (Answered(), pages[params["query_string"].get("nextToken", "")]),
    )
    session.events.register(
        "before-call.eks.DescribeAccessEntry",
        lambda params, **_: (
            Answered(),
            {"accessEntry": {"type": "EC2_LINUX" if "nodes" in params["url_path"] else "STANDARD"}},
        ),
    )
    assert checked(session, "node-entries").says == "nodes of arn:nodes may join"


def test_the_entry_of_eks_auto_modes_own_nodes_is_not_for_ours(session: boto3.Session) -> None:
    """Our instances would boot, be billed, and never join."""
    answer(session, "eks.DescribeCluster", {"cluster": {}})
    concurrency(session, 1000)
    nodes_may_join(session)
    answer(session, "eks.DescribeAccessEntry", {"accessEntry": {"type": "EC2"}})
    assert checked(session, "node-entries").state == PROBLEM


@pytest.mark.parametrize(("status", "state"), [("CREATING", PROBLEM), ("FAILED", PROBLEM), ("UPDATING", OK)])
def test_a_cluster_that_is_not_there_yet_is_waited_for(session: boto3.Session, status: str, state: str) -> None:
    cluster = {"status": status, "version": "1.33", "accessConfig": {"authenticationMode": "API"}}
    answer(session, "eks.DescribeCluster", {"cluster": cluster})
    concurrency(session, 1000)
    assert checked(session, "cluster").state == state


def test_a_filter_of_another_cluster_with_a_longer_name_is_not_ours(session: boto3.Session) -> None:
    taken = ["fleetwright-prod-eu-watchauditlogtriggersauditlog1-A", "search"]
    answer(session, "logs.DescribeSubscriptionFilters", {"subscriptionFilters": [{"filterName": n} for n in taken]})
    concurrency(session, 1000)
    assert checked(session, "subscription").state == PROBLEM
    taken[0] = "fleetwright-prod-watchauditlogtriggersauditlog1-A"
    answer(session, "logs.DescribeSubscriptionFilters", {"subscriptionFilters": [{"filterName": n} for n in taken]})
    assert checked(session, "subscription").state == OK


def test_a_call_that_fails_leaves_the_other_checks(session: boto3.Session) -> None:
    """A suspended or throttled service ended the whole command, with advice about credentials."""
    throttled = {"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}
    answer(session, "lambda.GetAccountSettings", throttled, 400)
    told = found(session)
    assert told["concurrency"][:3] == ("concurrency", UNKNOWN, "lambda:GetAccountSettings: Rate exceeded")
    assert len(told) == len(cluster.CHECKS)


def test_a_missing_cluster_is_named(session: boto3.Session) -> None:
    concurrency(session, 1000)
    assert checked(session, "cluster").says == "there is no EKS cluster prod in us-east-1"


def test_nothing_is_said_of_a_cluster_that_is_not_there(session: boto3.Session) -> None:
    """An API server that `can be reached` would send people looking elsewhere than at the name."""
    missing = {"Error": {"Code": "ResourceNotFoundException", "Message": "No cluster found for name: prod."}}
    answer(session, "eks.ListAccessEntries", missing, 404)
    concurrency(session, 1000)
    told = found(session)
    assert {name for name, finding in told.items() if finding.state == UNKNOWN} == {
        "endpoint",
        "api-server",
        "definitions",
        "karpenter",
        "cluster-roles",
        "node-entries",
        "class-roles",
        "audit-log",
        "scoring",
    }
    assert told["endpoint"].says == "there is no cluster to ask"


@pytest.mark.parametrize("code", ["UnrecognizedClientException", "ExpiredTokenException", "InvalidClientTokenId"])
def test_credentials_that_are_no_longer_valid_are_told_as_such(
    code: str, session: boto3.Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are the most common obstacle, and no bug of this program."""
    answer(session, "eks.DescribeCluster", {"Error": {"Code": code, "Message": "The security token is invalid"}}, 403)
    monkeypatch.setattr(boto3, "Session", lambda **_: session)
    assert main(["doctor", "--cluster", "prod"]) == 2
    said = capsys.readouterr().err
    assert "The security token is invalid" in said
    assert "--profile, --region" in said


def test_checks_that_the_credentials_do_not_permit_are_unknown() -> None:
    class Refusing(Account):
        def ask(self, service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:
            raise cluster.NotAllowedError(f"{service}:{operation}")

    refusing = Refusing(boto3.Session(region_name=REGION), "prod", "fleetwright-prod")
    assert {finding.state for finding in diagnose(refusing, datetime.now(UTC))} == {UNKNOWN}


def test_the_checked_concurrency_is_what_the_functions_reserve() -> None:
    assert sum(spec.concurrency or 0 for spec in FUNCTIONS) == cluster.RESERVED


def test_below_the_table_are_the_repairs_of_problems_alone() -> None:
    """Checks may know a command that mends what is not broken."""
    rows = [("a", OK, "x"), ("b", PROBLEM, ""), ("c", PROBLEM, "mend c"), ("d", UNKNOWN, "y")]
    found = [AccountFinding(check, state, f"says {check}", mends)._asdict() for check, state, mends in rows]
    table, *repairs = diagnosis_table({"checks": found}).split("\n\n")
    assert [line.split() for line in table.splitlines()] == [
        ["CHECK", "STATE", "WHAT"],
        *([check, state, "says", check] for check, state, _ in rows),
    ]
    assert repairs == ["c:\n  mend c\n"]
