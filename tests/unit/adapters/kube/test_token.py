"""The token that authenticates us to the API server."""

from __future__ import annotations

import base64
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import boto3
import botocore.session
import pytest

from adapters.kube.token import VALID_FOR, EksToken, presigner
from adapters.ports import DeniedError
from tests.builders import NOW


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self):  # type: ignore[no-untyped-def]
        return self.time


def a_session(region: str = "us-east-1") -> boto3.Session:
    return boto3.Session("AKID", "secret", "session-token", region_name=region)


def signed(token: str) -> str:
    prefix, _, encoded = token.partition(".")
    assert prefix == "k8s-aws-v1"
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()


@pytest.mark.parametrize(
    "region", ["us-gov-west-1", "cn-north-1", "eusc-de-east-1", "us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1"]
)
def test_a_token_is_signed_for_the_security_service_of_its_partition(region: str) -> None:
    """EKS refuses a token for the STS of another partition: nothing would be observed there."""
    session = botocore.session.get_session()
    suffix = session.get_component("endpoint_resolver").get_partition_dns_suffix(
        session.get_partition_for_region(region)
    )
    url = urlsplit(signed(EksToken(presigner(a_session(region), cluster="shop"), Watch())()))
    assert url.netloc == f"sts.{region}.{suffix}"


def test_the_token_authenticates_us_to_one_cluster() -> None:
    """Otherwise, EKS would answer 401 to everything; a token for one cluster must not open another."""
    url = urlsplit(signed(EksToken(presigner(a_session("eu-west-1"), cluster="shop"), Watch())()))
    query = parse_qs(url.query)
    assert (url.scheme, url.netloc) == ("https", "sts.eu-west-1.amazonaws.com")
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert query["X-Amz-Credential"][0].startswith("AKID/")
    assert query["X-Amz-Credential"][0].endswith("/eu-west-1/sts/aws4_request")
    assert query["X-Amz-Security-Token"] == ["session-token"]


def test_the_token_is_kept_while_it_is_valid() -> None:
    """Signing for each request costs time; an expired token costs a failed run."""
    watch, made = Watch(), iter(("first", "second", "third"))
    token = EksToken(lambda: next(made), watch)
    assert signed(token()) == "first"
    watch.time += VALID_FOR - timedelta(seconds=1)
    assert signed(token()) == "first"
    watch.time += timedelta(seconds=1)
    assert signed(token()) == "second"
    token.renew()
    assert signed(token()) == "third"


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message must name the cause, not the server's 401."""
    session = a_session()
    monkeypatch.setattr(session, "get_credentials", lambda: None)
    with pytest.raises(DeniedError, match="credentials"):
        EksToken(presigner(session, cluster="shop"), Watch())()
