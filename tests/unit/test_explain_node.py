"""Explanations of nodes with what they cost and who holds their NodePool's budgets."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.explain_node import explain_node_now
from core.model.node_pool import Budget, Disruption, NodeClass
from core.model.snapshot import Options, Snapshot
from core.model.values.commitment import ReservedInstances
from core.model.values.requirements import Requirement
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type


def closed(*budgets: Budget) -> Snapshot:
    """One nearly empty node of a NodePool with these budgets."""
    pool = a_pool("default", disruption=Disruption(consolidate_after=timedelta(0), budgets=budgets))
    claim, node = a_node_of(a_type(), "busy")
    pods = (a_pod("web", cpu="100m", node_name=node.name, phase="Running"),)
    return a_snapshot(types=(a_type(),), node_pools=(pool,), nodes=(node,), node_claims=(claim,), pods=pods)


def test_a_node_that_budgets_keep_says_what_it_costs_and_when_they_change() -> None:
    """The words "let no more nodes go" alone do not say whether to wait an hour or a week."""
    window = Budget("0", schedule="0 0 * * *", duration=timedelta(hours=23))
    snapshot = closed(window)
    snapshot = msgspec.structs.replace(snapshot, now=NOW.replace(hour=12, minute=0))
    text = str(explain_node_now(snapshot, "busy"))
    assert "[Budget]" in text
    assert " an hour in NodePool default" in text
    assert "the budgets let go now: 0 Drifted, 0 Empty, 0 Underutilized" in text
    assert "the budgets change at " in text
    assert "23:00 UTC" in text


def test_a_node_that_a_commitment_covers_says_so() -> None:
    """Zero dollars an hour alone look like a mistake."""
    reserved = ReservedInstances(name="bought", instance_type="m5.large", count=1)
    snapshot = msgspec.structs.replace(closed(), options=Options(commitments=(reserved,)))
    text = str(explain_node_now(snapshot, "busy"))
    assert "costs $0.0000 an hour in NodePool default, covered by commitment bought" in text


def test_a_node_that_is_not_ours_has_no_price() -> None:
    _, node = a_node_of(a_type(), "strange")
    snapshot = a_snapshot(types=(a_type(),), nodes=(node,), node_claims=())
    assert "costs" not in str(explain_node_now(snapshot, "strange"))


def test_a_node_whose_pods_fit_nowhere_else_names_its_own_pod_and_what_that_lacks() -> None:
    """It said `pod web would find no place: `, with a pod of another node and no reason."""
    types = (a_type("small", cpu="4", price=0.1), a_type("large", cpu="8", price=0.2))
    pool = a_pool("default", disruption=Disruption(consolidate_after=timedelta(0), budgets=()))
    claims, nodes = zip(*(a_node_of(types[1], name) for name in ("a", "b")), strict=True)
    pods = tuple(
        a_pod(
            f"web-{node.name}", cpu="100m", node_name=node.name, phase="Running",
            node_selector=(Requirement.one_of("rack", "1"),),
        )
        for node in nodes
    )  # fmt: skip
    snapshot = a_snapshot(types=types, node_pools=(pool,), nodes=nodes, node_claims=claims, pods=pods)
    for node in nodes:
        text = str(explain_node_now(snapshot, node.name))
        assert f"pod default/web-{node.name} would find no place" in text
        assert f"without this node pod default/web-{node.name} lacks a place" in text
        assert "rack" in text


@pytest.mark.parametrize(
    ("kind", "after", "text"),
    [
        (
            "capacity-block",
            1,
            "leaves capacity block cr-1 at 2026-11-20 01:00 UTC; consolidation moves no pod to it before",
        ),
        ("capacity-block", 24, "leaves capacity block cr-1 at 2026-11-21 00:00 UTC"),
        ("default", 24, "is on-demand once capacity reservation cr-1 ends, at 2026-11-21 00:00 UTC"),
    ],
)
def test_a_node_in_a_reservation_says_when_that_ends(kind: str, after: int, text: str) -> None:
    """Its end explains why nothing is moved to a node that costs nothing."""
    snapshot = closed()
    own = {labels.RESERVATION_ID: "cr-1", labels.RESERVATION_TYPE: kind}
    (node,) = snapshot.nodes
    snapshot = msgspec.structs.replace(
        snapshot,
        nodes=(msgspec.structs.replace(node, labels={**node.labels, **own}),),
        node_classes=(NodeClass(name="default", reservation_ends={"cr-1": NOW + timedelta(hours=after)}),),
    )
    assert text in explain_node_now(snapshot, "busy").details
