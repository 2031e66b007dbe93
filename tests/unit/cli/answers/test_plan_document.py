"""The cost of a plan as data: its bound, the distance to it, and the part that is launched as spot."""

from __future__ import annotations

import pytest

from cli.answers.plan_document import disruption_document, plan_document
from core.api.objects import JsonObject
from core.model.plan import Blocked, BufferRoom, Cost, DisruptionCost, DisruptionPlan, Plan, PlannedClaim
from tests.builders import CLASS_REF, NOW

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
