"""A permission that is missing leaves the market unread, or old: NodePools tell, until it is read again."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play


def _told(result: Result) -> list[tuple[str, str]]:
    """Status and reason of the condition MarketStale, each time that they change."""
    pools = [one["object"] for one in named(result, "objectApplied") if one["kind"] == "NodePool"]
    conditions = [found for pool in pools for found in pool.get("status", {}).get("conditions", ())]
    told = [(found["status"], found["reason"]) for found in conditions if found["type"] == "MarketStale"]
    return [entry for entry, _ in groupby(told)]


def _denied(call: str, at: str, lasts: str) -> dict[str, Any]:
    return {"at": at, "fault": {"call": call, "kind": "denied", "code": "AccessDeniedException", "for": lasts}}


def test_node_pools_tell_that_the_market_was_never_read_until_it_is(tmp_path: Path) -> None:
    """Pods waited, and only a failed run of another function said why."""
    steps = [_denied("ec2:DescribeInstanceTypes", "0s", "3m")]
    result = play(tmp_path, node_pool(), deployment(1), steps=steps, catalog=None, duration="15m")
    assert_lawful(result)
    assert _told(result) == [("True", "NeverRead"), ("False", "NotStale")]
    assert result.summary["podsPending"] == 0


@pytest.mark.slow
def test_node_pools_tell_that_prices_are_old_until_they_are_read_again(tmp_path: Path) -> None:
    """Plans went by old prices, and only an alarm of the account said so."""
    steps = [_denied("pricing:GetProducts", "1m", "3h10m")]
    result = play(tmp_path, node_pool(), steps=steps, catalog=None, duration="3h25m")
    assert_lawful(result)
    assert _told(result) == [("False", "NotStale"), ("True", "PricesStale"), ("False", "NotStale")]


def test_pods_that_come_before_any_spot_price_was_read_get_spot_nodes_at_once(tmp_path: Path) -> None:
    """Plans take spot at the on-demand price until then, so it is neither avoided nor replaced once its price is known."""
    pods = {"at": "1m", "apply": [deployment(3, cpu="12")]}
    steps = [_denied("ec2:DescribeSpotPriceHistory", "0s", "6m"), pods]
    result = play(tmp_path, node_pool(), steps=steps, catalog=None, duration="20m")
    assert_lawful(result)
    launched = happened(result, "instanceLaunched")
    assert {one.fields["capacityType"] for one in launched} == {"spot"}
    assert all("T00:01" <= one.t[10:16] < "T00:02" for one in launched)
    assert named(result, "instanceTerminated") == []
    assert result.summary["podsPending"] == 0
