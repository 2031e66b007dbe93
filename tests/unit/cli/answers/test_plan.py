"""A plan as people read it: how many pods get a place where, at what cost, and why others get none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cli.answers import plan
from cli.answers.plan import (
    disruption_document,
    disruption_names,
    disruption_table,
    group_rows,
    minimum_answer,
    plan_document,
    plan_names,
    plan_table,
    plan_wide,
    prices_line,
    proven_distance,
)
from cli.schemas.periods import MinimumAnswer
from cli.terminal.style import on_one_line_each
from core import labels
from core.api.objects import JsonObject
from core.counterfactual.overrides import ProvenMinimum
from core.model.plan import Blocked, BufferRoom, Cost, DisruptionCost, DisruptionPlan, Plan, PlannedClaim, PlannedGroup
from tests.builders import CLASS_REF, NOW

# A disruption plan as people read it before they run it.


CLAIM = {"name": "general-0", "instanceTypes": ["c6a.large", "c6a.xlarge"]}
NODES = [f"ip-10-0-{number}-117.eu-central-1.compute.internal" for number in range(4)]


def a_command(nodes: list[str], **changes: Any) -> dict[str, Any]:
    moves = [{"pod": f"shop/{node}", "to": "general-0"} for node in nodes]
    command = {
        "reason": "Underutilized",
        "method": "repack",
        "nodes": nodes,
        "replacements": [CLAIM],
        "moves": moves,
        "savings": 0.5,
        "paybackMinutes": 4,
    }
    return command | changes


def a_document(*commands: dict[str, Any], stay: int = 0) -> dict[str, Any]:
    message = "the disruption budgets of NodePool general let no more nodes go now"
    return {
        "commands": list(commands),
        "blocked": [{"node": f"n{number}", "reason": "Budget", "message": message} for number in range(stay)],
        "budgets": {"general": {"Empty": 1, "Underutilized": 1}, "gpu": {"Empty": None, "Underutilized": 0}},
        "cost": {"before": 2.0, "after": 1.5, "lowerBound": 1.25},
    }


def test_a_command_is_described_once_and_neither_saves_nor_costs_less_than_nothing() -> None:
    text = disruption_table(a_document(a_command(NODES[:2])))
    first, second = [line for line in text.splitlines() if line.startswith("ip-")]
    assert first.split()[1] == "Underutilized"
    assert second.split() == [NODES[1]]
    for after, told in ((2.0, ": saves $0.0000 an hour"), (2.5, ": costs $0.5000 an hour"), (1.0, ": saves $1.0000")):
        cost = {"before": 2.0, "after": after, "lowerBound": None}
        assert told in disruption_table({**a_document(a_command(NODES[:1])), "cost": cost}).splitlines()[0]


def test_the_summary_comes_first_and_node_names_stay_whole() -> None:
    """The names of the disrupted nodes matter most."""
    lines = disruption_table(a_document(a_command(NODES))).splitlines()
    assert lines[0].startswith("4 nodes go, 1 comes, 4 pods move: saves $0.5000 an hour, $365 a month, 25%; ")
    assert lines[0].endswith("; each command pays for itself within 4 minutes")
    assert lines[1] == "$2.0000 an hour before, $1.5000 after; 20.0% above the proven minimum of $1.2500 an hour"
    assert [word for line in lines[4:] for word in line.split() if word.startswith("ip-")] == NODES
    assert lines[4].split()[-1] == "0.5000"


def test_nodes_that_stay_for_the_same_reason_share_an_entry() -> None:
    """Forty nodes took ninety lines with the same text."""
    document = a_document(stay=36)
    text = disruption_table(document)
    assert text.startswith("no node goes; $2.0000 an hour, $1,460 a month")
    assert "36 nodes stay [Budget]: the disruption budgets" in text
    assert "  n0, n1, n2 +33" in text
    assert "n35" in disruption_table(document, shows_all=True)
    budgets = "general 1; gpu any number for Empty, 0 for Underutilized"
    assert f"nodes that NodePools' budgets let go now: {budgets}" in text
    assert "budgets let go before these commands: general 1" in disruption_table(a_document(a_command(NODES)))


def test_waves_and_names_are_shown_where_there_are_any() -> None:
    text = disruption_table(a_document(a_command(NODES[:1], wave=1), a_command(NODES[1:2], wave=2, replacements=[])))
    assert text.splitlines()[3].split()[:4] == ["NODE", "THAT", "GOES", "WAVE"]
    assert "nothing" in text
    assert disruption_names(a_document(a_command(NODES[:2]))) == f"node/{NODES[0]}\nnode/{NODES[1]}"


def test_nodes_of_one_code_with_many_messages_share_an_entry_that_quotes_one_of_them() -> None:
    """The words with the node's name taken out read `is expected on node it, and 19 more such reasons`."""
    document = a_document()
    document["blocked"] = [
        {"node": f"n{number}", "reason": "Nominated", "message": f"pod shop/web-{number} is expected on node n{number}"}
        for number in range(6)
    ]
    text = disruption_table(document)
    assert "6 nodes stay [Nominated], such as n0: pod shop/web-0 is expected on it\n  n1, n2, n3 +2" in text
    assert "every node: --all, or fleetwright explain n0" in text
    assert "n5 stays [Nominated]: pod shop/web-5 is expected on it" in disruption_table(document, shows_all=True)


@pytest.mark.parametrize(
    ("node", "message", "told"),
    [
        ("n", "node n has no NodeClaim", "it has no NodeClaim"),
        ("ip-10", "node ip-10 waits for ip-10-0-1-2", "it waits for ip-10-0-1-2"),
        ("web", "pods shop/web, web.shop and my-web stay on web.", "pods shop/web, web.shop and my-web stay on it."),
    ],
)
def test_only_a_nodes_whole_name_is_said_as_it(node: str, message: str, told: str) -> None:
    """A node `n` was said to have `ito NodeClaim`."""
    document = {**a_document(), "blocked": [{"node": node, "reason": "NotManaged", "message": message}]}
    assert f"{node} stays [NotManaged]: {told}\n" in disruption_table(document)


def test_each_command_says_what_replaces_its_nodes() -> None:
    document = a_document(a_command(NODES[:1]), a_command(NODES[1:2], replacements=[], moves=[]))
    first, second = (line for line in disruption_table(document).splitlines() if line.startswith("ip-10-0"))
    assert "general-0" in first
    assert "nothing" in second


def test_a_command_that_never_pays_back_and_one_without_moves() -> None:
    """The longest payback counts; without one nothing is said of it."""
    several = [a_command(NODES[:1], paybackMinutes=minutes) for minutes in (None, 1, None)]
    assert "each command pays for itself within 1 minute\n" in disruption_table(a_document(*several))
    assert "pays for itself" not in disruption_table(a_document(a_command(NODES[:1], paybackMinutes=None)))


def test_without_commands_and_nodes_that_stay_there_are_no_tables() -> None:
    assert "NODE THAT GOES" not in disruption_table(a_document(stay=1))
    assert "every node: --all, or fleetwright explain n0" in disruption_table(a_document(stay=1))
    assert "every node" not in disruption_table(a_document(a_command(NODES)))
    assert "every node" not in disruption_table(a_document(stay=1), shows_all=True)


# What a cost is an hour and a month, and how far it is from what is proven.


@pytest.mark.parametrize(
    ("lower_bound", "told"),
    [
        (None, ""),
        (2.0, "proven to be the minimum"),
        (1.6, "25.0% above the proven minimum of $1.6000 an hour"),
        (0.0000001, ""),
        (0.0, ""),
        (0.2, "900.0% above the proven minimum of $0.2000 an hour"),
        (0.1999, ""),
        (1.999, "proven to be the minimum"),
        (1.9989, "0.1% above the proven minimum of $1.9989 an hour"),
    ],
)
def test_only_a_bound_that_says_something_is_shown(lower_bound: float | None, told: str) -> None:
    """With a capacity reservation a plan was told to be 238596457.9% above its minimum."""
    assert proven_distance(2.0, lower_bound) == told


def test_answers_have_dollars_to_six_digits_a_month_to_cents_and_hours_to_four() -> None:
    third = 1 / 3
    assert (plan.amount(third), plan.cents(third), plan.hours(third)) == (0.333333, 0.33, 0.3333)
    assert (plan.share(1, 3), plan.share(1, 0)) == (0.333333, None)


def test_a_plan_is_the_proven_minimum_to_the_digits_of_a_price() -> None:
    assert proven_distance(2000.0, 1999.0) == "proven to be the minimum"
    assert proven_distance(2000.0, 1998.99) == "0.1% above the proven minimum of $1,998.9900 an hour"


# The cost of a plan as data: its bound, the distance to it, and the part that is launched as spot.


HALF = 500_000_000


def a_claim(*capacity_types: str) -> PlannedClaim:
    return PlannedClaim(
        name="c", node_pool="p", node_class=CLASS_REF, requirements=(), instance_types=("m5.large",), zones=("z",),
        capacity_types=capacity_types, resources={}, pods=(), price=HALF,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("capacity_types", "spot"),
    [
        (("spot",), 0.5),
        (("on-demand", "spot"), 0.5),
        (("on-demand",), 0.0),
        (("on-demand", "reserved", "spot"), 0.0),
        (("reserved",), 0.0),
    ],
)
def test_a_node_that_may_be_spot_is_launched_as_spot_unless_a_reservation_has_room(
    capacity_types: tuple[str, ...], spot: float
) -> None:
    plan = Plan(now=NOW, claims=(a_claim(*capacity_types), a_claim("on-demand")))
    assert plan_document(plan)["cost"]["spotHourly"] == spot


@pytest.mark.parametrize(
    ("cost", "document"),
    [
        (Cost(HALF), {"hourly": 0.5, "lowerBound": None, "gap": None}),
        (Cost(HALF, HALF // 2), {"hourly": 0.5, "lowerBound": 0.25, "gap": 0.5}),
        (Cost(3, 2), {"hourly": 3e-09, "lowerBound": 2e-09, "gap": 0.333333}),
        (Cost(0, 0), {"hourly": 0.0, "lowerBound": 0.0, "gap": 0.0}),
    ],
)
def test_the_gap_is_the_share_of_the_cost_above_the_bound(cost: Cost, document: JsonObject) -> None:
    assert plan_document(Plan(now=NOW, cost=cost))["cost"] == {**document, "spotHourly": 0.0}


def test_buffers_are_there_where_there_are_any() -> None:
    assert "buffers" not in plan_document(Plan(now=NOW))
    found = plan_document(Plan(now=NOW, buffers=(BufferRoom("a/b", 1, 2, 3),)))["buffers"]
    assert found == [{"buffer": "a/b", "onExistingNodes": 1, "onNewNodes": 2, "withoutRoom": 3}]


GROUP = PlannedGroup(name="ml/train", source="PodGroup", members=8, minimum=8, placed=8, domain={labels.ZONE: "a"})


def test_groups_are_there_where_there_are_any() -> None:
    assert "groups" not in plan_document(Plan(now=NOW))
    waiting = msgspec.structs.replace(GROUP, placed=7, domain={}, reason="GroupIncomplete", message="7 of 8")
    found = plan_document(Plan(now=NOW, groups=(GROUP, waiting)))["groups"]
    assert found[0] == {
        "name": "ml/train",
        "source": "PodGroup",
        "members": 8,
        "minimum": 8,
        "placed": 8,
        "domain": {"topology.kubernetes.io/zone": "a"},
        "hourly": 0.0,
    }
    assert (found[1]["reason"], found[1]["message"]) == ("GroupIncomplete", "7 of 8")
    rows = group_rows(found).splitlines()
    assert [row.split() for row in rows[1:]] == [
        ["ml/train", "PodGroup", "8", "of", "8", "8", "a", "0.0000"],
        ["ml/train", "PodGroup", "7", "of", "8", "8", "any", "[GroupIncomplete]"],
    ]


def test_nodes_that_stay_say_what_their_later_removal_saves() -> None:
    plan = DisruptionPlan(
        now=NOW,
        blocked=(Blocked("a", "Budget", "later", HALF), Blocked("b", "Nominated", "a pod comes")),
        budgets={"p": {"Empty": None, "Drifted": 1}},
        cost=DisruptionCost(HALF, HALF // 2, HALF // 4),
    )
    document = disruption_document(plan)
    assert [one.get("savings") for one in document["blocked"]] == [0.5, None]
    assert document["budgets"] == {"p": {"Empty": None, "Drifted": 1}}
    assert document["cost"] == {"before": 0.5, "after": 0.25, "lowerBound": 0.125}
    assert disruption_document(DisruptionPlan(now=NOW))["cost"]["lowerBound"] is None


def claim(name: str = "general-0", **changes: Any) -> JsonObject:
    plain: JsonObject = {"name": name, "nodePool": "general", "instanceTypes": ["m5.large"], "zones": ["us-east-1a"]}
    cost = {"price": 0.5, "resources": {"cpu": "2", "memory": "8Gi"}, "capacityTypes": ["spot"], "pods": ["a/p"]}
    return {**plain, **cost, **changes}


def a_plan(*claims: JsonObject, **changes: Any) -> JsonObject:
    hourly = sum(found["price"] for found in claims)
    plain: JsonObject = {"nodeClaims": list(claims), "bindings": [], "unschedulable": []}
    return {**plain, "cost": {"hourly": hourly, "lowerBound": None, "spotHourly": 0}, **changes}


def lost(pod: str, reason: str = "NoOfferingFits", message: str = "too big\nNodePool b: no") -> JsonObject:
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


# The proven minimum in reports.


def test_a_minimum_is_compared_with_what_was_spent_in_the_same_time() -> None:
    """Otherwise, an hour's minimum stands beside a week's cost."""
    found = minimum_answer(ProvenMinimum(cost=1_250_000_000, spent=2_000_000_000, over=timedelta(minutes=90)))
    assert msgspec.convert(found, MinimumAnswer) == MinimumAnswer(dollars=1.25, spent_meanwhile=2.0, hours=1.5)


def test_without_a_proof_there_is_none() -> None:
    assert minimum_answer(None) is None


def test_each_node_pools_reason_has_a_line_of_its_own_in_the_table() -> None:
    """Line ends are escaped in tables, and the message of a pod was one line."""
    waiting = {"pod": "a/p", "reason": "NoFit", "message": "NodePool x: too small\nNodePool y: tainted"}
    shown = plan._unplaced(on_one_line_each({"unschedulable": [waiting]}), shows_all=True)
    assert r"\n" not in shown
    assert len([line for line in shown.splitlines() if "NodePool " in line]) == 2
