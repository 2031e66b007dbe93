"""How the answers of AWS are read: what is missing, not permitted, refused for a while, or too long for one page."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from cli.doctor.account import PAGES_MAX
from cli.doctor.errors import NoClusterError, NotAllowedError, NotAnsweredError, unanswered
from tests.unit.cli.doctor.answering_account import AnsweringAccount


@pytest.mark.parametrize(
    "code", ["ResourceNotFoundException", "NotFoundException", "NoSuchEntity", "ValidationError", "404"]
)
def test_an_object_that_is_not_there_is_none(code: str) -> None:
    assert AnsweringAccount(GetRole=code).ask("iam", "GetRole", RoleName="r") is None


@pytest.mark.parametrize("code", ["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"])
def test_a_call_that_is_not_permitted_is_named(code: str) -> None:
    with pytest.raises(NotAllowedError) as refused:
        AnsweringAccount(GetRole=code).ask("iam", "GetRole")
    assert unanswered(refused.value) == "these credentials may not call iam:GetRole"


@pytest.mark.parametrize(("code", "says"), [("Throttling: slow down", "slow down"), ("Throttling", "Throttling")])
def test_a_call_that_fails_says_why(code: str, says: str) -> None:
    with pytest.raises(NotAnsweredError) as failed:
        AnsweringAccount(GetRole=code).ask("iam", "GetRole")
    assert unanswered(failed.value) == f"iam:GetRole: {says}"


def test_credentials_that_are_not_valid_end_the_command() -> None:
    with pytest.raises(ClientError):
        AnsweringAccount(GetRole="ExpiredTokenException").ask("iam", "GetRole")


def test_all_pages_are_read_ten_at_most() -> None:
    tokens = ("Marker", "NextMarker")
    pages = [{"Roles": ["a"], "NextMarker": "2"}, {"NextMarker": "3"}, {"Roles": ["b"]}]
    account = AnsweringAccount(ListRoles=pages)
    assert list(account.every("iam", "ListRoles", "Roles", tokens, PathPrefix="/")) == ["a", "b"]
    assert account.asked == [
        ("ListRoles", {"PathPrefix": "/"} | ({"Marker": marker} if marker else {})) for marker in ("", "2", "3")
    ]
    endless = AnsweringAccount(ListRoles={"Roles": ["a"], "NextMarker": "x"})
    assert len(list(endless.every("iam", "ListRoles", "Roles", tokens))) == PAGES_MAX == 10


@pytest.mark.parametrize(
    ("status", "is_deployed"),
    [
        ("", False),
        ("REVIEW_IN_PROGRESS", False),
        ("CREATE_IN_PROGRESS", False),
        ("ROLLBACK_COMPLETE", False),
        ("DELETE_FAILED", False),
        ("CREATE_COMPLETE", True),
        ("UPDATE_FAILED", True),
    ],
)
def test_functions_are_there_once_the_stack_was_created(status: str, is_deployed: bool) -> None:
    account = AnsweringAccount(status=status)
    assert (account.stack_status(), account.is_deployed()) == (status, is_deployed)


def test_settings_are_those_of_the_function_provision() -> None:
    def resource(kind: str, logical: str) -> dict[str, str]:
        return {"ResourceType": kind, "LogicalResourceId": logical, "PhysicalResourceId": f"physical-{logical}"}

    function = "AWS::Lambda::Function"
    resources = [
        resource("AWS::IAM::Role", "provisionRole"),
        resource(function, "disrupt1"),
        resource(function, "provision1"),
    ]
    configuration = {"Environment": {"Variables": {"MODE": "act"}}}
    answers = {"ListStackResources": {"StackResourceSummaries": resources}, "GetFunctionConfiguration": configuration}
    account = AnsweringAccount(**answers)
    assert account.settings() == {"MODE": "act"}
    assert account.asked[-1] == ("GetFunctionConfiguration", {"FunctionName": "physical-provision1"})
    assert account.asked[0] == ("ListStackResources", {"StackName": "fleetwright-prod"})
    assert not account.subscribes()
    resources.append(resource("AWS::Logs::SubscriptionFilter", "watch"))
    assert account.subscribes()
    assert AnsweringAccount().settings() == {}
    assert AnsweringAccount(**{**answers, "GetFunctionConfiguration": {}}).settings() == {}


def test_roles_are_named_in_the_partition_of_the_credentials() -> None:
    caller = {"Arn": "arn:aws-cn:sts::210987654321:assumed-role/a/b"}
    assert AnsweringAccount(GetCallerIdentity=caller).role("r") == "arn:aws-cn:iam::210987654321:role/r"


def test_the_cluster_is_described_or_missing() -> None:
    account = AnsweringAccount(cluster={"version": "1.33"})
    assert account.described() == {"version": "1.33"}
    assert account.asked == [("DescribeCluster", {"name": "prod"})]
    with pytest.raises(NoClusterError):
        AnsweringAccount().described()
