"""Whom the authenticator of the suite with real parts accepts: it must refuse what EKS refuses."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import boto3
import pytest

from adapters.kube import PREFIX, EksToken, presigner
from tests.e2e.cloud.identities import Caller
from tests.e2e.cloud.sts_token import TokenError, caller_of

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
