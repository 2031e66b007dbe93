"""Answers about the pods of one namespace."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cli.answers.one_namespace import OneNamespace
from cli.errors import InputError
from core.model.plan import (
    Binding,
    Blocked,
    BufferRoom,
    Command,
    Cost,
    DisruptionCost,
    DisruptionPlan,
    Move,
    Plan,
    PlannedClaim,
    Unschedulable,
)
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Snapshot

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def pod(key: str, node: str = "") -> Pod:
    namespace, name = key.split("/")
    return Pod(namespace=namespace, name=name, node_name=node, spec=PodSpec(requests={"pods": 1}))


SNAPSHOT = Snapshot(
    now=NOW,
    pods=(
        pod("shop/cart"),
        pod("shop/web", "a"),
        pod("shop/huge"),
        pod("shop/small"),
        pod("mail/in"),
        pod("mail/out", "a"),
        pod("mail/huge"),
        pod("mail/small"),
        pod("mail/box", "b"),
    ),
)


def claim(name: str, price: int, *pods: str) -> PlannedClaim:
    return PlannedClaim(
        name=name,
        node_pool="default",
        node_class="default",
        instance_types=("m.small",),
        zones=("z",),
        price=price,
        pods=pods,
    )


def test_a_plan_keeps_the_nodes_and_pods_of_the_namespace() -> None:
    """A node that both namespaces share is whole: its price is what the namespace's pods need."""
    plan = Plan(
        now=NOW,
        claims=(claim("both", 3, "mail/in", "shop/cart"), claim("theirs", 5, "mail/other")),
        bindings=(Binding("mail/small", "a"), Binding("shop/small", "a")),
        unschedulable=(
            Unschedulable("mail/huge", "NoOfferingFits", ""),
            Unschedulable("shop/huge", "NoOfferingFits", ""),
        ),
        buffers=(BufferRoom("mail/room", 1), BufferRoom("shop/room", 2)),
        cost=Cost(8, 7),
    )
    narrowed = OneNamespace(SNAPSHOT, "shop").plan(plan)
    assert narrowed.claims == plan.claims[:1]
    assert narrowed.bindings == plan.bindings[1:]
    assert narrowed.unschedulable == plan.unschedulable[1:]
    assert narrowed.buffers == plan.buffers[1:]
    assert narrowed.cost == Cost(3, None), "the bound is proven for the whole plan alone"


def test_a_plan_for_the_namespace_alone_keeps_its_bound() -> None:
    plan = Plan(
        now=NOW, claims=(claim("ours", 3, "shop/cart"),), bindings=(Binding("mail/small", "a"),), cost=Cost(3, 2)
    )
    assert OneNamespace(SNAPSHOT, "shop").plan(plan).cost == Cost(3, 2)


def test_commands_that_reach_the_namespace_stay() -> None:
    """A command counts if its node runs pods of the namespace, DaemonSets included, or if it moves one of them."""
    reaching = Command(reason="Empty", method="emptiness", nodes=("a",), claims=("ca",), savings=4)
    moving = Command(
        reason="Underutilized",
        method="single",
        nodes=("c",),
        claims=("cc",),
        moves=(Move("shop/cart", "b"),),
        savings=2,
    )
    other = Command(
        reason="Underutilized", method="single", nodes=("b",), claims=("cb",), moves=(Move("mail/box", "a"),), savings=1
    )
    plan = DisruptionPlan(
        now=NOW,
        commands=(reaching, moving, other),
        blocked=(Blocked("a", "Nominated", ""), Blocked("b", "Nominated", "")),
        cost=DisruptionCost(20, 13, 9),
    )
    narrowed = OneNamespace(SNAPSHOT, "shop").disruption(plan)
    assert narrowed.commands == (reaching, moving)
    assert narrowed.blocked == plan.blocked[:1]
    assert narrowed.cost == DisruptionCost(20, 14, 9)
    assert OneNamespace(SNAPSHOT, "mail").disruption(plan).commands == (reaching, other)


def test_a_status_keeps_the_pending_pods_and_the_nodes() -> None:
    document = {
        "pendingPods": ["mail/in", "shop/cart"],
        "claims": [{"name": "ca", "node": "a"}, {"name": "cb", "node": "b"}, {"name": "cc", "node": None}],
        "cost": {"hourly": 1.0},
    }
    assert OneNamespace(SNAPSHOT, "shop").status(document) == {
        "pendingPods": ["shop/cart"],
        "claims": [{"name": "ca", "node": "a"}],
        "cost": {"hourly": 1.0},
    }


@pytest.mark.parametrize(
    ("name", "pods", "hint"),
    [
        ("shp", SNAPSHOT.pods, "did you mean 'shop'?"),
        ("x", SNAPSHOT.pods, "namespaces with pods: mail, shop"),
        (
            "x",
            tuple(pod(f"team-{n}/p") for n in range(7)),
            "namespaces with pods: team-0, team-1, team-2, team-3, team-4 and 2 more",
        ),
        ("x", (), "there is no pod at all"),
    ],
)
def test_a_namespace_without_pods_is_refused(name: str, pods: tuple[Pod, ...], hint: str) -> None:
    """An empty answer would say that all is well."""
    with pytest.raises(InputError, match=f"no pod is in the namespace '{name}'") as refused:
        OneNamespace(Snapshot(now=NOW, pods=pods), name)
    assert refused.value.hint == hint
