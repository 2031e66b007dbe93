"""The answer of a key's policy: yes, no, or open."""

from __future__ import annotations

from typing import Any

import pytest

from cli.doctor.key_policy import LaunchingRole, applies

ROLE = "arn:aws:iam::123456789012:role/fleetwright-prod-eu-west-1-execute"
LAUNCHING = LaunchingRole(ROLE, "123456789012", "eu-west-1")
ACTION = "kms:CreateGrant"


def asked(effect: str = "Allow", **statement: Any) -> bool | None:
    given = {"Effect": "Allow", "Principal": {"AWS": ROLE}, "Action": "kms:*", "Resource": "*", **statement}
    return applies({"Statement": given}, effect, LAUNCHING, ACTION)


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ({}, True),
        ({"Principal": "*"}, True),
        ({"Principal": {"AWS": ["arn:aws:iam::123456789012:root"]}}, False),
        ({"Principal": {"Service": "ec2.amazonaws.com"}}, False),
        ({"Action": ["kms:Decrypt", "KMS:create*"]}, True),
        ({"Action": "kms:Decrypt"}, False),
        ({"Action": None, "NotAction": "kms:Delete*"}, True),
        ({"Principal": None, "NotPrincipal": {"AWS": ROLE}}, False),
        ({"Principal": None, "NotPrincipal": {"AWS": "arn:aws:iam::123456789012:role/other"}}, True),
        ({"Effect": "Deny"}, False),
    ],
)
def test_principals_and_actions_are_compared_as_iam_does(statement: dict[str, Any], answer: bool) -> None:
    assert asked(**statement) is answer


@pytest.mark.parametrize("principal", ["123456789012", "arn:aws:iam::123456789012:root"])
def test_an_account_that_is_denied_denies_its_roles(principal: str) -> None:
    assert asked("Deny", Effect="Deny", Principal={"AWS": principal}) is True


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ({"Bool": {"kms:GrantIsForAWSResource": True}}, True),
        ({"Bool": {"kms:GrantIsForAWSResource": "false"}}, False),
        ({"StringEquals": {"kms:ViaService": ["s3.eu-west-1.amazonaws.com", "ec2.eu-west-1.amazonaws.com"]}}, True),
        ({"StringEquals": {"kms:ViaService": "ec2.us-east-1.amazonaws.com"}}, False),
        ({"StringEquals": {"kms:CallerAccount": "123456789012", "aws:PrincipalOrgID": "o-1"}}, None),
        ({"StringEquals": {"kms:CallerAccount": "999999999999", "aws:PrincipalOrgID": "o-1"}}, False),
        ({"ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/fleetwright-*"}}, False),
        ({"ForAnyValue:StringEquals": {"kms:CallerAccount": "123456789012"}}, None),
        ({"Bool": {"aws:SecureTransport": "false"}}, False),
    ],
)
def test_conditions_on_what_ec2_sends_are_judged_and_others_are_open(condition: Any, answer: bool | None) -> None:
    """A key with a condition used to count as one that admits everybody."""
    assert asked(Condition=condition) is answer
    assert asked("Deny", Effect="Deny", Condition=condition) is answer


def test_a_condition_on_the_service_is_open_in_china() -> None:
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "kms:*",
        "Condition": {"StringEquals": {"kms:ViaService": "ec2.cn-north-1.amazonaws.com"}},
    }
    assert applies({"Statement": [statement]}, "Allow", LAUNCHING._replace(region="cn-north-1"), ACTION) is None


def test_one_statement_that_applies_is_enough() -> None:
    closed = {"Effect": "Allow", "Principal": {"AWS": ROLE}, "Action": "kms:Decrypt"}
    unclear = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "kms:*",
        "Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}},
    }
    whole = {"Effect": "Allow", "Principal": {"AWS": [ROLE]}, "Action": ACTION}
    assert applies({"Statement": [closed, unclear]}, "Allow", LAUNCHING, ACTION) is None
    assert applies({"Statement": [closed, unclear, whole]}, "Allow", LAUNCHING, ACTION) is True
    assert applies({}, "Allow", LAUNCHING, ACTION) is False
