"""An installation is found by its cluster: its stack's function `provision` has the settings of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ProfileNotFound

import cli.cluster.installation
import cli.cluster.region_search
from cli.cluster.installation import find_installation, installation_in
from cli.cluster.region_search import AccountRegion, SearchPlace, account_region
from cli.errors import InputError
from tests.fakes.lab import SETTINGS

FUNCTION = "AWS::Lambda::Function"


class Stacks:
    """A session, and its clients: stack → its resources, function → its environment, role → its credentials."""

    region_name = "eu-west-1"

    def __init__(
        self, stacks: dict[str, list[list[tuple[str, str, str]]]], functions: dict[str, dict[str, str]]
    ) -> None:
        self.stacks = stacks
        self.functions = functions

    def client(self, service: str, config: Any) -> Stacks:
        assert service in ("cloudformation", "lambda", "sts")
        assert config.connect_timeout < 10
        return self

    def get_paginator(self, name: str) -> Stacks:
        assert name == "list_stack_resources"
        return self

    def paginate(self, *, StackName: str) -> Iterator[dict[str, Any]]:  # noqa: N803 - as boto3 has it
        if StackName not in self.stacks:
            raise ClientError({"Error": {"Code": "ValidationError", "Message": "there is none"}}, "ListStackResources")
        for page in self.stacks[StackName]:
            keys = ("ResourceType", "LogicalResourceId", "PhysicalResourceId")
            yield {"StackResourceSummaries": [dict(zip(keys, one, strict=True)) for one in page]}

    def get_function_configuration(self, *, FunctionName: str) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        return {"Environment": {"Variables": self.functions[FunctionName]}} if self.functions[FunctionName] else {}

    def assume_role(self, *, RoleArn: str, RoleSessionName: str) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        if "denied" in RoleArn:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "AssumeRole")
        assert RoleSessionName == "fleetwright"
        return {"Credentials": {"AccessKeyId": "A", "SecretAccessKey": "B", "SessionToken": RoleArn}}


RESOURCES = [
    [("AWS::IAM::Role", "provisionFunctionRole1", "no"), (FUNCTION, "executeFunction2", "execute")],
    [(FUNCTION, "provisionFunction3", "provision"), (FUNCTION, "provisionFunction4", "later")],
]


def stacks(**functions: dict[str, str]) -> Stacks:
    found = {"provision": SETTINGS.to_environment(), **functions}
    return Stacks({"fleetwright-prod": RESOURCES, "other": RESOURCES, "empty": RESOURCES[:1]}, found)


@pytest.mark.parametrize(("stack", "name"), [(None, "fleetwright-prod"), ("", "fleetwright-prod"), ("other", "other")])
def test_the_stack_is_named_after_the_cluster_or_given(stack: str | None, name: str) -> None:
    session: Any = stacks()
    found = installation_in(session, "prod", stack)
    assert (found.cluster, found.stack, found.settings, found.session) == ("prod", name, SETTINGS, session)


@pytest.mark.parametrize(
    ("stack", "environment", "said"),
    [
        ("empty", None, "the stack empty has no function `provision`\nhint: --stack names another stack"),
        ("none", None, "no installation for cluster prod: An error occurred (ValidationError)"),
        (None, {}, "provision: environment"),
        (None, {**SETTINGS.to_environment(), "PLAN_ROUNDS": "x"}, "hint: it is of another release than this program"),
    ],
)
def test_what_is_not_there_is_said(stack: str | None, environment: dict[str, str] | None, said: str) -> None:
    session: Any = stacks() if environment is None else stacks(provision=environment)
    with pytest.raises(InputError) as raised:
        installation_in(session, "prod", stack)
    assert said in str(raised.value)


def test_the_credentials_are_those_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str | None, str | None]] = []

    def session(profile: str | None, region: str | None) -> Stacks:
        asked.append((profile, region))
        if profile == "none":
            raise ProfileNotFound(profile="none")
        return stacks()

    monkeypatch.setattr(cli.cluster.installation, "_session", session)
    assert find_installation("prod", region="eu-west-1", profile="me", stack="other").stack == "other"
    with pytest.raises(InputError, match="no installation for cluster prod: The config profile") as raised:
        find_installation("prod", region=None, profile="none", stack=None)
    assert "--profile, --region and --stack say" in str(raised.value)
    assert asked == [("me", "eu-west-1"), ("none", None)]


def test_a_place_is_searched_under_its_role() -> None:
    """In the region of the user's own session: the role has none."""
    session: Any = stacks()
    found = account_region(SearchPlace(role="arn:role/reads", region="eu-west-1", session=session))
    credentials = found.session.get_credentials()
    assert (found.role, found.region, found.session.region_name) == ("arn:role/reads", "eu-west-1", "eu-west-1")
    assert (credentials.access_key, credentials.secret_key, credentials.token) == ("A", "B", "arn:role/reads")
    own = account_region(SearchPlace(role="", region="eu-west-1", session=session))
    assert own == AccountRegion(role="", region="eu-west-1", session=session)


def test_a_place_that_cannot_be_searched_says_why() -> None:
    session: Any = stacks()
    with pytest.raises(InputError, match=r"sts:AssumeRole: .*AccessDenied"):
        account_region(SearchPlace(role="arn:role/denied", region="eu-west-1", session=session))
    with pytest.raises(InputError, match="no credentials"):
        account_region(SearchPlace(role="", region="eu-west-1", problem=f"no credentials: {NoCredentialsError()}"))
