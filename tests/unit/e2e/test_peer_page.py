"""The page about the comparison shows what was measured, and the ratios."""

from __future__ import annotations

import re

import msgspec

from tests.e2e.peer.figures import Burst, Footprint, Halved, Result, to_json
from tests.e2e.peer.page import figures
from tests.e2e.peer.picture import median_run, picture


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
    """Hand-written ratios would stay when the figures change."""
    results = [result("fleetwright", last_pod=30.0, dollars=3.0), result("karpenter", last_pod=40.0, dollars=8.0)]
    written = figures(msgspec.json.decode(to_json(results, {"cores": 2, "bootSeconds": 20.0, "quietSeconds": 90.0})))
    assert "| 300 | 1 and 1 | 0.75 | 0.38 | 0.38 | 1.00 | 1.00 |" in written
    assert "| 300 | karpenter | pod bound | 1 | 2 | 3.5 |" in written
    assert "on 2 processors; a node boots for 20 s" in written


def test_one_side_alone_has_no_ratio() -> None:
    """It cannot be compared."""
    written = figures(
        msgspec.json.decode(
            to_json(
                [result("karpenter", last_pod=1.0, dollars=1.0)], {"cores": 2, "bootSeconds": 20, "quietSeconds": 90}
            )
        )
    )
    assert "Ours over" not in written


def test_medians_of_the_runs_are_compared() -> None:
    """One disturbed run of three decides nothing."""
    ours = [result("fleetwright", last_pod=last_pod, dollars=4.0) for last_pod in (30.0, 90.0, 33.0)]
    theirs = [result("karpenter", last_pod=last_pod, dollars=8.0) for last_pod in (30.0, 36.0, 20.0)]
    written = figures(
        msgspec.json.decode(to_json([*ours, *theirs], {"cores": 2, "bootSeconds": 20, "quietSeconds": 90}))
    )
    assert "| 300 | 3 and 3 | 1.10 | 0.50 |" in written


def test_the_picture_shows_the_median_run_of_each_side() -> None:
    """A bar from the first pod to the last on the line of seconds, which ends beyond the last."""
    results = [
        result("fleetwright", last_pod=30.0, dollars=3.0),
        result("fleetwright", last_pod=20.0, dollars=3.0),
        result("fleetwright", last_pod=10.0, dollars=3.0),
        result("karpenter", last_pod=40.0, dollars=8.0),
    ]
    median = median_run(results, 300, "fleetwright")
    assert median is results[1]
    drawn = picture(results)
    assert drawn.count(">pod bound<") == 2
    bars = [float(width) for width in re.findall(r'width="([\d.]+)" height="12"', drawn)]
    assert bars == [193.8, 193.8]  # 2.5 s of 8 s on 620 pixels
