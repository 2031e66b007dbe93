"""The token that authenticates us to the API server."""

from __future__ import annotations

import base64
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import boto3
import botocore.session
import pytest

from adapters.kube import VALID_FOR, EksToken, RateLimit, of_answer, of_listing, presigner
from adapters.ports import DeniedError, EvictionBlockedError, ThrottledError
from core.manifests.wire import resources
from tests.builders import NOW


def test_a_kind_that_is_not_served_says_what_to_apply() -> None:
    """Otherwise, a cluster with definitions of another release fails with a bare 404, which elsewhere means success."""
    error = of_listing("kube:list nodepools", resources.NODE_POOLS, 404, b"404 page not found\n")
    assert isinstance(error, DeniedError)
    assert "karpenter.sh/v1" in str(error)
    assert "fleetwright crds" in str(error)


@pytest.mark.parametrize(
    ("body", "header", "seconds"),
    [
        (b'{"details": {"retryAfterSeconds": 7}}', "", 7),
        (b'{"details": {"retryAfterSeconds": 7}}', "9", 9),
        (b'{"details": {"retryAfterSeconds": 9223372036854775807}}', "", 60),
        (b'{"details": {"retryAfterSeconds": -5}}', "", 0),
        (b'{"details": null}', "9" * 5000, 60),
        (b'{"details": "soon"}', "", 0),
        (b'{"details": {"causes": ["later"]}}', "", 0),
        (b"[" * 100_000, "", 0),
        (b"Too many requests", "Thu, 26 Nov 2026 12:00:00 GMT", 0),
    ],
)
def test_whatever_a_busy_server_says_is_a_bounded_delay(body: bytes, header: str, seconds: int) -> None:
    """An admission webhook writes the answer's details: a delay of ages ended the message, and its node's drain with it."""
    error = of_answer("kube:create pods/eviction", 429, body, is_eviction=True, retry_after=header)
    assert isinstance(error, ThrottledError)
    assert error.retry_after == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "body",
    [
        b'{"details": {"causes": [{"reason": "DisruptionBudget"}]}}',
        b'{"message": "Cannot evict pod as it would violate the pod\'s disruption budget."}',
    ],
)
def test_a_budgets_refusal_is_no_overload(body: bytes) -> None:
    """Otherwise, one pod with a tight budget makes its whole node wait."""
    assert isinstance(of_answer("kube:create pods/eviction", 429, body, is_eviction=True), EvictionBlockedError)


# The request rate of one sandbox to the API server.


class Hand:
    """A clock that advances only when a caller sleeps or a test moves it."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.seconds += seconds


def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    """Otherwise, one function that lists a large cluster takes the server's time from everybody."""
    clock = Hand()
    limit = RateLimit(10, 5, now=clock.now, pause=clock.pause)
    for _ in range(5):
        limit()
    assert clock.seconds == 100.0
    for _ in range(20):
        limit()
    assert clock.seconds == pytest.approx(102.0)


def test_unused_rate_is_saved_up_to_a_burst_and_no_further() -> None:
    clock = Hand()
    limit = RateLimit(10, 5, now=clock.now, pause=clock.pause)
    clock.seconds += 3600
    for _ in range(6):
        limit()
    assert clock.seconds == pytest.approx(3700.1)


def test_concurrent_waiters_go_one_after_the_other() -> None:
    """If all threads woke at the same moment, they would form the burst that the rate is to prevent."""
    waits: list[float] = []
    limit = RateLimit(10, 1, now=lambda: 100.0, pause=waits.append)
    for _ in range(4):
        limit()
    assert waits == pytest.approx([0.1, 0.2, 0.3])


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
