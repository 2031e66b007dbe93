"""A plan as people read it: how many pods get a place where, at what cost, and why others get none."""

from __future__ import annotations

from typing import Any

import pytest

from cli.answers.plan_table import plan_names, plan_table, plan_wide, prices_line
from core.api.objects import JsonObject


def claim(name: str = "general-0", **changes: Any) -> JsonObject:
    plain: JsonObject = {"name": name, "nodePool": "general", "instanceTypes": ["m5.large"], "zones": ["us-east-1a"]}
    cost = {"price": 0.5, "resources": {"cpu": "2", "memory": "8Gi"}, "capacityTypes": ["spot"], "pods": ["a/p"]}
    return {**plain, **cost, **changes}


def a_plan(*claims: JsonObject, **changes: Any) -> JsonObject:
    hourly = sum(found["price"] for found in claims)
    plain: JsonObject = {"nodeClaims": list(claims), "bindings": [], "unschedulable": []}
    return {**plain, "cost": {"hourly": hourly, "lowerBound": None, "spotHourly": 0}, **changes}


def lost(pod: str, reason: str = "NoOfferingFits", message: str = "too big\n  NodePool b: no") -> JsonObject:
    return {"pod": pod, "reason": reason, "message": message}


def bound(*pods: str, node: str = "n1") -> list[JsonObject]:
    return [{"pod": pod, "node": node} for pod in pods]


def shown(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line]


@pytest.mark.parametrize(
    ("plan", "summary"),
    [
        (a_plan(), "no pod waits"),
        (a_plan(claim()), "1 pod waits: 1 gets 1 new node"),
        (a_plan(claim(pods=["a/p", "a/q"]), claim()), "3 pods wait: 3 get 2 new nodes"),
        (a_plan(bindings=bound("a/p")), "1 pod waits: 1 fits on 1 existing node"),
        (a_plan(bindings=bound("a/p", "a/q")), "2 pods wait: 2 fit on 1 existing node"),
        (a_plan(unschedulable=[lost("a/p")]), "1 pod waits: 1 has no place"),
        (
            a_plan(claim(), bindings=bound("a/q") + bound("a/r", node="n2"), unschedulable=[lost("a/s"), lost("a/t")]),
            "5 pods wait: 1 gets 1 new node; 2 fit on 2 existing nodes; 2 have no place",
        ),
        (a_plan(claim(pods=[])), "0 pods wait"),
    ],
)
def test_the_first_line_counts_the_pods(plan: JsonObject, summary: str) -> None:
    assert shown(plan_table(plan))[0] == summary


@pytest.mark.parametrize(
    ("cost", "line"),
    [
        ({}, "$0.5000 an hour, $365 a month"),
        ({"spotHourly": 0.125}, "$0.5000 an hour, $365 a month, 25% of it spot"),
        ({"lowerBound": 0.5}, "$0.5000 an hour, $365 a month; proven to be the minimum"),
        ({"lowerBound": 0.4}, "$0.5000 an hour, $365 a month; 25.0% above the proven minimum of $0.4000 an hour"),
    ],
)
def test_the_second_line_is_the_cost_of_new_nodes(cost: JsonObject, line: str) -> None:
    plan = a_plan(claim())
    assert shown(plan_table({**plan, "cost": plan["cost"] | cost}))[1] == line
    assert not any("an hour" in part for part in shown(plan_table(a_plan(bindings=bound("a/p")))))


def test_nodes_that_a_commitment_covers_are_counted() -> None:
    plan = a_plan(claim(commitment="b"), claim(commitment="a"), claim(commitment="b"), claim())
    assert shown(plan_table(plan))[1].endswith("; a covers 1 new node, b covers 2 new nodes")
    assert any("spot (b)" in line for line in shown(plan_table(plan)))


def test_nodes_that_differ_only_in_zone_and_pods_share_a_row() -> None:
    plan = a_plan(
        claim("general-0"),
        claim("general-1", zones=["us-east-1b"], pods=["a/q", "a/r"]),
        claim("general-2", instanceTypes=["m5.large", "m5.xlarge", "c5.large"], capacityTypes=["spot", "on-demand"]),
        claim("general-3", price=0.25),
    )
    assert shown(plan_table(plan))[3:] == [
        "2 x general m5.large 2 zones spot 1 to 2 0.5000",
        "general-2 m5.large (or 2 others) us-east-1a spot, on-demand 1 0.5000",
        "general-3 m5.large us-east-1a spot 1 0.2500",
    ]
    every = shown(plan_table(plan, shows_all=True))
    assert every[3:5] == ["general-0 m5.large us-east-1a spot 1 0.5000", "general-1 m5.large us-east-1b spot 2 0.5000"]
    assert every[-4:] == ["general-0 a/p", "general-1 a/q, a/r", "general-2 a/p", "general-3 a/p"]
    assert shown(plan_wide(plan))[3:5] == [
        "general-0 m5.large us-east-1a spot 2 8Gi 1 0.5000",
        "general-1 m5.large us-east-1b spot 2 8Gi 2 0.5000",
    ]
    assert shown(plan_wide(a_plan(claim(resources={}, instanceTypes=["a", "b"]))))[-1] == (
        "general-0 a +1 us-east-1a spot 0 0 1 0.5000"
    )
    assert plan_names(plan).splitlines()[1] == "nodeclaim.karpenter.sh/general-1"


def test_existing_nodes_are_rows_ten_at_most() -> None:
    bindings = [one for number in range(11) for one in bound("a/1", "a/2", "a/3", "a/4", node=f"n{number:02}")]
    some, every = (
        shown(plan_table(a_plan(bindings=bindings))),
        shown(plan_table(a_plan(bindings=bindings), shows_all=True)),
    )
    assert some[2:4] == ["n00 4 a/1, a/2, a/3 +1", "n01 4 a/1, a/2, a/3 +1"]
    assert some[-1] == "and 1 more: --all"
    assert len(some) == 13
    assert every[-1] == "n10 4 a/1, a/2, a/3, a/4"
    assert not any("more" in line for line in shown(plan_table(a_plan(bindings=bindings[:40]))))


def test_pods_without_a_place_are_grouped_by_reason() -> None:
    unplaced = [lost(f"a/{number}") for number in range(4)] + [lost("b/0", "LimitReached", "full")]
    some = shown(plan_table(a_plan(unschedulable=unplaced)))
    assert some[1:4] == [
        "no place for 4 pods (a/0, a/1, a/2 +1) [NoOfferingFits]",
        "too big",
        "no place for b/0 [LimitReached]",
    ]
    assert "every NodePool's reason: --all, or fleetwright explain a/0" in some
    every = shown(plan_table(a_plan(unschedulable=unplaced), shows_all=True))
    assert every[1:4] == ["no place for 4 pods (a/0, a/1, a/2, a/3) [NoOfferingFits]", "too big", "NodePool b: no"]
    assert not any("--all" in line for line in every)
    many = a_plan(unschedulable=[lost(f"a/{number}", message=str(number)) for number in range(12)])
    assert "and 2 more reasons: --all" in shown(plan_table(many))
    assert sum(line.startswith("no place for") for line in shown(plan_table(many))) == 10
    assert not any("more reasons" in line for line in shown(plan_table(many, shows_all=True)))


def test_room_of_capacity_buffers_is_a_table() -> None:
    room = {"buffer": "a/spare", "onExistingNodes": 1, "onNewNodes": 2, "withoutRoom": 3}
    assert shown(plan_table(a_plan(buffers=[room])))[-1] == "a/spare 1 2 3"


@pytest.mark.parametrize(
    ("prices", "line"),
    [
        (None, ""),
        (
            {"region": "eu-west-1", "date": "2026-11-20", "source": "built in"},
            "prices: eu-west-1 of 2026-11-20, built in",
        ),
        ({"region": "eu-west-1", "date": "", "source": "a file"}, "prices: eu-west-1, a file"),
        ({"region": "", "date": "", "source": "a file"}, "prices: a file"),
        ({"region": "cn-north-1", "date": "", "source": "a file"}, "prices: cn-north-1, a file, in yuan, shown as $"),
    ],
)
def test_prices_have_region_date_source_and_currency(prices: JsonObject | None, line: str) -> None:
    assert prices_line({"prices": prices}) == line
