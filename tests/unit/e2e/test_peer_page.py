"""The page about the comparison shows what was measured, and the ratios."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from core import labels
from core.model.catalogue import InstanceType
from core.model.values.quantity import nanodollars, parse
from simulator.aws.installation import builtin_region
from tests.builders import a_type
from tests.e2e.cloud.server import ZONES, in_zones
from tests.e2e.peer import objects
from tests.e2e.peer.figures import Burst, Footprint, Halved, Result, to_json
from tests.e2e.peer.page import figures, median_run, picture


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


# Karpenter gets the same types, prices and capacities as our functions; otherwise, the comparison is worthless.


KWOK_TAKES = {"cpu": parse("100m", "cpu"), "memory": parse("10Mi", "memory")}
"""What Karpenter's kwok provider reserves on every type (kubeReserved in its helpers)."""


@pytest.fixture(scope="module")
def types() -> tuple[InstanceType, ...]:
    return in_zones(builtin_region(), ZONES).types


@pytest.fixture(scope="module")
def translated(types: tuple[InstanceType, ...]) -> dict[str, dict[str, Any]]:
    found = objects.instance_types(types, objects.admitted(objects.pools()[0]))
    return {one["name"]: one for one in found}


def test_karpenter_may_choose_among_the_same_types(
    types: tuple[InstanceType, ...], translated: dict[str, dict[str, Any]]
) -> None:
    """A missing type makes it pay more; an additional type gives it an unfair advantage."""

    def is_everyday(one: InstanceType) -> bool:
        (category,) = one.labels["karpenter.k8s.aws/instance-category"]
        (generation,) = one.labels["karpenter.k8s.aws/instance-generation"]
        return category in "cmr" and int(generation) > 4 and one.labels[labels.ARCH] == ("amd64",)

    assert sorted(translated) == sorted(one.name for one in types if is_everyday(one))


def test_a_node_has_the_same_allocatable_on_both_sides(
    types: tuple[InstanceType, ...], translated: dict[str, dict[str, Any]]
) -> None:
    """Otherwise one side packs more pods onto the same machine."""
    for one in types:
        if one.name in translated:
            given = {key: parse(text, key) for key, text in translated[one.name]["resources"].items()}
            left = {key: amount - KWOK_TAKES.get(key, 0) for key, amount in given.items()}
            assert left == one.allocatable()


def test_every_offering_has_its_price(types: tuple[InstanceType, ...], translated: dict[str, dict[str, Any]]) -> None:
    """Otherwise, one side buys in a cheaper market."""
    for one in types:
        if one.name in translated:
            given = {_place(offering): nanodollars(offering["Price"]) for offering in translated[one.name]["offerings"]}
            assert given == {(o.capacity_type, o.zone): o.price for o in one.offerings}


def test_the_nodepool_keeps_its_meaning() -> None:
    """Fields that the file of types covers are left out; taints, labels, weight and all else stay."""
    for pool in objects.pools():
        own = objects.for_karpenter(pool)
        template, before = own["spec"]["template"], pool["spec"]["template"]
        keys = [one["key"] for one in template["spec"]["requirements"]]
        assert keys == [labels.ARCH, labels.CAPACITY_TYPE]
        assert template["metadata"] == before["metadata"]
        assert template["spec"].get("taints") == before["spec"].get("taints")
        assert {**own["spec"], "template": {}} == {**pool["spec"], "template": {}}


def test_consolidation_begins_after_the_burst() -> None:
    """Otherwise, fewer nodes are counted after the burst than were bought; or, later, only empty ones go."""
    for pool in objects.pools():
        before = pool["spec"]["disruption"]
        after = before | objects.consolidating()["spec"]["disruption"]
        assert (before["consolidateAfter"], after["consolidateAfter"]) == ("Never", objects.CONSOLIDATE_AFTER)
        assert after["consolidationPolicy"] == "WhenEmptyOrUnderutilized"


@pytest.mark.parametrize("pods", objects.DEPLOYMENTS)
def test_every_size_has_its_number_of_pods(pods: int) -> None:
    assert sum(one["spec"]["replicas"] for one in objects.workload(pods)) == pods


def test_nodes_cost_the_price_of_their_offering() -> None:
    """A spot node in one zone is not an on-demand node in another; the price of an unplaced node is unknown."""
    prices = objects.Prices([a_type("m5.large", price=0.1)])
    place = {labels.INSTANCE_TYPE: "m5.large", labels.ZONE: "us-east-1a"}
    nodes = [
        {"metadata": {"labels": place | {labels.CAPACITY_TYPE: labels.SPOT}}},
        {"metadata": {"labels": place | {labels.CAPACITY_TYPE: labels.ON_DEMAND}}},
        {"metadata": {"labels": {labels.CAPACITY_TYPE: labels.SPOT}}},
    ]
    assert prices.per_hour(nodes) == nanodollars(0.14)


def _place(offering: dict[str, Any]) -> tuple[str, str]:
    values = {one["key"]: one["values"][0] for one in offering["Requirements"]}
    return values[labels.CAPACITY_TYPE], values[labels.ZONE]
