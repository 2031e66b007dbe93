"""The page about the comparison says what was measured, and what the ratios are."""

from __future__ import annotations

import msgspec

from tests.e2e.peer.figures import Burst, Footprint, Halved, Result, to_json
from tests.e2e.peer.page import figures


def result(side: str, *, last_pod: float, dollars: float) -> Result:
    footprint = Footprint(memory_mb={"controller": 100.0})
    burst = Burst(
        first_claim_seconds=5.0,
        last_claim_seconds=6.0,
        last_running_seconds=last_pod,
        waiting=0,
        claims=9,
        nodes=9,
        dollars_per_hour=dollars,
        footprint=footprint,
        pod_seconds={"bound": (1.0, 2.0, 3.5)},
    )
    halved = Halved(
        seconds=40.0,
        is_settled=True,
        evictions=10,
        launched=0,
        waiting=0,
        nodes=4,
        dollars_per_hour=dollars / 2,
        trail=[],
        footprint=footprint,
    )
    return Result(
        side=side, pods=300, taken_at="2026-11-23T05:00:00+00:00", burst=burst, halved=halved, load=[0.1, 0.2]
    )


def test_ratios_and_moments_are_those_of_the_run() -> None:
    """Ratios by hand would stay when the figures have changed."""
    results = [result("fleetwright", last_pod=30.0, dollars=3.0), result("karpenter", last_pod=40.0, dollars=8.0)]
    written = figures(msgspec.json.decode(to_json(results, {"cores": 2, "bootSeconds": 20.0})))
    assert "| 300 | 0.75 | 0.38 | 0.38 | 1.00 | 1.00 |" in written
    assert "| 300 | karpenter | pod bound | 1 | 2 | 3.5 |" in written
    assert "on 2 processors; a node boots for 20 s" in written


def test_a_side_alone_has_no_ratio() -> None:
    """Half a comparison is none."""
    written = figures(
        msgspec.json.decode(to_json([result("karpenter", last_pod=1.0, dollars=1.0)], {"cores": 2, "bootSeconds": 20}))
    )
    assert "Ours over" not in written
