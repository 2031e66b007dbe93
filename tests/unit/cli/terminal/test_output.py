"""Output in its three formats."""

from __future__ import annotations

import json

import pytest
import yaml

from cli.answers.plan_document import claim_document, disruption_document, plan_document
from cli.terminal import output
from core.model.node_claim import ObjectRef
from core.model.plan import Binding, Cost, DisruptionCost, DisruptionPlan, Plan, PlannedClaim, Unschedulable
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from tests.builders import NOW

CLAIM = PlannedClaim(
    name="default-0",
    node_pool="default",
    node_class=ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "default"),
    labels={"team": "a"},
    taints=(Taint("gpu", "NoSchedule", "true"), Taint("b", "NoExecute")),
    requirements=(Requirement.of("size", "Gt", ["3"], min_values=2), Requirement.one_of("zone", "a")),
    instance_types=("m7g.xlarge", "m6g.xlarge"),
    zones=("us-east-1a",),
    capacity_types=("spot",),
    resources={"pods": 14, "memory": 9 * 2**30, "cpu": 3200},
    pods=("shop/cart-0",),
    price=163_200_000,
)


def test_a_claim_has_the_format_of_the_contract() -> None:
    """Other programs read it."""
    assert claim_document(CLAIM) == {
        "name": "default-0",
        "nodePool": "default",
        "labels": {"team": "a"},
        "taints": [{"key": "gpu", "effect": "NoSchedule", "value": "true"}, {"key": "b", "effect": "NoExecute"}],
        "startupTaints": [],
        "requirements": [
            {"key": "size", "operator": "Gte", "values": ["4"], "minValues": 2},
            {"key": "zone", "operator": "In", "values": ["a"]},
        ],
        "instanceTypes": ["m7g.xlarge", "m6g.xlarge"],
        "zones": ["us-east-1a"],
        "capacityTypes": ["spot"],
        "resources": {"cpu": "3200m", "memory": "9Gi", "pods": "14"},
        "pods": ["shop/cart-0"],
        "price": 0.1632,
    }


def test_a_plan_says_cost_bound_and_gap() -> None:
    """Without a bound, both stay empty; a plan that costs nothing has no gap."""
    plan = Plan(
        now=NOW,
        claims=(CLAIM,),
        bindings=(Binding("a/b", "n"),),
        unschedulable=(Unschedulable("a/c", "NoOfferingFits", "too big"),),
        cost=Cost(200_000_000, 150_000_000),
    )
    document = plan_document(plan)
    assert document["now"] == "2026-11-20T00:00:00Z"
    assert document["cost"] == {"hourly": 0.2, "lowerBound": 0.15, "gap": 0.25, "spotHourly": 0.1632}
    assert document["bindings"] == [{"pod": "a/b", "node": "n"}]
    page = "docs/reference/reason-codes.md#noofferingfits"
    assert document["unschedulable"] == [{"pod": "a/c", "reason": "NoOfferingFits", "message": "too big", "page": page}]
    assert plan_document(Plan(now=NOW))["cost"] == {"hourly": 0.0, "lowerBound": None, "gap": None, "spotHourly": 0.0}
    assert plan_document(Plan(now=NOW, cost=Cost(0, 0)))["cost"]["gap"] == 0.0


def test_an_unlimited_budget_is_null() -> None:
    """Zero would mean that no node may be disrupted."""
    plan = DisruptionPlan(now=NOW, budgets={"default": {"Empty": None, "Drifted": 0}}, cost=DisruptionCost(2, 1, 1))
    assert disruption_document(plan)["budgets"] == {"default": {"Empty": None, "Drifted": 0}}


def test_table_columns_are_aligned() -> None:
    """It must be readable without colour or a wide terminal."""
    text = output.table(("NAME", "N"), [("a", 1), ("longer", 20)])
    assert text.splitlines() == ["NAME     N", "a        1", "longer  20"]


def test_columns_of_short_words_shrink_until_a_narrow_terminal_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns broke the rows of a plan anywhere: no column went below 18."""
    monkeypatch.setattr(output, "line_width", lambda: 30)
    drawn = output.table(["TYPE", "CAPACITY"], [["m5.large (or 2 others)", "on-demand, spot"]])
    assert max(map(len, drawn.splitlines())) <= 30
    assert {"m5.large", "on-demand,"} <= set(drawn.split())


def test_long_lists_are_cut_with_a_count() -> None:
    """Sixty instance types do not fit on a line."""
    assert output.several(["a", "b", "c", "d"], 2) == "a, b +2"
    assert output.several(["a"]) == "a"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_output_goes_to_standard_output_in_the_requested_format(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe does not change the format: people page through tables, programs ask for JSON."""
    document = {"kind": "Plan", "text": "größer", "list": [1, None]}
    output.show(document, form, lambda _: "table")
    text = capsys.readouterr().out
    assert (yaml.safe_load(text) if form == "yaml" else json.loads(text)) == document
    for person in ("table", None):
        output.show(document, person, lambda _: "table\n\n")
        assert capsys.readouterr().out == "table\n"
