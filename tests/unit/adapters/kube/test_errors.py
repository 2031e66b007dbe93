from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.kube.errors import of_answer, of_listing
from adapters.ports import DeniedError, EvictionBlockedError, ThrottledError
from core.manifests.wire import api_resources as kinds


def test_a_kind_that_is_not_served_says_what_to_apply() -> None:
    """Otherwise, a cluster with definitions of another release fails with a bare 404, which elsewhere means success."""
    error = of_listing("kube:list nodepools", kinds.NODE_POOLS, 404, b"404 page not found\n")
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
