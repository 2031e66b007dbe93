"""Calls to AWS end within a minute, however a region behaves."""

from __future__ import annotations

from cli.cluster.bounded_calls import bounded_calls


def test_a_call_ends_within_a_minute() -> None:
    config = bounded_calls()
    assert (config.connect_timeout, config.read_timeout, config.max_pool_connections) == (4, 12, 10)
    assert config.retries == {"mode": "standard", "total_max_attempts": 3}
    assert 3 * (config.connect_timeout + config.read_timeout) < 60
    assert bounded_calls(connections=32).max_pool_connections == 32
