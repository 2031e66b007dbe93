"""Unhealthy nodes are replaced, and only those."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import repair
from core.model.feature_gates import FeatureGates
from core.model.node import NodeCondition
from core.model.node_claim import DRIFTED, Condition
from core.model.node_pool import Budget, Disruption
from core.model.plan import Command
from core.model.pod import Pod
from core.model.snapshot import Options, Snapshot
from core.reasons.refusal import Refusal
from core.reasons.termination import TerminationReason
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import checked

TYPE = a_type("m5.large")
MINUTE = timedelta(minutes=1)
REPAIRS = Options(feature_gates=FeatureGates(node_repair=True))
DEAD = NodeCondition("Ready", "Unknown", NOW - 30 * MINUTE)


def world(*ill: NodeCondition, nodes: int = 3, pods: tuple[Pod, ...] = (), **changes: Any) -> Snapshot:
    """Nodes, the first with these conditions; nothing can be consolidated."""
    budgets = changes.pop("budgets", (Budget("1"),))
    pairs = [a_node_of(TYPE, f"node-{n}") for n in range(nodes)]
    first = msgspec.structs.replace(
        pairs[0][1],
        conditions=ill,
        is_ready=not any(c.type == "Ready" for c in ill),
        annotations={**pairs[0][1].annotations, **changes.pop("annotations", {})},
    )
    return a_snapshot(
        types=(TYPE,),
        node_pools=(a_pool(disruption=Disruption(budgets=budgets, consolidate_after=None)),),
        nodes=(first, *(node for _, node in pairs[1:])),
        node_claims=tuple(claim for claim, _ in pairs),
        pods=pods,
        options=changes.pop("options", REPAIRS),
        **changes,
    )


def a_running(name: str, node: str, **changes: Any) -> Pod:
    return a_pod(name, node_name=node, **changes)


def repaired(snapshot: Snapshot) -> list[str]:
    """Nodes that go because they are unhealthy."""
    return [
        node
        for command in disrupt(snapshot).commands
        if command.reason == TerminationReason.UNHEALTHY
        for node in command.nodes
    ]


@pytest.mark.parametrize(
    ("ill", "goes"),
    [
        (DEAD, True),
        (NodeCondition("Ready", "False", NOW - 30 * MINUTE), True),
        (NodeCondition("Ready", "False", NOW - 29 * MINUTE), False),
        (NodeCondition("Ready", "True", NOW - 90 * MINUTE), False),
        (NodeCondition("AcceleratedHardwareReady", "False", NOW - 10 * MINUTE), True),
        (NodeCondition("KernelReady", "Unknown", NOW - 90 * MINUTE), False),
        (NodeCondition("MemoryPressure", "True", NOW - 90 * MINUTE), False),
        (NodeCondition("Ready", "False"), False),
    ],
)
def test_a_node_that_stays_unhealthy_goes(ill: NodeCondition, *, goes: bool) -> None:
    """After the times of Karpenter's policies on AWS, to the minute."""
    assert repaired(world(ill)) == (["node-0"] if goes else [])


def test_nothing_is_repaired_without_the_feature_gate() -> None:
    """As in Karpenter it is off by default."""
    assert repaired(world(DEAD, options=Options())) == []


def test_pods_of_an_unhealthy_node_get_a_place_first() -> None:
    """Otherwise, the repair itself is an outage."""
    pods = tuple(a_running(f"p{n}", f"node-{n % 3}", cpu="1500m") for n in range(3))
    (command,) = disrupt(world(DEAD, pods=pods)).commands
    assert (command.method, command.nodes, len(command.replacements)) == ("repair", ("node-0",), 1)
    assert checked(command, world(DEAD, pods=pods)) == command


def test_an_unhealthy_node_does_not_use_up_its_own_budget() -> None:
    """Budgets count nodes that are not Ready: with a budget of one, no node could ever be repaired."""
    assert repaired(world(DEAD, budgets=(Budget("1"),))) == ["node-0"]
    assert repaired(world(DEAD, budgets=(Budget("0"),))) == []


def test_two_unhealthy_nodes_do_not_block_each_other() -> None:
    """Found by review: each unready node uses up a place, so a budget of one kept both of them."""
    snapshot = world(DEAD, nodes=10)
    second = msgspec.structs.replace(snapshot.nodes[1], is_ready=False, conditions=(DEAD,))
    snapshot = msgspec.structs.replace(snapshot, nodes=(snapshot.nodes[0], second, *snapshot.nodes[2:]))
    (command,) = disrupt(snapshot).commands
    assert command.nodes == ("node-0",)
    assert checked(command, snapshot) == command
    going = msgspec.structs.replace(snapshot, marked_for_deletion=command.claims)
    assert disrupt(going).commands == ()


def test_a_budget_for_other_reasons_is_no_budget_for_repair() -> None:
    """Budgets of zero without reasons for repair are common; the cluster must still heal."""
    assert repaired(world(DEAD, budgets=(Budget("10%"), Budget("0", reasons=(TerminationReason.UNDERUTILIZED,))))) == [
        "node-0"
    ]


def test_an_annotation_stops_a_repair() -> None:
    """Its owner may be looking for the cause on that very node."""
    assert repaired(world(DEAD, annotations={labels.DO_NOT_DISRUPT: "true"})) == []
    pods = (a_running("p", "node-0", annotations={labels.DO_NOT_DISRUPT: "true"}),)
    assert repaired(world(DEAD, pods=pods)) == []


@pytest.mark.parametrize(("nodes", "goes"), [(5, False), (6, True), (10, True), (11, True)])
def test_no_node_is_repaired_where_many_are_unhealthy(nodes: int, *, goes: bool) -> None:
    """A fifth, rounded up: an outage of the API server makes every node look dead, and new ones would look the same."""
    snapshot = world(DEAD, nodes=nodes, budgets=(Budget("100%"),))
    second = msgspec.structs.replace(
        snapshot.nodes[1], is_ready=False, conditions=(NodeCondition("Ready", "Unknown", NOW),)
    )
    snapshot = msgspec.structs.replace(snapshot, nodes=(snapshot.nodes[0], second, *snapshot.nodes[2:]))
    plan = disrupt(snapshot)
    assert [command.nodes for command in plan.commands] == ([("node-0",)] if goes else [])
    assert ("ManyUnhealthy" in [block.reason for block in plan.blocked]) != goes


def test_a_recovered_node_stays() -> None:
    """A kubelet that restarted in between reports at once."""
    (command,) = disrupt(world(DEAD)).commands
    assert isinstance(checked(command, world()), Refusal)
    assert isinstance(checked(command, world(DEAD)), Command)


def test_an_unready_node_uses_the_budgets_once() -> None:
    """It uses a place as long as it is not Ready: counted twice, it would keep another unneeded node."""
    snapshot = world(DEAD, nodes=2, budgets=(Budget("2"),))
    (pool,) = snapshot.node_pools
    idle = msgspec.structs.replace(pool, disruption=Disruption(budgets=pool.disruption.budgets))
    plan = disrupt(msgspec.structs.replace(snapshot, node_pools=(idle,)))
    assert [(command.method, command.nodes) for command in plan.commands] == [
        ("repair", ("node-0",)),
        ("emptiness", ("node-1",)),
    ]


def test_the_method_finds_one_node_at_a_time() -> None:
    """The next node is judged in the world after the first."""
    (command,) = repair.find(DisruptionPass(world(DEAD)))
    assert (command.method, len(command.nodes)) == ("repair", 1)


def test_the_method_finds_nothing_without_the_feature_gate_or_an_unhealthy_node() -> None:
    assert repair.find(DisruptionPass(world(DEAD, options=Options()))) == []
    assert repair.find(DisruptionPass(world())) == []


def test_pods_of_an_unhealthy_node_go_to_no_node_that_leaves_soon_if_another_holds_them() -> None:
    """Otherwise, they move again as soon as the drifted node is replaced."""
    snapshot = world(DEAD, nodes=2, pods=(a_running("p", "node-0"), a_running("q", "node-1")))
    beside = snapshot.node_claims[1]
    conditions = {**beside.conditions, DRIFTED: Condition("True", "NodePoolDrifted", changed_at=NOW)}
    drifts = msgspec.structs.replace(beside, conditions=conditions)
    healthy, drifted = (
        repair.find(DisruptionPass(msgspec.structs.replace(snapshot, node_claims=(snapshot.node_claims[0], claim))))
        for claim in (beside, drifts)
    )
    assert [move.to for command in healthy for move in command.moves] == ["node-1"]
    assert [len(command.replacements) for command in drifted] == [1]
