"""Calls to AWS end within a minute, however a region behaves."""

from __future__ import annotations

import pytest

from cli.cluster.bounded_calls import bounded_calls


@pytest.mark.parametrize("more", [{}, {"connections": 32}])
def test_a_call_ends_within_a_minute_with_all_its_attempts(more: dict[str, int]) -> None:
    config = bounded_calls(**more)
    attempts = config.retries["total_max_attempts"]
    assert attempts > 1, "a call that is throttled once is tried again"
    assert attempts * (config.connect_timeout + config.read_timeout) < 60
    assert config.max_pool_connections == more.get("connections", config.max_pool_connections)
