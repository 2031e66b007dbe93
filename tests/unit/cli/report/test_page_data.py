"""The data of a page: each node with its moments, its cost to the digit, and the first of its pods."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from cli.report.node_lifetimes import NodeLifetime
from cli.report.page_data import PODS_NAMED_MAX, PageContent, page_data
from cli.report.series import Series

START = datetime(2026, 11, 20, tzinfo=UTC)
SECOND = round(START.timestamp())


def data(lines: Series, *lives: NodeLifetime) -> dict[str, Any]:
    events = [(START, "simulationStarted", {}), (START + timedelta(hours=1), "simulationEnded", {})]
    found: dict[str, Any] = json.loads(page_data(PageContent(summary={}, events=events, decisions=()), lines, lives))
    return found


def lines(**changes: Any) -> Series:
    empty: dict[str, Any] = {"times": (), "pending": (), "nodes": {}, "hourly": (), "kept": (), "spent": ()}
    return Series(**{**empty, **changes})


def test_dollars_an_hour_have_four_digits_and_those_that_were_spent_three() -> None:
    third = 1 / 3
    found = data(
        lines(times=(START,), pending=(2,), nodes={"spot": (1,)}, hourly=(third,), kept=(third,), spent=(third,))
    )
    assert found == {
        "start": SECOND,
        "end": SECOND + 3600,
        "t": [SECOND],
        "pending": [2],
        "nodes": {"spot": [1]},
        "hourly": [0.3333],
        "kept": [0.3333],
        "spent": [0.333],
        "bands": [],
        "lives": [],
    }


def test_a_node_has_the_moments_that_happened_and_its_first_pods_once() -> None:
    fields = {"instance": "i-1", "instanceType": "m5.large", "zone": "a", "capacityType": "spot", "price": 0.12345}
    life = NodeLifetime(START, {**fields, "tags": {"karpenter.sh/nodepool": "web"}})
    pods = [f"a/{number}" for number in range(PODS_NAMED_MAX + 2)]
    life.pods = [*pods[:1], *pods]
    life.claim, life.reason, life.joined = "web-1", "<Empty>", START + timedelta(seconds=90)
    life.evicted = [(START, "a/0")]
    (found,) = data(lines(), life)["lives"]
    assert found == {
        "name": "i-1",
        "claim": "web-1",
        "pool": "web",
        "type": "m5.large",
        "zone": "a",
        "capacity": "spot",
        "price": 0.12345,
        "cost": 0.1235,
        "reason": "<Empty>",
        "pods": pods[:PODS_NAMED_MAX],
        "podCount": len(pods),
        "evicted": 1,
        "launched": SECOND,
        "joined": SECOND + 90,
    }
    assert "<" not in page_data(PageContent(summary={}, events=[(START, "x", {})], decisions=()), lines(), [life])
