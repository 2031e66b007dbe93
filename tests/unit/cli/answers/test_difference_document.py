"""Two plans beside each other: a pod is lost or gained, a node drifts, and an amount has its sign."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cli.answers.difference_document import Side, as_markdown, as_table, difference_document
from core.api.objects import JsonObject
from core.model.plan import Plan, Unschedulable
from core.model.snapshot import Snapshot
from core.reasons.drift import DriftReason
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type

TYPE = a_type("m5.large")
CLAIM, NODE = a_node_of(TYPE)
PODS = tuple(a_pod(name) for name in ("both", "gained", "lost", "placed"))
WORLD = a_snapshot(types=(TYPE,), pods=PODS, nodes=(NODE,), node_claims=(CLAIM,))


def side(*unplaced: str, hourly: float = 0.5, snapshot: Snapshot = WORLD) -> Side:
    lost = tuple(Unschedulable(f"default/{name}", "NoOfferingFits", "too big") for name in unplaced)
    plan = Plan(now=NOW, claims=(), bindings=(), unschedulable=lost)
    return Side(snapshot=snapshot, plan=plan, hourly=round(hourly * 1_000_000_000), prices={"region": ""})


def compared(before: Side, after: Side) -> JsonObject:
    return difference_document(before, after)


def test_pods_are_lost_or_gained_only_if_they_are_there_afterwards() -> None:
    document = compared(side("both", "gained", "deleted"), side("both", "lost"))
    assert (document["podsLost"], document["podsGained"]) == (["default/lost"], ["default/gained"])
    assert list(document["reasons"]) == ["default/both", "default/lost"]
    assert document["reasons"]["default/lost"]["message"] == "too big"
    assert document["before"] == {
        "hourly": 0.5,
        "monthly": 365.0,
        "nodes": 1,
        "unschedulable": ["default/both", "default/deleted", "default/gained"],
    }


def test_nodes_that_begin_to_drift_are_named() -> None:
    (pool,) = WORLD.node_pools
    drifted = msgspec.structs.replace(WORLD, node_pools=(msgspec.structs.replace(pool, labels={"team": "b"}),))
    document = compared(side(), side(snapshot=drifted))
    for found in document["nodesDrifted"]:
        assert (found["node"], found["nodePool"]) == (NODE.name, pool.name)
    assert compared(side(), side())["nodesDrifted"] == []


def a_document(**changes: Any) -> JsonObject:
    plain = {"hourly": 0.5, "monthly": 365.0, "nodes": 4, "unschedulable": []}
    fixed: JsonObject = {"before": plain, "after": plain, "prices": None, "podsLost": [], "podsGained": []}
    return {**fixed, "nodesDrifted": [], "reasons": {}, **changes}


def rows(document: JsonObject) -> dict[str, str]:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in as_markdown(document).splitlines()]
    return {cells[0]: cells[3] for cells in lines if len(cells) == 4 and cells[0] and "-" not in cells[0][:2]}


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (("0.5", 4, 0), ("0.5", 4, 0), ("=", "=", "=", "=")),
        (("0.5", 4, 0), ("0.75", 6, 2), ("+2", "+0.2500 (+50%)", "+182 (+50%)", "+2")),
        (("0.5", 4, 3), ("0.25", 3, 1), ("-1", "-0.2500 (-50%)", "-182 (-50%)", "-2")),
        (("0", 0, 0), ("2.5", 1, 0), ("+1", "+2.5000", "+1,825", "=")),
        (("0.5", 4, 0), ("0.50004", 4, 0), ("=", "=", "=", "=")),
    ],
)
def test_each_change_has_its_sign_and_its_share(
    before: tuple[str, int, int], after: tuple[str, int, int], changes: tuple[str, ...]
) -> None:
    def one(hourly: str, nodes: int, lost: int) -> JsonObject:
        cost = float(hourly)
        monthly = round(cost * 730, 2)
        return {"hourly": cost, "monthly": monthly, "nodes": nodes, "unschedulable": ["p"] * lost}

    found = rows(a_document(before=one(*before), after=one(*after)))
    assert tuple(found[name] for name in ("nodes", "$ an hour", "$ a month", "pods without a place")) == changes


def drift(node: str, reason: str, pool: str = "general") -> JsonObject:
    return {"node": node, "nodePool": pool, "reason": reason}


def test_what_changed_is_named_below_the_table_ten_at_most() -> None:
    pods = [f"shop/{number:02}" for number in range(11)]
    known = next(iter(DriftReason))
    document = a_document(
        podsLost=pods,
        podsGained=["shop/a|b"],
        reasons={"shop/00": {"reason": "NoOfferingFits"}},
        nodesDrifted=[drift("a", str(known)), drift("b", str(known)), drift("c", "Own", "gpu")],
    )
    text, markdown = as_table(document), as_markdown(document)
    for part in (
        "11 pods left without a place\n  shop/00  [NoOfferingFits]\n  shop/01\n",
        "  shop/09\n  and 1 more\n",
        "1 pod given a place\n  shop/a|b\n",
        "3 nodes to be replaced, as the disruption budgets allow\n",
        f"  NodePool general: 2 nodes, {known}: {known.clause}\n",
        "  NodePool gpu: 1 node, Own\n  a\n  b\n  c",
    ):
        assert part in f"{text}\n"
    assert "shop/10" not in text
    assert "**11 pods left without a place**\n\n- shop/00  [NoOfferingFits]\n- shop/01\n" in markdown
    assert "- shop/a b" in markdown
    assert "| nodes that drift | - | 3 | +3 |" in markdown


def test_of_equal_sides_only_the_table_is_shown() -> None:
    assert len(as_table(a_document()).splitlines()) == 6
    assert as_table(a_document(podsLost=["a"] * 10)).count("more") == 0
    assert "prices: eu-west-1" in as_table(a_document(prices={"region": "eu-west-1", "date": "", "source": "a file"}))
